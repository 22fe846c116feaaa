"""A folder that all hosts see: it holds the job, and one file for every part that has begun.

    job.json            what is measured: spec, seed, shares
    parts/*.jsonl       one file for each part, append-only; only that part writes to it
    parts/*.left        a host that could not take part, with the reason

A share is a range of the fleet's blocks. A task first looks up which blocks of its share are finished. So a share that
is started again, on the same host or another one, continues where the earlier parts stopped.

`slurm` and `kubernetes` write the files that these two schedulers take: every task measures one share of the job.
"""

import contextlib
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from hakmem_fleet import part
from hakmem_fleet.gather import CLOSED, Gathering
from hakmem_fleet.gather import LEFT as LEFT_OUT
from hakmem_fleet.part import FleetSpec, Job
from hakmem_fleet.result import analyse
from hakmem_lab.errors import LabError, Stopped, StoreError, decoded, one_line, refused
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import normalised
from hakmem_lab.run.endings import Progress
from hakmem_lab.store.query import events
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import RunFile, Store
from hakmem_lab.system import files

JOB, PARTS, LEFT = "job.json", "parts", ".left"
SHARE_VARIABLES = ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX")


def shares_of(blocks: int, shares: int) -> list[range]:
    """The blocks of every share; the numbers of blocks differ by at most one."""
    ends = [blocks * index // shares for index in range(shares + 1)]
    return [range(first, last) for first, last in itertools.pairwise(ends)]


class Folder:
    """The job in a folder. Raises LabError where there is none."""

    def __init__(self, path: Path):
        self.path = path
        try:
            found = decoded(json.loads, (path / JOB).read_text(encoding="utf-8"))
            self.job, self.shares = Job(**found["job"]), int(found["shares"])
            self.spec, self.source = build(FleetSpec, found["spec"], str(path / JOB)), str(found["source"])
        except (OSError, ValueError, KeyError, TypeError):
            raise LabError(
                f"{path} holds no fleet's job: hak fleet SPEC.toml --engine slurm -o {path} writes one"
            ) from None

    @property
    def parts(self) -> Path:
        return self.path / PARTS

    @classmethod
    def create(cls, path: Path, spec: FleetSpec, shares: int, source: str) -> "Folder":
        """Raises LabError where the folder cannot be written, or holds another job."""
        if (path / JOB).exists():
            raise LabError(f"-o: {path} holds a fleet's job already; name another folder")
        if shares > spec.max_blocks:
            raise LabError(f"--shares: {shares} shares of {spec.max_blocks} blocks: some would have none")
        job = Job.of(spec, spec.seed)
        asked = {"job": job.plain(), "shares": shares, "spec": normalised(spec), "source": source}
        with refused(f"-o: cannot write {path}", kind=StoreError):
            (path / PARTS).mkdir(parents=True, exist_ok=True)
            (path / JOB).write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")
        return cls(path)

    def files(self) -> list[Path]:
        return sorted(self.parts.glob("*.jsonl"))

    def finished(self, blocks: Iterable[int]) -> set[int]:
        """Those of these blocks that any part has finished."""
        wanted = set(blocks)
        found: set[int] = set()
        for path in self.files():
            file = RunFile(path)
            with contextlib.suppress(LabError, OSError):
                if file.header("fleet")["fleet"]["job"] == self.job.id:
                    closed = (r for r in file.records() if r["type"] == "block" and r["ok"])
                    found.update(r["block"] for r in closed if r["phase"] == "measure")
        return found & wanted

    def measure(self, share: int, progress: Progress) -> int:
        """Measure the blocks of a share that are not finished yet; return their number. Raises LabError or Stopped."""
        if not 0 <= share < self.shares:
            raise LabError(f"--share: there is no share {share}; they are 0 to {self.shares - 1}")
        blocks = shares_of(self.job.blocks, self.shares)[share]
        left = [index for index in blocks if index not in self.finished(blocks)]
        if not left:
            return 0
        host = part.host_name()
        try:
            own = part.begin(self.job, host, self.parts)
        except LabError as error:
            self._leave(host, share, error)
            raise
        with own:
            for count, index in enumerate(left):
                progress.update(count, len(left), f"blocks of share {share} on {host}")
                if why := own.measure(index):
                    self._leave(host, share, why)
                    raise Stopped(f"share {share} on {host}: {why}")
        progress.restart()
        return len(left)

    def _leave(self, host: str, share: int, why: object) -> None:
        """Leave a note for `collect`."""
        note = {"job": self.job.id, "host": host, "share": share, "why": one_line(str(why))}
        path = self.parts / f"{share}-{secrets.token_hex(4)}{LEFT}"
        with contextlib.suppress(OSError):
            path.write_text(json.dumps(note) + "\n", encoding="utf-8")

    def left(self) -> list[tuple[str, str]]:
        """(host, why) for each host that could not take part."""
        found: dict[tuple[str, str], None] = {}
        for path in sorted(self.parts.glob(f"*{LEFT}")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                note = decoded(json.loads, path.read_text(encoding="utf-8"))
                if note["job"] == self.job.id:
                    found[f"{note['host']} (share {note['share']})", note["why"]] = None
        return list(found)


def share_here() -> int | None:
    """The share that the engine has given to this process; None outside of an engine."""
    for name in SHARE_VARIABLES:
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[name])
    return None


SCRIPT, MANIFEST, LOGS = "job.sbatch", "job.yaml", "logs"
MOUNT = "/fleet"
RETRIES_OF_A_SHARE = 3
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN, LONGEST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*"), 253  # RFC 1123, as Kubernetes has it


def _write(path: Path, text: str) -> Path:
    with refused(f"-o: cannot write {path}", kind=StoreError):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, text)
    return path


