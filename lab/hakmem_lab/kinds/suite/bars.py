"""What a suite's subject has to reach: bars, milestones, and guardrails as bars."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hakmem_lab.plan.spec import Guardrail, Model, check_metric

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
    found = re.fullmatch(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%]*)\s*", value)
    if not found or found.group(2) not in units:
        raise ValueError("an amount is a number, or one with us, ms, s, KiB, MiB, GiB or %")
    return float(found.group(1)) * units[found.group(2)]


Amount = Annotated[float, BeforeValidator(parse_amount), Field(gt=0)]


class Bar(Model):
    """What the subject has to reach on one metric of a workload.

    against: the metric's ratio to an arm, to the best of the peers or to the leanest (the best in a metric of memory);
    over: the difference to an arm, in the metric's unit; neither: the subject's own median, in the metric's unit.
    With `against`, at-least is how many times as good the subject must be, at-most how many times the cost it may have.
    higher-is-better: of a metric that is not the workload's own, which has its direction there.
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


class Milestone(Bar):
    """A bar with a name of its own."""

    name: str
    workload: str


def guardrail_bar(metric: str, guardrail: Guardrail, reference: str) -> Bar:
    """A guardrail is a bar against the reference: it holds where the whole interval keeps the limit."""
    name = metric if not metric.startswith("regex:") else "output"
    return Bar(title=f"{GUARDRAIL}: {name}", metric=metric, against=reference,
               higher_is_better=guardrail.higher_is_better, at_most=1 + guardrail.limit)  # fmt: skip
