"""How fast the memory of one run grows, by the statistics of a soak. Pure."""

from collections.abc import Sequence

import numpy as np

from hakmem_lab.judge.course import KIB_PER_MIB, WARM_UP_LEVEL, analyse_segment
from hakmem_lab.judge.steps import LEAST_KIB, steps
from hakmem_lab.plan.metrics import HOUR_S, THOUSAND
from hakmem_lab.store.records import Record, Sample

TOO_SHORT = "the run was too short for a slope: eight samples of memory behind the warm-up are needed"


def growth(points: Sequence[tuple[int, int]], requests: float | None = None) -> Record:
    """KiB per hour behind the warm-up, or per 1,000 of so many requests, from points of (milliseconds, KiB); else why
    it is unknown.

    It is the slope, or the rate of lasting steps where that is more; steps of the warm-up do not count. A rise below
    LEAST_KIB in the whole run cannot be told from none, and counts as that.
    """
    samples = [Sample(t_s=at / 1000, rss_kib=kib) for at, kib in points]
    segment = analyse_segment(0, samples, WARM_UP_LEVEL) if samples else None
    if segment is None or segment.rss is None:
        return {"why": TOO_SHORT}
    steady = np.array([sample["rss_kib"] for sample in segment.steady_samples()], dtype=float)
    rate, hours = steps(steady, segment.steady_s / HOUR_S).rate(), segment.duration_s / HOUR_S
    per_hour = max(segment.rss.slope_per_s * KIB_PER_MIB, rate.estimate if rate else 0.0, LEAST_KIB / hours)
    return {"growth_kib": per_hour if requests is None else per_hour * hours / requests * THOUSAND}
