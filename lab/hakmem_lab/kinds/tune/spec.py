"""The keys of a tuning, and how what its program prints is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from hakmem_lab import extras
from hakmem_lab.errors import nearest
from hakmem_lab.plan.metrics import PATTERN, Metric
from hakmem_lab.plan.spec import BUILT_IN_METRICS, SERVER_METRICS, BlockSpec, Duration, Guardrail, check_metric
from hakmem_lab.system.launcher import Outcome

DEFAULT = "default"
ALLOCATORS = ["glibc", "hakmem", "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "google-tcmalloc"]
PERCENTILES = ("p50", "p90", "p99", "p99.9", "p99.99", "max")  # those of a latency run, where it prints a histogram
KNOWN = (*BUILT_IN_METRICS, *SERVER_METRICS)


def check_reading(pattern: str) -> str:
    """Returns the pattern, or raises ValueError."""
    if not pattern.startswith(PATTERN):
        raise ValueError(f"'{pattern}' does not say how to read it: 'regex:PATTERN' with one group, the number")
    return check_metric(pattern)


class Spec(BlockSpec):
    """default: what the program runs on now. allocators: those whose options are tried, or arms that are tried as they
    are. combine: also several options of an allocator at once; tries: so many of these where they
    are too many to try all. readings: name -> how a figure that the program prints
    is read. histogram: how it prints its latencies. budget: of time, half of it for choosing and half for confirming.
    """

    kind: Literal["tune"] = "tune"
    default: str = DEFAULT
    allocators: Annotated[list[str], Field(min_length=1, default_factory=lambda: list(ALLOCATORS))]
    metric: str = "wall"
    guardrails: dict[str, Guardrail] = {}
    readings: dict[str, Annotated[str, AfterValidator(check_reading)]] = {}
    histogram: str | None = None
    value_unit: Literal["ns", "us", "ms", "s"] = "ns"
    combine: bool = False
    tries: Annotated[int, Field(ge=2, le=10_000)] = 64
    select_blocks: Annotated[int, Field(ge=1, le=1000)] = 2
    budget: Duration | None = None
    warm_up: Annotated[int, Field(ge=0, le=100)] = 0

    @field_validator("readings")
    @classmethod
    def _readings(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name in KNOWN or name.startswith(PATTERN) or not name.strip():
                raise ValueError(f"'{name}' cannot be the name of a figure: hak measures it, or it is none")
        return value

    @field_validator("histogram")
    @classmethod
    def _histogram(cls, value: str | None) -> str | None:
        if value is None:
            return None
        extras.need("latency", "the key 'histogram'")
        from hakmem_lab.kinds.latency.histogram import check_pattern

        return check_pattern(value)

    @model_validator(mode="after")
    def _known_metrics(self) -> "Spec":
        for key, name in (("metric", self.metric), *(("guardrails", name) for name in self.guardrails)):
            self._check_known(key, name)
        if self.higher_is_better and self._is_cost(self.metric):
            raise ValueError(f"metric: the most of '{self.metric}' is not better: ask for the least")
        for name, guardrail in self.guardrails.items():
            if guardrail.higher_is_better and self._is_cost(name):
                raise ValueError(
                    f"guardrails: more of '{name}' is not better: a limit says by how much it may grow, as +2%; what "
                    "is wanted less of is what --least names"
                )
        return self

    def _is_cost(self, name: str) -> bool:
        """Whether less of it is better in any program."""
        return name in (*KNOWN, *PERCENTILES) and name not in self.readings

    def _check_known(self, key: str, name: str) -> None:
        if name in self.readings or name in PERCENTILES:
            return
        if name.startswith(PATTERN) or name in KNOWN:
            check_metric(name)
            return
        names = (*KNOWN, *PERCENTILES, *self.readings)
        raise ValueError(
            f"{key}: no metric '{name}': {nearest(name, names)}, or say where the program prints it: "
            f"--read '{name}=regex:PATTERN'"
        )

    def percentiles(self) -> list[str]:
        """Those that are read from the latencies that the program prints."""
        names = (self.metric, *self.guardrails)
        return [name for name in dict.fromkeys(names) if name in PERCENTILES and name not in self.readings]


@dataclass(frozen=True)
class Reading:
    """A figure of the program's own by the name that the spec gives it."""

    name: str
    pattern: str
    higher_is_better: bool = False

    def read(self, outcome: Outcome, server: dict | None = None, counted: Sequence[str] = ()) -> float:
        """Raises MetricMissing."""
        return Metric(self.pattern).read(outcome, server, counted)


def with_readings(spec: Spec, metrics: Sequence[Metric]) -> Iterator[Metric]:
    """The metrics as they are read from a run: by pattern, or from the latencies that the program prints."""
    reader = None
    if spec.percentiles():
        extras.need("latency", f"hak tune on {spec.percentiles()[0]}")
        from hakmem_lab.kinds.latency.histogram import DEFAULT_PATTERN, Percentile, Reader

        reader = Reader(spec.histogram or DEFAULT_PATTERN, spec.value_unit)
    for metric in metrics:
        if metric.name in spec.readings:
            yield Reading(metric.name, spec.readings[metric.name], metric.higher_is_better)  # type: ignore[misc]
        elif reader and metric.name in PERCENTILES:
            yield Percentile(metric.name, reader)  # type: ignore[misc]
        else:
            yield metric
