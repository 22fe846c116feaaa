"""What is in a release, as SPDX 2.3: sbom.py VERSION FOLDER SOURCE-EPOCH > hakmem-VERSION.spdx.json

FOLDER holds the release's files. Of wheels and archives for a machine, each file is listed; of what is linked into the
wheel's programs, Debian's version; of the laboratory, the Python packages it asks for. The same files, the same text.
"""

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from license_expression import get_spdx_licensing
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Checksum,
    ChecksumAlgorithm,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    File,
    Package,
    PackageVerificationCode,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.writer.json.json_writer import write_document_to_stream

AUTHORS = Actor(ActorType.ORGANIZATION, "the hakmem authors")
MIT = get_spdx_licensing().parse("MIT")
# What scripts/wheel links statically into the programs of the laboratory, by Debian's package, and its licence.
LINKED = {"libzstd-dev": "BSD-3-Clause", "zlib1g-dev": "Zlib", "libc6-dev": "LGPL-2.1-or-later"}


def sums(data: bytes) -> list[Checksum]:
    return [
        Checksum(ChecksumAlgorithm.SHA1, hashlib.sha1(data).hexdigest()),
        Checksum(ChecksumAlgorithm.SHA256, hashlib.sha256(data).hexdigest()),
    ]


def members(path: Path) -> list[tuple[str, bytes]]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return [(name, wheel.read(name)) for name in sorted(wheel.namelist()) if name[-1] != "/"]
    with tarfile.open(path) as archive:
        files = [each for each in archive.getmembers() if each.isfile()]
        return [(each.name, (archive.extractfile(each) or sys.stdin.buffer).read()) for each in files]


def identifier(*words: str) -> str:
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-") for word in words)


class Bill:
    def __init__(self, version: str, epoch: int, folder: Path):
        self.version, self.folder = version, folder
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()
        self.document = Document(
            CreationInfo(
                spdx_version="SPDX-2.3",
                spdx_id="SPDXRef-DOCUMENT",
                name=f"hakmem-{version}",
                document_namespace=f"https://spdx.org/spdxdocs/hakmem-{version}-{digest[:32]}",
                creators=[AUTHORS, Actor(ActorType.TOOL, f"hakmem-sbom-{version}")],
                created=datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None),
            )
        )

    def relate(self, one: str, how: RelationshipType, other: str) -> None:
        self.document.relationships.append(Relationship(one, how, other))

    def artefact(self, path: Path) -> Package:
        name = identifier(path.name)
        package = Package(
            spdx_id=name,
            name=path.name,
            download_location=SpdxNoAssertion(),
            version=self.version,
            file_name=path.name,
            supplier=AUTHORS,
            files_analyzed=False,
            checksums=sums(path.read_bytes()),
            license_concluded=MIT,
            license_declared=MIT,
            copyright_text="the hakmem authors",
        )
        self.document.packages.append(package)
        self.relate("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, name)
        return package

    def contents(self, path: Path, package: Package) -> None:
        found = []
        for member, data in members(path):
            name = identifier(path.name, member, hashlib.sha1(member.encode()).hexdigest()[:8])
            self.document.files.append(File(name=f"./{member}", spdx_id=name, checksums=sums(data)))
            self.relate(package.spdx_id, RelationshipType.CONTAINS, name)
            found.append(hashlib.sha1(data).hexdigest())
        package.files_analyzed = True
        package.verification_code = PackageVerificationCode(hashlib.sha1("".join(sorted(found)).encode()).hexdigest())

    def other(self, name: str, version: str | None, purl: str, licence: str | None) -> str:
        spdx_id = identifier("uses", name)
        if not any(each.spdx_id == spdx_id for each in self.document.packages):
            reference = ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", purl)
            declared = get_spdx_licensing().parse(licence) if licence else SpdxNoAssertion()
            self.document.packages.append(
                Package(
                    spdx_id=spdx_id,
                    name=name,
                    download_location=SpdxNoAssertion(),
                    version=version,
                    files_analyzed=False,
                    license_declared=declared,
                    external_references=[reference],
                )
            )
        return spdx_id

    def linked(self, package: str) -> None:
        for name, licence in LINKED.items():
            command = ["dpkg-query", "-W", "-f", "${Version}", name]
            version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            made = self.other(name, version, f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}", licence)
            self.relate(package, RelationshipType.STATIC_LINK, made)

    def asked_for(self, package: str) -> None:
        for requirement in tomllib.loads(Path("lab/pyproject.toml").read_text())["project"]["dependencies"]:
            name = re.split(r"[<>=]", requirement)[0]
            self.relate(package, RelationshipType.DEPENDS_ON, self.other(name, None, f"pkg:pypi/{name}", None))


def main(version: str, folder: Path, epoch: int) -> None:
    bill = Bill(version, epoch, folder)
    source = bill.artefact(folder / f"hakmem-{version}.tar.gz").spdx_id
    for path in sorted([*folder.glob("*-linux-*.tar.gz"), *folder.glob("*.whl")]):
        made = bill.artefact(path)
        bill.contents(path, made)
        package = made.spdx_id
        bill.relate(package, RelationshipType.GENERATED_FROM, source)
        if path.suffix == ".whl":
            bill.linked(package)
            bill.asked_for(package)
        libc = bill.other("libc6", None, "pkg:deb/debian/libc6", "LGPL-2.1-or-later")
        bill.relate(package, RelationshipType.DYNAMIC_LINK, libc)
    write_document_to_stream(bill.document, sys.stdout, validate=True)


main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
