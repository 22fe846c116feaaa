"""The keys of a suite, the bars that its subject has to reach (with guardrails), and its paths.

A suite is a list of workloads, each with bars to reach. All ratios are oriented so that above 1 means that the first
side is better, whatever the metric's direction.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.kinds.syscalls import OPS, TwoLengths
from hakmem_lab.plan import peers, project
from hakmem_lab.plan.metrics import GROWTH, SERVER_METRICS
from hakmem_lab.plan.model import Model, Sparse
from hakmem_lab.plan.spec import (
    Alpha,
    Duration,
    Guardrail,
    MetricName,
    ProgramKeys,
    Ratio,
    RunKeys,
    Seed,
    Word,
    check_alone,
    check_metric,
)
from hakmem_lab.plan.values import NUMBER, check_price

SIZES_KIB = {"KiB": 1.0, "MiB": 1024.0, "GiB": 1024.0**2}
TIMES_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
BEST = ("best", "leanest")
PRIMARY = "primary"
GUARDRAIL = "guardrail"


def parse_amount(value: Any) -> Any:
    """'0.3ms', '1MiB', '50%' or a number -> a number in the metric's own unit (s, KiB) or a ratio."""
    if not isinstance(value, str):
        return value
    units = {**SIZES_KIB, **TIMES_S, "%": 0.01, "": 1.0}
    found = re.fullmatch(rf"\s*({NUMBER}(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)\s*", value)
    if not found or found.group(2) not in units:
        raise ValueError("an amount is a number, or one with us, ms, s, KiB, MiB, GiB or %")
    return float(found.group(1)) * units[found.group(2)]


Amount = Annotated[float, BeforeValidator(parse_amount), Field(gt=0)]


class Bar(Model):
    """The target of the subject on one metric of a workload.

    against: the bar is on the metric's ratio to an arm, to the best of the peers or to the leanest (the best in a
    metric of memory); over: on the difference to an arm, in the metric's unit; neither: on the subject's own median.
    With `against`, at-least is how many times as good the subject must be, at-most how many times the cost it may have.
    higher-is-better: for a metric other than the workload's own, whose direction is a key of the workload.
    """

    title: str = ""
    metric: str = PRIMARY
    higher_is_better: bool = False
    against: str | None = None
    over: str | None = None
    at_least: Amount | None = None
    at_most: Amount | None = None

    @field_validator("metric")
    @classmethod
    def _metric(cls, value: str) -> str:
        return value if value == PRIMARY else check_metric(value)

    @model_validator(mode="after")
    def _one_limit(self) -> "Bar":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("a bar has either at-least or at-most")
        if self.against and self.over:
            raise ValueError("a bar has either against (a ratio) or over (a difference)")
        return self

    def limit(self) -> tuple[float, bool]:
        """(the target, whether it is a lower limit)."""
        return (self.at_least, True) if self.at_least is not None else (self.at_most or 0.0, False)


def guardrail_bar(metric: str, guardrail: Guardrail, reference: str) -> Bar:
    """A guardrail is a bar against the reference; it is kept if the whole interval is within the limit."""
    name = metric if not metric.startswith("regex:") else "output"
    return Bar(title=f"{GUARDRAIL}: {name}", metric=metric, against=reference,
               higher_is_better=guardrail.higher_is_better, at_most=1 + guardrail.limit)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """folders: searched, in this order, for a path that does not exist in the present folder."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, source: str) -> "Places":
        """source: the spec's file, as the user or a stored run names it."""
        folder = project.located(source).resolve().parent
        return cls((folder, folder.parent))

    def path(self, name: str) -> str:
        """The path at which the file exists; if there is none, the name unchanged."""
        places = (name, *(str(folder / name) for folder in self.folders))
        return next(filter(os.path.exists, places), name)  # false, too, where a word is too long for a path

    def word(self, word: str) -> str:
        """A word of a command: with a slash inside it may be a relative path."""
        return self.path(word) if "/" in word and not word.startswith("/") else word

    def command(self, words: list[str]) -> list[str]:
        return [self.word(word) for word in words]

    def arm(self, text: str) -> str:
        """An arm, whose allocator may be the path of a library."""
        allocator, comma, settings = text.partition(",")
        return self.word(allocator) + comma + settings


