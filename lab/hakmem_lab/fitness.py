"""Whether this machine was found fit to measure: A/A runs in the store decide.

The last A/A of the same program and metric on this machine, or, where there is none, this machine's last one. Imports
errors, spec, store, machine, project.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import machine, project
from .errors import LabError
from .spec import BlockSpec
from .store import Store

SAME = ("cpu", "processors", "kernel")
UNCHECKED = "this machine was not checked: hak aa"


@dataclass(frozen=True)
class Check:
    """A finished A/A run of this machine."""

    id: str
    fit: bool
    program: str | None
    metric: str | None
    duet: bool = False


def checks(folder: Path) -> list[Check]:
    """The finished A/A runs of this machine in the store, oldest first."""
    here, found = machine.facts(), []
    for run in [run for run in Store(folder).runs() if "-aa-" in run.id]:
        try:
            header = run.header("machine")
        except LabError:
            continue
        results = [record for record in run.records() if record["type"] == "result" and "aa" in record]
        if results and all(header["machine"].get(key) == here[key] for key in SAME):
            program = (header.get("command") or {}).get("program")
            spec = header.get("spec") or {}
            fit, at_once = bool(results[-1]["aa"]["fit"]), bool(spec.get("duet"))
            found.append(Check(results[-1]["id"], fit, program, spec.get("metric"), at_once))
    return found


def reason(found: Sequence[Check], program: str | None, metric: str | None, duet: bool = False) -> str | None:
    """Why verdicts on this program and metric would not hold; None where the check that decides passed.

    duet: both arms at once. Such an A/A says nothing about arms that take turns, nor the other way round.
    """
    found = [check for check in found if check.duet == duet]
    own = [check for check in found if program and (check.program, check.metric) == (program, metric)]
    last = (own or found or [None])[-1]
    if last is None or last.fit:
        return None
    whose = "of this program" if own else "of this machine"
    return f"the last A/A run {whose} ({last.id}) gave too many false verdicts; see hak show {last.id}"


def unfit_reason(folder: Path, header: dict | None = None) -> str | None:
    """Why verdicts of the run with this header would not hold on this machine; None where nothing speaks against it.

    Without a header: why verdicts of this machine would not hold.
    """
    header = header or {}
    spec = header.get("spec") or {}
    program = (header.get("command") or {}).get("program")
    return reason(checks(folder), program, spec.get("metric"), bool(spec.get("duet")))


def check_duet(folder: Path, program: str, spec: BlockSpec) -> None:
    """Raises LabError where no A/A has yet shown what two arms at once do to each other with this program."""
    key = (project.shown(program), spec.metric)
    if not any(check.duet and (check.program, check.metric) == key for check in checks(folder)):
        metric = "" if spec.metric == "wall" else f" --metric '{spec.metric}'"
        rate = " --higher-is-better" if spec.higher_is_better else ""
        command = "SPEC.toml, of kind aa with the same [server]" if spec.server else f"-- {shlex.join(spec.command)}"
        raise LabError(
            "duet: the same arm on both sides comes first; there is no such A/A of this program and metric on this "
            f"machine yet. Run: hak aa --duet{metric}{rate} {command}"
        )


def unknown(folder: Path) -> str | None:
    """What to say where no A/A run of this machine is in the store; else None."""
    return None if checks(folder) else UNCHECKED
