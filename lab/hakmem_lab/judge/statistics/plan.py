"""A plan: when a run may be judged, and the one interval that then holds.

Duty: join the planned looks and the test after every block into one interval. May import NumPy, `anytime`, `looks`,
`paired`.

Alpha is divided: the O'Brien–Fleming looks have 1 - `share` of it, the bets of `anytime` the rest. What either excludes
is excluded: the interval is what all looks so far and the confidence sequence leave over. So it only ever shrinks, what
was shown stays shown, and it holds after any number of blocks, also after more than were planned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics import anytime
from hakmem_lab.judge.statistics.looks import obrien_fleming_levels
from hakmem_lab.judge.statistics.paired import Interval, hodges_lehmann, least_count, paired_intervals

# Of alpha, for the test after every block. Chosen by simulation: half of it would save one block in sixteen at an
# effect of one spread, and cost a third of the NEUTRAL verdicts that the planned blocks just reach.
SHARE = 0.35


@dataclass(frozen=True)
class Judged:
    """`interval` covers with 1 - alpha, `equivalence` leaves alpha on each side; `consistent`: some effect explains all
    blocks (else both are unlimited)."""

    interval: Interval
    equivalence: Interval
    consistent: bool


@dataclass(frozen=True)
class Plan:
    """`looks`: block counts of the planned looks; `share`: of alpha, for the test after every block (0: none)."""

    looks: tuple[int, ...]
    share: float = SHARE

    def __post_init__(self):
        if not 0 <= self.share < 1:
            raise ValueError(f"the share of alpha must lie between 0 and 1, got {self.share}")
        obrien_fleming_levels(self.looks, 0.05)

    def judged(self, d: Sequence[float], alpha: float) -> Judged:
        """What these blocks show, whatever their number."""
        ends = [[-math.inf, math.inf], [-math.inf, math.inf]]
        tails = (alpha * self.share / 2, alpha * self.share)
        for count, *levels in self.levels(alpha):
            if count <= len(d):
                for joined, found in zip(ends, paired_intervals(d[:count], levels), strict=True):
                    joined[:] = max(joined[0], found.low), min(joined[1], found.high)
        if self.share:
            bets = anytime.Bets(d)
            for joined, tail in zip(ends, tails, strict=True):
                joined[:] = max(joined[0], bets.bound(tail)), min(joined[1], bets.bound(tail, above=False))
        consistent = all(low <= high for low, high in ends)
        if not consistent:
            ends = [[-math.inf, math.inf]] * 2
        estimate = min(max(hodges_lehmann(d), ends[1][0]), ends[1][1])
        interval, equivalence = (
            Interval(estimate, *joined, level, len(d))
            for joined, level in zip(ends, (1 - alpha, 1 - 2 * alpha), strict=True)
        )
        return Judged(interval, equivalence, consistent)

    def shown(self, d: Sequence[float], alpha: float, delta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether the effect is above 0, below 0, inside ±delta, after every block: what `judged` of the first so many
        blocks says, at a fraction of its cost."""
        sides = {"above": (0.0, True, 2), "below": (0.0, False, 2)}
        sides |= {"more": (-delta, True, 1), "less": (delta, False, 1)}
        shown = {name: np.zeros(len(d), dtype=bool) for name in sides}
        if self.share:
            bets = anytime.Bets(d)
            for name, (centre, above, halves) in sides.items():
                shown[name] = bets.log_capital(centre, above) >= -math.log(alpha * self.share / halves)
        for count, difference, equivalence in self.levels(alpha):
            if count <= len(d):
                two_sided, one_sided = paired_intervals(d[:count], [difference, equivalence])
                for name, (centre, above, halves) in sides.items():
                    look = two_sided if halves == 2 else one_sided
                    shown[name][count - 1 :] |= look.low > centre if above else look.high < centre
        return shown["above"], shown["below"], shown["more"] & shown["less"]

    def levels(self, alpha: float) -> list[tuple[int, float, float]]:
        """Of every look: its count, the level of its interval, and of the one for equivalence."""
        two_sided, one_sided = (
            obrien_fleming_levels(self.looks, alpha * (1 - self.share), sides) for sides in (True, False)
        )
        found = zip(self.looks, two_sided, one_sided, strict=True)
        return [(count, 1 - two, 1 - 2 * one) for count, two, one in found]

    def least_blocks(self, alpha: float) -> int:
        """Fewest blocks, as a plan's last look or after any block, with which a direction can be shown."""
        by_looks = least_count(obrien_fleming_levels(self.looks, alpha * (1 - self.share))[-1] / 2)
        if not self.share:
            return by_looks
        return min(by_looks, anytime.least_count(alpha * self.share / 2))
