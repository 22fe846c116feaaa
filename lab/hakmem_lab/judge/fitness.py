"""Whether this machine was found fit to measure: A/A runs in the store decide.

The last A/A of the same program and metric on this machine decides, or else this machine's last A/A of the same kind
of metric: what disturbs time need not disturb processor time, memory or counts. Imports errors, spec, store, machine,
project.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.judge import words
from hakmem_lab.judge.statistics.aa import FIT, OPEN, UNFIT
from hakmem_lab.plan.metrics import COUNTED
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.store.records import Record
from hakmem_lab.store.runs import Store
from hakmem_lab.system import machine

SAME = ("cpu", "processors", "kernel")
UNCHECKED = "this machine was not checked; hak doctor --machine checks it"


@dataclass(frozen=True)
class Check:
    """A finished A/A run of this machine. state: fit, open or unfit; bias: the ends of its interval as ratios minus
    one, None if it was not judged; spread: standard deviation of a block's log-ratio."""

    id: str
    state: str
    program: str | None
    metric: str | None
    bias: tuple[float, float] | None = None
    spread: float | None = None

    def passes(self, margin: float | None) -> bool:
        """Whether the bias is inside half of this margin; None: half of the A/A's own margin."""
        if self.state == UNFIT or self.bias is None or margin is None:
            return self.state == FIT
        return max(abs(end) for end in self.bias) < margin / 2


def checks(folder: Path) -> list[Check]:
    """The finished A/A runs of this machine in the store, oldest first."""
    here, found = machine.facts(), []
    for run in [run for run in Store(folder).runs() if "-aa-" in run.id]:
        try:
            header = run.header("machine")
        except LabError:
            continue
        if (header.get("spec") or {}).get("duet"):  # an old run: both arms at once
            continue
        results = [record for record in run.records() if record["type"] == "result" and "aa" in record]
        if results and all(header["machine"].get(key) == here[key] for key in SAME):
            program = (header.get("command") or {}).get("program")
            found.append(_check(results[-1], program, header.get("spec") or {}))
    return found


def _check(result: Record, program: str | None, spec: Record) -> Check:
    aa = result["aa"]
    ends = (aa.get("bias_low"), aa.get("bias_high"))
    state = aa.get("state") or (FIT if aa["fit"] else UNFIT)
    bias = None if None in ends else ends
    return Check(result["id"], state, program, spec.get("metric"), bias, aa.get("spread"))


@dataclass(frozen=True)
class Asked:
    """The run for which the checks are consulted."""

    program: str | None = None
    metric: str | None = None
    margin: float | None = None


def reason(found: Sequence[Check], asked: Asked) -> str | None:
    """Why verdicts on this program and metric would not hold; None if the deciding check passed.

    If a bias is merely not excluded yet, only verdicts on the program of that check are refused.
    """
    program, metric, margin = asked.program, asked.metric, asked.margin
    own = [check for check in found if program and (check.program, check.metric) == (program, metric)]
    deciding = own or [check for check in found if _disturbed_alike(check.metric) == _disturbed_alike(metric)]
    if not deciding:
        return None
    last = deciding[-1]
    if last.passes(margin) or (last.state == OPEN and not own):
        return None
    if last.state != UNFIT:
        half = "half the margin" if margin is None else f"±{50 * margin:g} %, half the margin"
        return (
            f"the last A/A run of this program ({last.id}) has not shown that a bias is inside {half}; more blocks "
            "(hak doctor --machine --set max-blocks=N) or a larger margin may"
        )
    whose = "of this program" if own else "of this machine"
    return f"the last A/A run {whose} ({last.id}) gave false verdicts or a bias; see hak runs show {last.id}"


def _disturbed_alike(metric: str | None) -> str:
    """The kind of metric: what is no processor time, memory or count depends on time."""
    family = words.style_of(metric).family
    return family if family in ("cpu", "memory", "counts") else "time"


def unfit_reason(folder: Path, header: Record | None = None) -> str | None:
    """Why verdicts of the run with this header would not hold on this machine; None if there is no objection.

    Without a header: why verdicts of this machine would not hold.
    """
    return reason(checks(folder), _asked(header))


def _asked(header: Record | None) -> Asked:
    header = header or {}
    spec = header.get("spec") or {}
    program = (header.get("command") or {}).get("program")
    return Asked(program, spec.get("metric"), spec.get("margin"))


def spread_of(folder: Path, header: Record) -> tuple[float, str] | None:
    """(the spread of a block by the last A/A of the same program and metric, that run's name); None without one."""
    asked = _asked(header)
    for check in reversed(checks(folder)):
        if (check.program, check.metric) == (asked.program, asked.metric) and check.spread:
            return check.spread, f"the A/A run {check.id}"
    return None


def command_line(spec: BlockSpec) -> str:
    """The command line of the A/A that should precede this run."""
    metric = "" if spec.metric == "wall" else f" --set 'metric={spec.metric}'"
    rate = " --set higher-is-better=true" if spec.higher_is_better else ""
    data = "" if spec.stdin is None else f" --set {shlex.quote(f'stdin={spec.stdin}')}"
    command = "SPEC.toml, of kind aa with the same [server]" if spec.server else f"-- {shlex.join(spec.command)}"
    return f"hak doctor --machine{metric}{rate}{data} {command}"


def unknown(folder: Path, spec: BlockSpec | None = None, duration: str = "") -> str | None:
    """A hint if the store has no A/A run of this machine, else None: no machine disturbs counted calls. duration: the
    shortest time that one takes."""
    if checks(folder) or (spec is not None and spec.metric in COUNTED):
        return None
    program = spec is not None and spec.OWN_AA
    how = command_line(spec) if spec is not None and program else "hak doctor --machine"
    takes = f", in {duration} or more" if program and duration else ""
    return f"this machine was not checked; {how} checks it{takes}"
