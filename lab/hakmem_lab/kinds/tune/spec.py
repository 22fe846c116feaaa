"""The keys of a tuning, and how the program's output is read.

The arms to try are every allocator as it is, and with each value of each of its documented options.
"""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from hakmem_lab import extras
from hakmem_lab.errors import LabError, nearest
from hakmem_lab.plan import peers, tunables
from hakmem_lab.plan.arms import Arm, options_of, parse_arm
from hakmem_lab.plan.metrics import METRICS, PATTERN, SERVER_METRICS, Metric
from hakmem_lab.plan.spec import BlockSpec, Duration, Guardrail, check_metric
from hakmem_lab.plan.tunables import Option
from hakmem_lab.system.launcher import Outcome


@dataclass(frozen=True)
class Space:
    """options: allocator -> its options, for every allocator that is searched. fixed: arms that are tried as they are
    written. left_out: allocator -> why it cannot be tried. notes: other facts about the space."""

    options: dict[str, list[Option]]
    fixed: list[str]
    left_out: dict[str, str]
    notes: list[str]

    def singles(self) -> Iterator[str]:
        """Every allocator with its defaults, then each with one option at a time, the allocators in turn."""
        yield from self.options
        yield from self.fixed
        rows = [
            [tunables.arm_text(allocator, {option: value}) for option in options for value in option.values]
            for allocator, options in self.options.items()
        ]
        for texts in itertools.zip_longest(*rows):
            yield from filter(None, texts)

    def combined(self, tries: int, seed: int | None) -> list[str]:
        """Every allocator with its defaults, then combinations of options, the allocators in turn; random ones, if
        there are more than `tries`."""
        chance, found = random.Random(seed), dict.fromkeys((*self.options, *self.fixed))
        drawn = [_combinations(allocator, options, tries, chance) for allocator, options in self.options.items()]
        for texts in itertools.zip_longest(*drawn):
            found |= dict.fromkeys(filter(None, texts))
        return list(found)[: max(tries, len(self.options) + len(self.fixed))]


def _combinations(allocator: str, options: Sequence[Option], count: int, chance: random.Random) -> list[str]:
    """At most `count` combinations, each drawn once."""
    choices = [("", *option.values) for option in options]
    size = math.prod(map(len, choices))
    found = []
    for number in chance.sample(range(size), min(count, size)):
        rest, chosen = number, {}
        for option, values in zip(options, choices, strict=True):
            rest, index = divmod(rest, len(values))
            if values[index]:
                chosen[option] = values[index]
        found.append(tunables.arm_text(allocator, chosen))
    return found


def space_of(spec: "Spec") -> Space:
    """Raises LabError where a name is not that of an allocator."""
    options: dict[str, list[Option]] = {}
    fixed: list[str] = []
    left_out: dict[str, str] = {}
    notes = []
    for text in dict.fromkeys(spec.allocators):
        if text not in peers.names():
            _check_arm(text)
            fixed.append(text)
            continue
        try:
            library = peers.library(text)
        except LabError as error:
            left_out[text] = str(error)
            continue
        options[text] = tunables.options_of(text)
        if text == "hakmem" and library.path:
            known = options_of(library.path)
            options[text] = [option for option in options[text] if option.variable in known]
        if text in tunables.WITHOUT:
            notes.append(f"{text} has no options to try: {tunables.WITHOUT[text]}")
    return Space(options, fixed, left_out, notes)


def _check_arm(text: str) -> None:
    allocator = text.partition(",")[0].strip()
    if "=" not in text and "/" not in text and "@" not in text and ":" not in text:
        raise LabError(f"allocators: there is no allocator '{allocator}': {nearest(allocator, peers.names())}")
    parse_arm(text, where="allocators")


def candidates(spec: "Spec", space: Space) -> list[str]:
    """The arms that are tried from the start. Raises LabError where there are none."""
    texts = space.combined(spec.tries, spec.seed) if spec.combine else space.singles()
    found = [text for text in dict.fromkeys(texts) if text != spec.default]
    if not found:
        why = "; ".join(space.left_out.values()) or f"only '{spec.default}' itself is named"
        raise LabError(f"allocators: there is nothing to try: {why}")
    return found