def check_names(spec: "SuiteSpec", source: str) -> None:
    """Raises LabError for a name that refers to nothing, or that is given twice."""
    keys = [row.key for row in spec.workload]
    for key in keys:
        if keys.count(key) > 1:
            raise LabError(f"{source}: workload '{key}': two workloads have this key")
    groups = {row.group for row in spec.workload if row.group}
    for key in spec.only:
        if key not in keys and key not in groups:
            what = "workload or group" if groups else "workload"
            raise LabError(f"{source}: only: there is no {what} '{key}': {nearest(key, {*keys, *groups})}")
    if len(set(spec.allocators)) != len(spec.allocators):
        raise LabError(f"{source}: allocators: the same side is named twice")
    if spec.subject not in spec.allocators:
        raise LabError(f"{source}: subject: '{spec.subject}' is not among the allocators: {', '.join(spec.allocators)}")
    if spec.table == "reference" and spec.reference not in spec.allocators:
        raise LabError(f"{source}: reference: '{spec.reference}' is not among the allocators")
    for row in spec.workload:
        for bar in row.bars:
            _check_bar(spec, row, bar, f"{source}: workload '{row.key}'")


def _check_bar(spec: "SuiteSpec", row: "WorkloadSpec", bar: Bar, where: str) -> None:
    """Raises LabError for an unknown arm. A bar on an allocator that this run leaves out is allowed, but not judged."""
    for key, name in (("against", bar.against), ("over", bar.over)):
        known = {*(BEST if key == "against" else ()), *row.arms, *spec.allocators, *peers.names()}
        if name is not None and name not in known:
            raise LabError(f"{where}: {key}: there is no side '{name}': {nearest(name, known)}")


SUBJECT, REFERENCE = "hakmem", "glibc"
REPLAY = "hak-replay"  # the command of a workload that is a trace
LOAD, LOADS = "{load}", ("short", "long", GROWTH)
LONG_TIMEOUT_S = 3600.0
OWN_KEYS = ("key", "title")  # keys whose value must differ between workloads


