"""The figures beside a verdict: other metrics, several sides. All of them share one alpha, at any time of the run.

Duty: alpha of each figure, and the plan by which its interval is valid. May import `plan`.

The verdict decides when a run ends, so an interval of a single look would be wrong too often: it is read at the time
that suits the verdict. Each figure is therefore judged by the run's plan, at its part of alpha (Bonferroni). The
verdict seldom ends a run at a planned look, so most of a figure's alpha is for the test after every block.

While the verdict is open, the figures share only a quarter of alpha. A page whose metrics are all equal then contains a
false claim, the verdict's included, in about 5 % of simulated runs at most. Once the verdict is decided, it claims
nothing false where it is NEUTRAL, and the figures share all of alpha.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from hakmem_lab.judge.statistics.plan import Plan

SHARE = 0.9  # of a figure's alpha, for the test after every block
OF_HEADLINES = 0.9  # of alpha, for the metrics that a headline may mention: they need fewer blocks than the others
OPEN = 0.25  # of alpha, while the verdict is open


def plan_of(plan: Plan) -> Plan:
    """The plan by which the figures beside this plan's verdict are judged."""
    return replace(plan, share=SHARE) if plan.share else plan


def alphas(metrics: Sequence[str], headlines: Collection[str], alpha: float, decided: bool) -> dict[str, float]:
    """Metric -> its part of alpha, that of all figures beside the verdict on one side. decided: the verdict is."""
    whole = alpha if decided else OPEN * alpha
    groups = [[name for name in metrics if (name in headlines) is chosen] for chosen in (True, False)]
    parts = [OF_HEADLINES, 1 - OF_HEADLINES] if all(groups) else [1.0, 1.0]
    return {name: whole * part / len(group) for group, part in zip(groups, parts, strict=True) for name in group}
