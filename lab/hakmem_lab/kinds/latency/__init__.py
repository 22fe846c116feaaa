"""`hak latency`: tail latency of an open loop, with arms in randomised blocks, and percentiles of all requests of an
arm. Judged after every block if blocks have enough requests, else at planned looks (`Rule`).

A client that waits for each answer before it sends the next request hides the waiting time of the requests it delays.
So the program follows a schedule, and measures each request from the time at which it should have begun.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from hakmem_lab.designs.contrasts import Contrasts, UntilDecided, many, many_texts
from hakmem_lab.errors import nearest
from hakmem_lab.judge import planning
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Verdict
from hakmem_lab.kinds.latency import pool, result, verdict
from hakmem_lab.kinds.latency.result import read_slow
from hakmem_lab.kinds.latency.verdict import Asked, decide, whats
from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.spec import BaselineSpec, Duration, Guardrail, Ratio, check_metric
from hakmem_lab.run.endings import Progress
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.session import Session
from hakmem_lab.run.workload import Workload
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result
from hakmem_lab.system.launcher import Outcome


def check_percentile(value: str) -> str:
    """Returns the metric, or raises ValueError."""
    if value not in pool.METRICS:
        raise ValueError(f"no percentile '{value}': {nearest(value, pool.METRICS)}")
    return value


def check_guardrails(value: dict[str, Guardrail]) -> dict[str, Guardrail]:
    """Guardrails on percentiles and on the metrics of every kind; else ValueError."""
    for name, guardrail in value.items():
        if name not in pool.METRICS:
            check_metric(name)
        elif guardrail.higher_is_better:
            raise ValueError(f"'{name}' is a time: higher is never better")
    return value


class Spec(BaselineSpec):
    """`{rate}` and `{seconds}` in the command stand for the keys rate and duration. metric: the percentile (of the
    response time, or service-...) that the verdict is about. histogram: the pattern of a histogram in the output."""

    OWN_AA: ClassVar[bool] = False
    kind: Literal["latency"] = "latency"
    allocators: Annotated[list[str], Field(min_length=2, default_factory=lambda: ["glibc", "hakmem"])]
    metric: Annotated[str, AfterValidator(check_percentile)] = "p99"
    guardrails: Annotated[dict[str, Guardrail], AfterValidator(check_guardrails)] = {}
    higher_is_better: Literal[False] = False
    margin: Ratio = 0.05
    looks: Literal[1] = 1
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 12
    warm_up: Annotated[int, Field(ge=0, le=100)] = 0
    repeat: Literal[1] = 1
    rate: Annotated[float, Field(gt=0)] | None = None
    duration: Duration | None = None
    histogram: Annotated[str, AfterValidator(pool.check_pattern)] = pool.DEFAULT_PATTERN
    value_unit: Literal["ns", "us", "ms", "s"] = "ns"

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
        """Placeholder -> its value."""
        given = {"{rate}": self.rate, "{seconds}": self.duration}
        return {name: f"{value:g}" for name, value in given.items() if value is not None}


class HistogramRunner(Runner):
    """Stores the histograms of each run and all their percentiles, besides the primary metric."""

    def __init__(self, workload: Workload, metric: pool.Percentile, others: Sequence[Metric]):
        super().__init__(workload, [metric, *others])
        self._reader = metric.reader

    def _part(self, outcome: Outcome, server: dict | None, why: str | None) -> dict:
        part = super()._part(outcome, server, why)
        if part["why"] is None:
            found = self._reader.histograms(outcome)
            part["metrics"] |= pool.percentiles_us(found)
            part["histograms"] = {series: histogram.encode().decode() for series, histogram in found.items()}
            part |= read_slow(outcome.stdout)
            part["second_mean_us"] = [int(text) / 1e3 for text in pool.SECOND.findall(outcome.stdout)]
        return part


class LatencySession(Session[Spec]):
    """Blocks of runs whose metrics are percentiles."""

    def __init__(self, spec: Spec, arms: Sequence[Arm], progress: Progress):
        super().__init__(spec, arms, progress)
        self.runner.close()
        argv = list(self.workload.argv)
        for placeholder, value in spec.values().items():
            argv = [word.replace(placeholder, value) for word in argv]
        self.workload = replace(self.workload, argv=argv)
        metric = pool.Percentile(spec.metric, reader=pool.Reader(spec.histogram, spec.value_unit))
        watched = [guardrail for guardrail in spec.guardrail_metrics() if guardrail.name not in pool.METRICS]
        self.metrics = [metric, *watched]
        self.runner = HistogramRunner(self.workload, metric, watched)


def note_rule(session: LatencySession) -> None:
    """Decide by the trials which percentiles are judged after every block; report it if the primary one is not."""
    records, spec = session.records(), session.spec
    if not session.file.header().get("anytime") or events(records, planning.BY_BLOCK):
        return
    trials = [record for record in records if record.get("phase") == "calibrate"]
    found = pool.enough(trials, schedule.runs_of_each(len(session.arms)))
    text = f"judged after every block: {', '.join(found) or 'no percentile'}"
    if spec.metric not in found:
        counts = ", ".join(map(str, verdict.looks_at(spec.max_blocks)))
        text += f"; a block has too few requests for {spec.metric}, which is looked at after {counts} blocks"
        session.progress.say(text)
    session.event(planning.BY_BLOCK, text, percentiles=found, reserve=verdict.RESERVE)


class Latency(Contrasts):
    session = LatencySession

    def least(self, spec: Spec, plan: Plan) -> int:
        law, alpha = verdict.of_blocks(spec.max_blocks), spec.alpha / self.questions(spec)
        return max(law.often.least_blocks(alpha), law.seldom.least_blocks(alpha))

    @staticmethod
    def columns(header: Record, blocks: Blocks) -> list[list[float]]:
        """For every side that finished a block, the log-ratios of the percentiles of its blocks."""
        first, *others = (arm["name"] for arm in header["arms"])
        pools = pool.Pools(blocks)
        pairs = (pool.Pair(pools, first, name) for name in others)
        return [pair.log_ratios(header["spec"]["metric"]) for pair in pairs if pair.blocks]

    def measure(self, session: LatencySession) -> None:
        note_rule(session)
        super().measure(session)

    def rule(self, session: LatencySession, phase: str) -> UntilDecided:
        header, (first, *others) = session.file.header(), list(session.arms)
        law = verdict.recorded(header, session.records())
        asked = Asked(header["spec"], law, session.spec.alpha / len(others))

        def decided(blocks: Blocks, name: str) -> Verdict:
            pair = pool.Pair(pool.Pools(blocks, whats(asked.spec)), first, name)
            if not asked.rule.may_settle(pair, asked.metric, asked.delta, asked.alpha):
                return Verdict.INCONCLUSIVE
            return decide(asked, pair).verdict

        return UntilDecided(session, [first, *others], decided)

    def found(self, header: Record, records: list[Record]) -> Result:
        return result.found(header, records)


latency = Latency(Spec, many, many_texts)
