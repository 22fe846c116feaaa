"""The files that Slurm and Kubernetes take: every task measures a share of the job in the folder."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from hakmem_lab.errors import LabError, StoreError
from hakmem_lab.kinds.fleet.folder import JOB, Folder
from hakmem_lab.system import files

SCRIPT, MANIFEST, LOGS = "job.sbatch", "job.yaml", "logs"
MOUNT = "/fleet"
RETRIES_OF_A_SHARE = 3
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN, LONGEST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*"), 253  # RFC 1123, as Kubernetes has it


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, text)
    except OSError as error:
        raise StoreError(f"-o: cannot write {path}: {error.strerror}") from None
    return path


def _hak() -> list[str]:
    """The command that is running now."""
    found = shutil.which("hak")
    beside = Path(os.path.abspath(sys.executable)).with_name("hak")
    if beside.is_file():
        return [str(beside)]
    return [found] if found else [sys.executable, "-m", "hakmem_lab.cli.main"]


def check_slurm(place: Path) -> None:
    """Raises LabError where a path could not stand in a script of Slurm's."""
    for path in (place.resolve(), Path.cwd()):
        if any(sign in str(path) for sign in '"\\\n'):
            raise LabError(f"-o: Slurm takes no quote, backslash or line break in a path: {path}")


def slurm(folder: Folder) -> Path:
    """A job array, a task a share, alone on its node; one whose node dies is queued again, and goes on."""
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
    """Raises LabError where one of the two is missing, or none that Kubernetes takes."""
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
    """An Indexed Job, a pod a share and a node, and the job as a ConfigMap; parts are kept in a claim."""
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
    return _write(folder.path / MANIFEST, "---\n".join(_yaml(each) for each in objects))


def _pod(name: str, image: str, claim: str) -> dict:
    """A pod that measures one share; of one job never two on a node. What it finishes is in the claim at once."""
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


def _yaml(value: object, indent: int = 0) -> str:
    """A tree of plain values in YAML's block style; its words are those of JSON, which YAML contains."""
    lines = []
    if isinstance(value, dict):
        for key, each in value.items():
            nested = isinstance(each, dict | list) and each
            lines.append(f"{' ' * indent}{key}:" + (f"\n{_yaml(each, indent + 2)}" if nested else f" {_word(each)}\n"))
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, dict):
                lines.append(f"{' ' * indent}- " + _yaml(each, indent + 2).lstrip())
            else:
                lines.append(f"{' ' * indent}- {_word(each)}\n")
    return "".join(lines)


def _word(value: object) -> str:
    return json.dumps(value)
