"""`hak latency`: tail latency of an open loop, arms in randomised blocks, percentiles of all requests of an arm.

A client that waits for an answer before it sends the next request does not see how long the others would have waited;
so the program has a schedule, and counts from when a request should have begun.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hakmem_lab.errors import nearest
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.kinds.ab.kind import check_blocks
from hakmem_lab.kinds.compare import arms
from hakmem_lab.kinds.latency.histogram import (
    DEFAULT_PATTERN,
    METRICS,
    SECOND,
    Percentile,
    Reader,
    check_pattern,
    percentiles_us,
)
from hakmem_lab.kinds.latency.result import analyse
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.spec import BlockSpec, Duration, Guardrail, Ratio, check_metric
from hakmem_lab.run.conduct import conduct
from hakmem_lab.run.context import Context
from hakmem_lab.run.progress import Progress
from hakmem_lab.run.runner import Runner, Workload
from hakmem_lab.run.session import Session
from hakmem_lab.system.launcher import Outcome

__all__ = ["Spec", "analyse", "run"]

RUNS_OF_A_PAIR = 4


class Spec(BlockSpec):
    """`{rate}` and `{seconds}` in the command stand for the keys rate and duration. metric: the percentile (of the
    response time, or service-...) that the verdict is about. histogram: how the output says it."""

    kind: Literal["latency"] = "latency"
    allocators: Annotated[list[str], Field(min_length=2, default_factory=lambda: ["glibc", "hakmem"])]
    baseline: str | None = None
    metric: str = "p99"
    higher_is_better: Literal[False] = False
    margin: Ratio = 0.05
    looks: Literal[1] = 1
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 12
    warm_up: Annotated[int, Field(ge=0, le=100)] = 0
    repeat: Literal[1] = 1
    rate: Annotated[float, Field(gt=0)] | None = None
    duration: Duration | None = None
    histogram: str = DEFAULT_PATTERN
    value_unit: Literal["ns", "us", "ms", "s"] = "ns"

    @field_validator("metric")
    @classmethod
    def _metric(cls, value: str) -> str:
        if value not in METRICS:
            raise ValueError(f"no percentile '{value}': {nearest(value, METRICS)}")
        return value

    @field_validator("guardrails")
    @classmethod
    def _guardrails(cls, value: dict[str, Guardrail]) -> dict[str, Guardrail]:
        for name, rail in value.items():
            if name not in METRICS:
                check_metric(name)
            elif rail.higher_is_better:
                raise ValueError(f"'{name}' is a time: higher is never better")
        return value

    @field_validator("histogram")
    @classmethod
    def _histogram(cls, value: str) -> str:
        return check_pattern(value)

    @model_validator(mode="after")
    def _placeholders(self) -> "Spec":
        for name in ("rate", "duration"):
            placeholder = "{seconds}" if name == "duration" else "{rate}"
            used = any(placeholder in word for word in self.command)
            if used != (getattr(self, name) is not None):
                raise ValueError(
                    f"the key '{name}' and {placeholder} in the command go together: one of them is missing"
                )
        return self

    def values(self) -> dict[str, str]:
        """What the placeholders stand for."""
        given = {"{rate}": self.rate, "{seconds}": self.duration}
        return {name: f"{value:g}" for name, value in given.items() if value is not None}


class HistogramRunner(Runner):
    """Keeps the histograms of a run and all their percentiles beside the one that is asked for."""

    def __init__(self, workload: Workload, metric: Percentile, others: Sequence[Metric]):
        super().__init__(workload, [metric, *others])
        self._reader = metric.reader

    def _part(self, outcome: Outcome, server: dict | None, why: str | None) -> dict:
        part = super()._part(outcome, server, why)
        if part["why"] is None:
            found = self._reader.histograms(outcome)
            part["metrics"] |= percentiles_us(found)
            part["histograms"] = {series: histogram.encode().decode() for series, histogram in found.items()}
            part["second_mean_us"] = [int(text) / 1e3 for text in SECOND.findall(outcome.stdout)]
        return part


class LatencySession(Session):
    """Blocks of runs whose metrics are percentiles."""

    def __init__(self, spec: Spec, arms: Sequence[Arm], progress: Progress):
        super().__init__(spec, arms, progress)
        self.runner.close()
        argv = list(self.workload.argv)
        for placeholder, value in spec.values().items():
            argv = [word.replace(placeholder, value) for word in argv]
        self.workload = replace(self.workload, argv=argv)
        metric = Percentile(spec.metric, Reader(spec.histogram, spec.value_unit))
        watched = [rail for rail in spec.guardrail_metrics() if rail.name not in METRICS]
        self.metrics = [metric, *watched]
        self.runner = HistogramRunner(self.workload, metric, watched)


def measure(session: LatencySession) -> None:
    session.check_fitness()
    session.run_blocks("measure", list(session.arms), session.spec.max_blocks)


def run(spec: Spec, context: Context) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    check_blocks(spec, context.source, Plan((spec.max_blocks,), share=0.0), len(spec.allocators) - 1)
    per_block = RUNS_OF_A_PAIR if len(spec.allocators) == 2 else len(spec.allocators)
    total = per_block * spec.max_blocks + spec.warm_up * len(spec.allocators)
    return conduct(spec, context, arms(spec), lambda _: (total, total), measure, analyse, LatencySession)
