"""Several arms against one baseline.

Duty: keep the family-wise error when k comparisons are made at once. May import NumPy and `paired`.

Simultaneous intervals are Bonferroni's (each at level 1 - (1 - level) / k): exact in small samples like the interval
they widen, valid whatever the dependence between the arms, and without random numbers. A sign-flip max-T would be a few
percent narrower for arms that share a baseline, at the price of symmetry assumptions about all arms jointly.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, checked, hodges_lehmann, paired_interval


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given; compare each with the family-wise alpha."""
    p = np.asarray(p_values, dtype=float)
    if p.size == 0:
        return []
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values must lie between 0 and 1")
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted.tolist()


def simultaneous_intervals(columns: Mapping[str, Sequence[float]], level: float = 0.95) -> dict[str, Interval]:
    """An interval per named column of per-block log-ratios; with probability `level` all of them hold at once."""
    if not columns:
        return {}
    each = 1 - (1 - level) / len(columns)
    return {name: paired_interval(d, each) for name, d in columns.items()}


def select_best(columns: Mapping[str, Sequence[float]]) -> str:
    """The name of the column with the highest estimate (the first of equals); ValueError when there is none.

    The winner's own estimate is biased upwards by having been selected: only a fresh run against the default may be
    quoted.
    """
    if not columns:
        raise ValueError("there are no arms to select from")
    return max(columns, key=lambda name: hodges_lehmann(checked(columns[name])))