def parse_keys(value: Any) -> Any:
    """'a,b' -> [a, b]."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def check_key(value: str) -> str:
    """The name, if --only can give it; else ValueError."""
    if not value.strip() or value != value.strip() or "," in value:
        raise ValueError("a name has at least one character, none of them a comma, and no space at its ends")
    return value


Keys = Annotated[list[str], BeforeValidator(parse_keys)]
Key = Annotated[str, AfterValidator(check_key)]


class WorkloadSpec(RunKeys, ProgramKeys):
    """A program and its bars. arms: further arms of this workload alone, name -> ALLOCATOR or library.

    trace: a file of `hak record`, which is replayed in place of a command. ops: the workload is not timed; its system
    calls are counted at these two lengths, for which {ops} in the command stands, and its bars are in calls per
    operation. loads: what {load} in the command stands for, in a short and in a long run, and where growth is judged,
    whose `requests` it serves. also: further metrics, such as a percentile that the program prints: name of the row ->
    metric.
    hint: added to the message if the program is missing.
    """

    key: Key
    title: str
    group: Key | None = None
    loads: Annotated[list[Word], Field(min_length=2, max_length=3)] | None = Field(default=None, exclude=True)
    trace: Word | None = None
    also: dict[str, MetricName] = Field(default_factory=dict)
    ops: TwoLengths | None = None
    arms: dict[str, str] = Field(default_factory=dict)
    memory: bool = True
    bars: list[Bar] = Field(default_factory=list)
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] | None = None
    hint: str = ""

    @model_validator(mode="before")
    @classmethod
    def _replayed(cls, values: Any) -> Any:
        """Fill in the command that replays the trace; the metric is CPU time, that of the allocator."""
        if not isinstance(values, dict) or not isinstance(values.get("trace"), str):
            return values
        return {"metric": "cpu", "command": [REPLAY, values["trace"]]} | values

    @model_validator(mode="after")
    def _fits(self) -> "WorkloadSpec":
        named = (self.metric, *self.also.values(), *(bar.metric for bar in self.bars), *self.guardrails)
        check_alone(named)
        used = [name for name in named if name in SERVER_METRICS]
        if used and self.server is None:
            raise ValueError(f"the metric '{used[0]}' needs a [workload.server]")
        if self.metric in self.rates() and not self.higher_is_better:
            raise ValueError(f"higher-is-better of its own metric '{self.metric}' is a key of the workload")
        if self.trace is not None and (self.command != [REPLAY, self.trace] or self.server is not None):
            raise ValueError("a trace is replayed in place of a command and a server: leave these out")
        if (self.ops is not None) != any(OPS in word for word in self.command):
            raise ValueError("the key 'ops' and {ops} in the command go together: one of them is missing")
        if self.ops is not None and (
            self.server is not None or self.guardrails or any(bar.against or bar.over for bar in self.bars)
        ):
            raise ValueError("a workload with 'ops' takes no server, no guardrails and no bar with 'against' or 'over'")
        return self

    def memory_metric(self) -> str:
        return "server-rss" if self.server else "rss"

    def metrics(self) -> list[str]:
        """The metrics that every run must yield, the primary one first."""
        named = (self.named(name) for name in (*(bar.metric for bar in self.bars), *self.guardrails))
        memory = [self.memory_metric()] if self.memory else []
        return list(dict.fromkeys([self.metric, *memory, *self.also.values(), *named]))

    def rates(self) -> set[str]:
        """The metrics whose larger value is better."""
        of_bars = {self.named(bar.metric) for bar in self.bars if bar.higher_is_better}
        of_guardrails = {self.named(name) for name, guardrail in self.guardrails.items() if guardrail.higher_is_better}
        return of_bars | of_guardrails | ({self.metric} if self.higher_is_better else set())

    def named(self, metric: str) -> str:
        """The metric that a bar refers to: `rss` of a workload with a server means that of the server."""
        if metric == PRIMARY:
            return self.metric
        return self.memory_metric() if metric == "rss" else metric


class SuiteSpec(Sparse):
    """subject: the arm that is judged. reference: not a peer; guardrails are relative to it.

    table: whether to show the subject's ratios to every other arm, or every arm's ratios to the reference. margin: an
    interval entirely within it is called "same". budget: after the first two rounds, no round begins that would exceed
    it. beside_load, precondition: every round also has a block of each workload under that condition. defaults: keys
    for every workload that lacks them; they are filled in, and not stored separately. only: keys and groups. load,
    metric: which of its loads a workload has, and what it is judged by; filled in, too. within: a workload ends where
    the subject's intervals against the reference are this narrow, or when its blocks took as long as the patience.
    price: of saved memory.
    """

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = ("load", "metric", "within", "patience", "price")

    kind: Literal["suite"] = "suite"
    question: str = "Where does the subject stand among its peers?"
    allocators: Annotated[list[str], Field(min_length=2, default_factory=lambda: [*peers.COMPARED])]
    subject: str = SUBJECT
    reference: str = REFERENCE
    table: Literal["subject", "reference"] = "subject"
    margin: Ratio = 0.05
    alpha: Alpha = 0.05
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 10
    budget: Duration | None = None
    beside_load: bool = False
    precondition: bool = False
    seed: Seed | None = None
    only: Keys = Field(default_factory=list)
    load: Literal["short", "long"] = "short"
    metric: MetricName | None = None
    within: Ratio | None = None
    patience: Duration = 3600.0
    price: Annotated[str, AfterValidator(check_price)] | None = None
    defaults: dict[str, Any] = Field(default_factory=dict, exclude=True)
    workload: Annotated[list[WorkloadSpec], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, values: Any) -> Any:
        """Fill in the defaults in every workload, its key as a missing title, and a missing subject."""
        if not isinstance(values, dict):
            return values
        defaults = checked_defaults(values.get("defaults", {}))
        found = values | {"defaults": {}}
        if isinstance(rows := values.get("workload"), list):
            whole = [_whole(row, defaults) if isinstance(row, dict) else row for row in rows]
            found["workload"] = [
                loaded(judged_by(row, values.get("metric")), values.get("load", LOADS[0])) for row in whole
            ]
        arms = values.get("allocators")
        if isinstance(arms, list) and "subject" not in values and SUBJECT not in arms:
            reference = values.get("reference", REFERENCE)
            found["subject"] = next((arm for arm in arms if arm != reference), SUBJECT)
        return found

    @classmethod
    def place(cls, location: tuple, values: dict) -> tuple[str, tuple]:
        """Where a mistake is, for its message: in a workload, by its key, or in the defaults."""
        table = location[0] if location else ""
        rows = values.get(table)
        if table != "workload" or len(location) < 2 or not isinstance(rows, list):
            return "", location
        row, inner = rows[location[1]], location[2:]
        if not isinstance(row, dict):
            return f"{table} {location[1] + 1}: ", inner
        if inner and inner[0] not in row and inner[0] in values.get("defaults", {}):
            return "defaults: ", inner
        name = row.get("key")
        return f"{table} {location[1] + 1}: " if name is None else f"{table} '{name}': ", inner

    def chosen(self) -> list[WorkloadSpec]:
        """The workloads that are run."""
        return [row for row in self.workload if not self.only or row.key in self.only or row.group in self.only]

    def blocks_of(self, row: WorkloadSpec) -> int:
        return min(self.max_blocks, row.max_blocks or self.max_blocks)

    def guardrails_of(self, row: WorkloadSpec) -> list[Bar]:
        return [guardrail_bar(name, guardrail, self.reference) for name, guardrail in row.guardrails.items()]

    def unjudged(self) -> str:
        """Why there is no verdict; empty if there are bars or guardrails."""
        reached = any(row.bars or row.guardrails for row in self.chosen())
        return "" if reached else "without bars and guardrails there is nothing to reach"


def checked_defaults(values: Any) -> dict:
    """The defaults, or ValueError."""
    if not isinstance(values, dict):
        raise ValueError("defaults: a table is wanted")
    known = [field.alias or name for name, field in WorkloadSpec.model_fields.items() if name not in OWN_KEYS]
    for name in values:
        if name in OWN_KEYS:
            raise ValueError(f"defaults: '{name}' must be set for each workload")
        if name not in known:
            raise ValueError(f"defaults: unknown key '{name}': {nearest(name, known)}")
    return values


def _whole(row: dict, defaults: dict) -> dict:
    """A workload with its missing keys filled in."""
    found = defaults | row
    return found if "title" in found or not isinstance(found.get("key"), str) else found | {"title": found["key"]}


def judged_by(row: Any, metric: Any) -> Any:
    """A workload that is judged by this metric alone, unless it is None."""
    kept = {"metric": metric, "memory": False, "also": {}, "label": "", "unit": "", "higher-is-better": False}
    return row | kept if isinstance(row, dict) and metric is not None else row


def loaded(row: Any, load: Any) -> Any:
    """A workload with its load filled in, or ValueError where the command has no place for it."""
    loads, command = (row.get("loads"), row.get("command")) if isinstance(row, dict) else (None, None)
    if not isinstance(loads, list) or not 2 <= len(loads) <= len(LOADS) or load not in LOADS or command is None:
        return row
    load = GROWTH if row.get("metric") == GROWTH and len(loads) == len(LOADS) else load
    words = [command] if isinstance(command, str) else command
    if not any(LOAD in str(word) for word in words):
        raise ValueError(f"the key 'loads' and {LOAD} in the command go together: one of them is missing")
    filled = [str(word).replace(LOAD, str(loads[LOADS.index(load)])) for word in words]
    more = {} if load == LOADS[0] else {"timeout": LONG_TIMEOUT_S}
    return row | more | {"command": filled[0] if isinstance(command, str) else filled}
