"""Whether values come in steps, as those of a coarse clock do.

Duty: the size of the steps. May import NumPy and `paired`.

A clock of 10 ms gives two or three different values for runs of 65 ms. Blocks then tie, or differ by a whole step, and
the interval is wide although nothing in the result shows why.
"""

import numpy as np

from hakmem_lab.judge.statistics.paired import Values, checked

_LEAST_VALUES = 8
_TIED = 0.5  # share of different values among all; values of a fine clock are nearly all different
_ROUNDING = 0.02  # of a step: how far a value may lie from a multiple of it


def step(values: Values) -> float | None:
    """The step of the values as a share of their median; None if they have none, or if all of them are equal."""
    found = checked(values)
    different = np.unique(found)
    if found.size < _LEAST_VALUES or not 1 < different.size <= _TIED * found.size:
        return None
    gap = float(np.diff(different).min())
    steps = different / gap
    if np.abs(steps - np.round(steps)).max() > _ROUNDING:
        return None
    return gap / float(np.median(found))