def _hak() -> list[str]:
    """The words that start this installation's `hak`."""
    found = shutil.which("hak")
    beside = Path(os.path.abspath(sys.executable)).with_name("hak")
    if beside.is_file():
        return [str(beside)]
    return [found] if found else [sys.executable, "-m", "hakmem_lab.cli.main"]


def check_slurm(place: Path) -> None:
    """Raises LabError if a path cannot be written into a Slurm script."""
    for path in (place.resolve(), Path.cwd()):
        if any(sign in str(path) for sign in '"\\\n'):
            raise LabError(f"-o: Slurm takes no quote, backslash or line break in a path: {path}")


def slurm(folder: Folder) -> Path:
    """A job array: one task for each share, alone on its node. If the node dies, Slurm requeues the task."""
    place = folder.path.resolve()
    logs = place / LOGS
    measure = shlex.join([*_hak(), "fleet", "--measure", str(place)])
    output = str(logs).replace("%", "%%")
    text = f"""#!/bin/bash
#SBATCH --job-name=hak-fleet
#SBATCH --array=0-{folder.shares - 1}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --chdir="{Path.cwd()}"
#SBATCH --output="{output}/%A_%a.txt"
# Options of the cluster, such as --partition and --time, go to sbatch, or into a line of their own above.
exec {measure}
"""
    script = _write(place / SCRIPT, text)
    logs.mkdir(exist_ok=True)
    return script


def check_kubernetes(image: str | None, claim: str | None) -> None:
    """Raises LabError if one of the two is missing, or is a name that Kubernetes rejects."""
    missing = [flag for flag, value in (("--image", image), ("--claim", claim)) if not value]
    if missing:
        raise LabError(
            f"{missing[0]} is missing: an image with hak and the program, and a PersistentVolumeClaim that several "
            "nodes may write (ReadWriteMany)"
        )
    if re.search(r"\s", str(image)):
        raise LabError(f"--image: '{image}' names no image: there is no space in a name")
    if len(str(claim)) > LONGEST_NAME or not SUBDOMAIN.fullmatch(str(claim)):
        raise LabError(
            f"--claim: '{claim}' is no name of Kubernetes: small letters, digits, '-' and '.', a letter or digit at "
            "both ends"
        )


def kubernetes(folder: Folder, image: str | None, claim: str | None) -> Path:
    """An Indexed Job with one pod for each share, each on its own node; the claim keeps the parts."""
    name = f"hak-fleet-{folder.job.id}"
    job = (folder.path / JOB).read_text(encoding="utf-8")
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {JOB: job}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "completionMode": "Indexed",
                "completions": folder.shares,
                "parallelism": folder.shares,
                "backoffLimit": RETRIES_OF_A_SHARE * folder.shares,
                "template": {"metadata": {"labels": {"app": name}}, "spec": _pod(name, str(image), str(claim))},
            },
        },
    ]
    # JSON is valid YAML; the leading line of hyphens makes kubectl read the file as YAML.
    return _write(folder.path / MANIFEST, "".join(f"---\n{json.dumps(each, indent=2)}\n" for each in objects))


def _pod(name: str, image: str, claim: str) -> dict:
    """A pod that measures one share. Pods of one job never share a node. Finished blocks are in the claim at once."""
    job, parts = "job", "parts"
    alone = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}},
        "containers": [
            {
                "name": "hak",
                "image": image,
                "command": ["hak", "fleet", "--measure", MOUNT],
                "env": [
                    {"name": "HAK_FLEET_HOST", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "XDG_CACHE_HOME", "value": "/tmp"},
                ],
                "volumeMounts": [
                    {"name": job, "mountPath": f"{MOUNT}/{JOB}", "subPath": JOB, "readOnly": True},
                    {"name": parts, "mountPath": f"{MOUNT}/parts", "subPath": name},
                ],
            }
        ],
        "volumes": [
            {"name": job, "configMap": {"name": name}},
            {"name": parts, "persistentVolumeClaim": {"claimName": claim}},
        ],
    }


def earlier(store: Path, job: str) -> RunFile | None:
    """The run of an earlier collection of the same job."""
    for file in [file for file in Store(store).runs() if "-fleet-" in file.id]:
        with contextlib.suppress(LabError):  # the run's file is damaged
            if file.header("job")["job"]["id"] == job:
                return file
    return None


def collect(path: Path, store: Path, progress: Progress, close: bool = False) -> Result:
    """The result. close: judge the blocks present, since no more will come. Raises LabError if there are none."""
    folder = Folder(path)
    gathering = Gathering(folder.spec, folder.job, store, folder.source, earlier(store, folder.job.id))
    with gathering:
        for text in gathering.collect(folder.files()):
            progress.say(f"warning: {text}; it is left out")
        left = folder.left()
        if not gathering.begun:
            why = "; ".join(f"{host}: {reason}" for host, reason in left) or "no host has begun"
            raise LabError(f"{path}: nothing to collect yet: {why}")
        known = {(event["host"], event["why"]) for event in events(gathering.ledger.file.records(), LEFT_OUT)}
        for host, why in left:
            if (host, why) not in known:
                gathering.leave_out(host, why)
        if close:
            gathering.ledger.event(CLOSED, "nothing more will come")
        return gathering.finish(analyse)
