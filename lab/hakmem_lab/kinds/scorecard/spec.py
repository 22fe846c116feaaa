"""The keys of a scorecard's spec.

A scorecard is a list of workloads, each with bars to reach. All ratios are turned so that above 1 means that the first
side is better, whatever the metric's direction.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hakmem_lab.kinds.syscalls.kind import OPS, parse_ops
from hakmem_lab.plan.spec import (
    SERVER_METRICS,
    Alpha,
    Command,
    Duration,
    Environment,
    Model,
    Ratio,
    Seed,
    Server,
    Timeout,
    Word,
    check_metric,
)

SIZES_KIB = {"KiB": 1.0, "MiB": 1024.0, "GiB": 1024.0**2}
TIMES_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
BEST = ("best", "leanest")
PRIMARY = "primary"
ALLOCATORS = ("hakmem", "glibc", "mimalloc", "jemalloc", "tcmalloc")


def parse_amount(value: Any) -> Any:
    """'0.3ms', '1MiB', '50%' or a number -> a number in the metric's own unit (s, KiB) or a ratio."""
    if not isinstance(value, str):
        return value
    units = {**SIZES_KIB, **TIMES_S, "%": 0.01, "": 1.0}
    found = re.fullmatch(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%]*)\s*", value)
    if not found or found.group(2) not in units:
        raise ValueError("an amount is a number, or one with us, ms, s, KiB, MiB, GiB or %")
    return float(found.group(1)) * units[found.group(2)]


def parse_keys(value: Any) -> Any:
    """'a,b' -> [a, b]."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


Amount = Annotated[float, BeforeValidator(parse_amount), Field(gt=0)]
Keys = Annotated[list[str], BeforeValidator(parse_keys)]


class Bar(Model):
    """What the subject has to reach on one metric of a workload.

    against: the metric's ratio to an arm, to the best of the peers or to the leanest (the best in a metric of memory);
    over: the difference to an arm, in the metric's unit; neither: the subject's own median, in the metric's unit.
    With `against`, at-least is how many times as good the subject must be, at-most how many times the cost it may have.
    """

    title: str = ""
    metric: str = PRIMARY
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


class Milestone(Bar):
    """A bar with a name of its own."""

    name: str
    workload: str


class WorkloadSpec(Model):
    """A program and its bars. arms: further arms of this workload alone, name -> ALLOCATOR or library.

    ops: instead of being timed, the workload's system calls are counted at these two lengths, which {ops} in the
    command stands for; its bars are in calls per operation.
    """

    key: str
    title: str
    command: Command
    metric: str = "wall"
    label: str = "speed"
    unit: str = ""
    higher_is_better: bool = False
    env: Environment = Field(default_factory=dict)
    cwd: Word | None = None
    stdin: Word | None = None
    pin: list[int] = Field(default_factory=list)
    timeout: Timeout = 300.0
    repeat: Annotated[int, Field(ge=1, le=1000)] | Literal["auto"] = "auto"
    server: Server | None = None
    ops: Annotated[list[int], BeforeValidator(parse_ops), Field(min_length=2, max_length=2)] | None = None
    arms: dict[str, str] = Field(default_factory=dict)
    memory: bool = True
    bars: list[Bar] = Field(default_factory=list)
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] | None = None

    @field_validator("metric")
    @classmethod
    def _metric(cls, value: str) -> str:
        return check_metric(value)

    @model_validator(mode="after")
    def _fits(self) -> "WorkloadSpec":
        used = [name for name in (self.metric, *(bar.metric for bar in self.bars)) if name in SERVER_METRICS]
        if used and self.server is None:
            raise ValueError(f"the metric '{used[0]}' needs a [workload.server]")
        if (self.ops is not None) != any(OPS in word for word in self.command):
            raise ValueError("the key 'ops' and {ops} in the command go together: one of them is missing")
        if self.ops is not None:
            if not 0 < self.ops[0] < self.ops[1]:
                raise ValueError("ops are two lengths, the shorter one first, both above 0")
            if self.server is not None or any(bar.against or bar.over for bar in self.bars):
                raise ValueError("a workload with ops has no server, and its bars are on the subject's own rate")
        return self

    def memory_metric(self) -> str:
        return "server-rss" if self.server else "rss"

    def metrics(self) -> list[str]:
        """All that a run of it must yield, the primary one first."""
        named = (self.metric_of(bar) for bar in self.bars)
        return list(dict.fromkeys([self.metric, *([self.memory_metric()] if self.memory else []), *named]))

    def metric_of(self, bar: Bar) -> str:
        """The metric that a bar means: `rss` of a workload with a server is the server's."""
        if bar.metric == PRIMARY:
            return self.metric
        return self.memory_metric() if bar.metric == "rss" else bar.metric


class ScorecardSpec(Model):
    """subject: the arm that is judged. reference: no peer, but what the history is relative to.

    table: whether the ratios shown are the subject's to every other arm or every arm's to the reference. margin: what
    is inside of it all the way is called the same. budget: no
    further round of blocks begins when it would be exceeded, after the first two.
    """

    kind: Literal["scorecard"] = "scorecard"
    question: str = "Where does the subject stand among its peers?"
    allocators: Annotated[list[str], Field(min_length=2, default_factory=lambda: list(ALLOCATORS))]
    subject: str = "hakmem"
    reference: str = "glibc"
    table: Literal["subject", "reference"] = "subject"
    margin: Ratio = 0.05
    alpha: Alpha = 0.05
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 10
    budget: Duration | None = None
    seed: Seed | None = None
    only: Keys = Field(default_factory=list)
    workload: Annotated[list[WorkloadSpec], Field(min_length=1)]
    milestone: list[Milestone] = Field(default_factory=list)

    def chosen(self) -> list[WorkloadSpec]:
        """The workloads that are run."""
        return [row for row in self.workload if not self.only or row.key in self.only]

    def blocks_of(self, row: WorkloadSpec) -> int:
        return min(self.max_blocks, row.max_blocks or self.max_blocks)
