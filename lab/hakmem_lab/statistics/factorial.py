"""Two-level factorial designs.

Duty: main effects, interactions and simple effects of 2^k cells, each from a contrast within every block. May import
NumPy, `paired` and `multiple`.

Cells are in standard (Yates) order: bit j of a cell's index is 1 when factor j (in the order of the names) is on, so
for two factors (1), a, b, ab. Cell values are natural logs, oriented so that higher is better.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from .multiple import simultaneous_intervals
from .paired import Interval, paired_interval

INTERACTION_SIGN = "×"


class Interaction(StrEnum):
    SUPER_ADDITIVE = "super-additive"
    SUB_ADDITIVE = "sub-additive"
    NOT_SHOWN = "no interaction shown"


@dataclass(frozen=True)
class Effect:
    """A named effect; `kind` is "main", "interaction" or "simple", `interval` in the log domain."""

    name: str
    interval: Interval
    kind: str


def effects(
    blocks: Sequence[Sequence[float]], names: Sequence[str], level: float = 0.95, simultaneous: bool = False
) -> list[Effect]:
    """Main effects and every interaction, main effects first, then by order of interaction.

    `blocks` has one row per block and 2^k columns. A main effect is the mean over the other factors of on minus off;
    the interaction of S is the signed sum over S's cells (d11 - d10 - d01 + d00 for two factors), averaged over the
    rest. With `simultaneous` all intervals hold at once with probability `level`.
    """
    cells = _cells(blocks, names)
    subsets = sorted(range(1, cells.shape[1]), key=lambda subset: (subset.bit_count(), _bits(subset)))
    columns, kinds = {}, {}
    for subset in subsets:
        name = INTERACTION_SIGN.join(names[bit] for bit in _bits(subset))
        columns[name] = cells @ _contrast(subset, len(names))
        kinds[name] = "main" if subset.bit_count() == 1 else "interaction"
    return _judged(columns, kinds, level, simultaneous)


def simple_effects(
    blocks: Sequence[Sequence[float]], names: Sequence[str], level: float = 0.95, simultaneous: bool = False
) -> list[Effect]:
    """Each cell against the all-off cell of the same block; names join the factors that are on with "+"."""
    cells = _cells(blocks, names)
    columns = {
        "+".join(names[bit] for bit in _bits(cell)): cells[:, cell] - cells[:, 0] for cell in range(1, cells.shape[1])
    }
    return _judged(columns, dict.fromkeys(columns, "simple"), level, simultaneous)


def classify_interaction(interval: Interval) -> Interaction:
    """Super- or sub-additive only when the interval of the interaction contrast says so."""
    if interval.low > 0:
        return Interaction.SUPER_ADDITIVE
    if interval.high < 0:
        return Interaction.SUB_ADDITIVE
    return Interaction.NOT_SHOWN


def _cells(blocks: Sequence[Sequence[float]], names: Sequence[str]) -> np.ndarray:
    cells = np.asarray(blocks, dtype=float)
    if cells.ndim != 2 or cells.shape[0] == 0 or cells.shape[1] != 2 ** len(names) or not names:
        raise ValueError(f"{len(names)} factors need rows of {2 ** len(names)} cells, got an array of {cells.shape}")
    if len(set(names)) != len(names):
        raise ValueError(f"factor names must differ, got {list(names)}")
    return cells


def _bits(subset: int) -> tuple[int, ...]:
    return tuple(bit for bit in range(subset.bit_length()) if subset >> bit & 1)


def _contrast(subset: int, factors: int) -> np.ndarray:
    cells = range(2**factors)
    signs = [(-1.0) ** (subset & ~cell).bit_count() for cell in cells]
    return np.array(signs) / 2 ** (factors - subset.bit_count())


def _judged(columns: dict[str, np.ndarray], kinds: dict[str, str], level: float, simultaneous: bool) -> list[Effect]:
    if simultaneous:
        intervals = simultaneous_intervals(columns, level)
    else:
        intervals = {name: paired_interval(d, level) for name, d in columns.items()}
    return [Effect(name, intervals[name], kinds[name]) for name in columns]