def arms(spec: "Spec", texts: list[str]) -> list[Arm]:
    """The default first, then the candidates; a candidate's text is its name."""
    return [parse_arm(spec.default, DEFAULT, "default"), *(parse_arm(text, text, "allocators") for text in texts)]


DEFAULT = "default"
ALLOCATORS = ["glibc", "hakmem", "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "google-tcmalloc"]
PERCENTILES = ("p50", "p90", "p99", "p99.9", "p99.99", "max")  # of a program that prints a histogram of its latencies
KNOWN = (*METRICS, *SERVER_METRICS)


def check_reading(pattern: str) -> str:
    """Returns the pattern, or raises ValueError."""
    if not pattern.startswith(PATTERN):
        raise ValueError(f"'{pattern}' does not say how to read it: 'regex:PATTERN' with one group, the number")
    return check_metric(pattern)


class Spec(BlockSpec):
    """default: the arm that the program runs on now. allocators: those whose options are tried, or arms that are tried
    as they are. combine: also try several options of an allocator at once. tries: number of combinations to try; where
    there are more, they are drawn at random. readings: name of a printed figure -> pattern that reads it. histogram:
    pattern of the printed latencies. budget: seconds, half for the choice and half for the confirmation.
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
                raise ValueError(f"'{name}' cannot be the name of a figure: it is empty, or hak measures it itself")
        return value

    @field_validator("histogram")
    @classmethod
    def _histogram(cls, value: str | None) -> str | None:
        if value is None:
            return None
        extras.need("latency", "the key 'histogram'")
        from hakmem_lab.kinds.latency.pool import check_pattern

        return check_pattern(value)

    @model_validator(mode="after")
    def _known_metrics(self) -> "Spec":
        for key, name in (("metric", self.metric), *(("guardrails", name) for name in self.guardrails)):
            self._check_known(key, name)
        if self.higher_is_better and self._is_cost(self.metric):
            raise ValueError(f"metric: more of '{self.metric}' is not better: ask for the least")
        for name, guardrail in self.guardrails.items():
            if guardrail.higher_is_better and self._is_cost(name):
                raise ValueError(
                    f"guardrails: more of '{name}' is not better: a limit says by how much it may grow, as +2%; "
                    "to minimise a metric, use --least"
                )
        return self

    def _is_cost(self, name: str) -> bool:
        """Whether a smaller value of this metric is better in any program."""
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
        """Names of the metrics that are percentiles of the latencies which the program prints."""
        names = (self.metric, *self.guardrails)
        return [name for name in dict.fromkeys(names) if name in PERCENTILES and name not in self.readings]


@dataclass(frozen=True)
class Reading(Metric):
    """A figure that the program prints, under the spec's name for it."""

    pattern: str = field(kw_only=True)

    def read(self, outcome: Outcome, server: dict | None = None, counted: Sequence[str] = ()) -> float:
        """Raises MetricMissing."""
        return Metric(self.pattern).read(outcome, server, counted)


def with_readings(spec: "Spec", metrics: Sequence[Metric]) -> Iterator[Metric]:
    """The metrics with their readers: by pattern, or from the latencies that the program prints."""
    reader = None
    if spec.percentiles():
        extras.need("latency", f"hak tune on {spec.percentiles()[0]}")
        from hakmem_lab.kinds.latency.pool import DEFAULT_PATTERN, Percentile, Reader

        reader = Reader(spec.histogram or DEFAULT_PATTERN, spec.value_unit)
    for metric in metrics:
        if metric.name in spec.readings:
            yield Reading(metric.name, metric.higher_is_better, pattern=spec.readings[metric.name])
        elif reader and metric.name in PERCENTILES:
            yield Percentile(metric.name, reader=reader)
        else:
            yield metric
