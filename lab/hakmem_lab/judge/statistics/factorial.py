"""Two-level factorial designs.

Duty: the effect of a factor at each level of the others, interactions and main effects of 2^k cells, each from a
contrast within every block. May import NumPy and `paired`.

An interval contains all values that a permutation test does not reject. The test flips the signs of whole blocks, in
all 2^n ways, and adds up the signed ranks of the contrasts. The cells of a block run one after the other, so the effect
of the place in the block is removed first: by one slope for the whole run (`without_drift`), or, if a run is judged
after every block, by the slope of the blocks before (`freed_as_known`). `questions` returns the contrasts themselves,
for a rule that is applied after every block.

Cells are in standard (Yates) order: bit j of a cell's index is 1 when factor j (in the order of the names) is on, so
for two factors (1), a, b, ab. Cell values are natural logs, oriented so that higher is better.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, paired_interval, simultaneous_intervals

INTERACTION_SIGN = "×"
_REFRESH = 1.1


class Interaction(StrEnum):
    SUPER_ADDITIVE = "super-additive"
    SUB_ADDITIVE = "sub-additive"
    NOT_SHOWN = "undecided"


@dataclass(frozen=True)
class Effect:
    """A named effect, `interval` in the log domain. kind: "simple" (a factor at one level of all others), "combined"
    (several factors on, against none), "interaction" or "main" (the average over the levels of the others)."""

    name: str
    interval: Interval
    kind: str
    factors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """An effect before it is judged: `d` is its contrast in every block; the other fields are as in Effect."""

    name: str
    kind: str
    factors: tuple[str, ...]
    d: np.ndarray


def effects(
    blocks: Sequence[Sequence[float]], names: Sequence[str], level: float = 0.95, simultaneous: bool = False
) -> list[Effect]:
    """Main effects and every interaction, main effects first, then by order of interaction.

    `blocks` has one row per block and 2^k columns. A main effect is the mean over the other factors of on minus off;
    the interaction of S is the signed sum over S's cells (d11 - d10 - d01 + d00 for two factors), averaged over the
    rest. With `simultaneous` all intervals hold at once with probability `level`.
    """
    return _judged(_averaged(_cells(blocks, names), names), level, simultaneous)


def simple_effects(
    blocks: Sequence[Sequence[float]], names: Sequence[str], level: float = 0.95, simultaneous: bool = False
) -> list[Effect]:
    """Each factor on against off, at every combination of the others' levels ("a while b is off"); then, named "a+b",
    each cell with several factors on against the one with none. With `simultaneous`, all intervals hold at once."""
    return _judged(_conditional(_cells(blocks, names), names), level, simultaneous)


def questions(blocks: Sequence[Sequence[float]], names: Sequence[str]) -> list[Question]:
    """All questions about a design: `simple_effects`, then `effects`, as contrasts of every block."""
    cells = _cells(blocks, names)
    return _conditional(cells, names) + _averaged(cells, names)


def question_count(factors: int) -> int:
    """The number of `questions`, which share alpha if all of them are to hold at once."""
    cells = 2**factors
    return factors * cells // 2 + (cells - 1 - factors) + (cells - 1)


def misleading(found: Sequence[Effect], delta: float) -> dict[str, Effect]:
    """Main effect -> the largest interaction that involves it, is shown, and is at least `delta` (a log-ratio).

    Such a factor has no single effect; the average over levels describes a mixture that nobody runs.
    """
    shown = [e for e in found if e.kind == "interaction" and e.interval.excludes_zero()]
    reasons = {}
    for main in (effect for effect in found if effect.kind == "main"):
        own = [e for e in shown if main.name in e.factors and abs(e.interval.estimate) >= delta]
        if own:
            reasons[main.name] = max(own, key=lambda e: abs(e.interval.estimate))
    return reasons


def without_drift(blocks: Sequence[Sequence[float]], positions: Sequence[Sequence[int]]) -> tuple[np.ndarray, float]:
    """(the cells' values as if each had run in the middle of its block, the change from one place to the next).

    The change is one number for the whole run: the weighted median of the slopes between every two runs of a block,
    after each cell's own level is subtracted. If every cell has had every place equally often, the correction hardly
    matters. It matters if a run ends within a square, and it narrows the intervals if blocks drift.
    """
    cells, places = _placed(blocks, positions)
    slope = _slope(cells, places)
    return cells - slope * (places - places.mean(axis=1, keepdims=True)), slope


def freed_as_known(blocks: Sequence[Sequence[float]], positions: Sequence[Sequence[int]]) -> tuple[np.ndarray, float]:
    """Like without_drift, for a run that is judged after every block: (values, the change that all blocks show).

    Each block is corrected by the change that the blocks before it show. Later blocks do not alter that, so earlier
    judgements stay valid. The first square is not corrected; the change is computed again whenever there are a tenth
    more blocks.
    """
    cells, places = _placed(blocks, positions)
    freed, due = cells.copy(), cells.shape[1]
    while due < len(cells):
        away = places[due:] - places[due:].mean(axis=1, keepdims=True)
        freed[due:] = cells[due:] - _slope(cells[:due], places[:due]) * away
        due = math.ceil(due * _REFRESH)
    return freed, _slope(cells, places)


def _placed(blocks: Sequence[Sequence[float]], positions: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    cells, places = np.asarray(blocks, dtype=float), np.asarray(positions, dtype=float)
    if places.shape != cells.shape:
        raise ValueError(f"expected a position for every value, got arrays of {places.shape} and {cells.shape}")
    return cells, places


def _slope(cells: np.ndarray, places: np.ndarray) -> float:
    """The change from one place in a block to the next."""
    centred = cells - cells.mean(axis=1, keepdims=True)
    rest = centred - np.median(centred, axis=0)
    width = cells.shape[1]
    first, second = np.triu_indices(width, 1)
    apart = (places[:, second] - places[:, first]).ravel()
    change = (rest[:, second] - rest[:, first]).ravel()
    slopes, weights = (change / apart), np.abs(apart)
    order = np.argsort(slopes)
    reached = np.cumsum(weights[order])
    return float(slopes[order][np.searchsorted(reached, reached[-1] / 2)])


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


def _averaged(cells: np.ndarray, names: Sequence[str]) -> list[Question]:
    subsets = sorted(range(1, cells.shape[1]), key=lambda subset: (subset.bit_count(), _bits(subset)))
    found = []
    for subset in subsets:
        members = tuple(names[bit] for bit in _bits(subset))
        kind = "main" if len(members) == 1 else "interaction"
        found.append(Question(INTERACTION_SIGN.join(members), kind, members, cells @ _contrast(subset, len(names))))
    return found


def _conditional(cells: np.ndarray, names: Sequence[str]) -> list[Question]:
    found = []
    for bit, name in enumerate(names):
        for cell in range(cells.shape[1]):
            if cell >> bit & 1:
                continue
            levels = [
                f"{other} is {'on' if cell >> place & 1 else 'off'}"
                for place, other in enumerate(names)
                if place != bit
            ]
            called = f"{name} while {', '.join(levels)}" if levels else name
            found.append(Question(called, "simple", (name,), cells[:, cell | 1 << bit] - cells[:, cell]))
    for cell in range(cells.shape[1]):
        if cell.bit_count() > 1:
            members = tuple(names[bit] for bit in _bits(cell))
            found.append(Question("+".join(members), "combined", members, cells[:, cell] - cells[:, 0]))
    return found


def _judged(asked: Sequence[Question], level: float, simultaneous: bool) -> list[Effect]:
    columns = {question.name: question.d for question in asked}
    if simultaneous:
        intervals = simultaneous_intervals(columns, level)
    else:
        intervals = {name: paired_interval(d, level) for name, d in columns.items()}
    return [Effect(question.name, intervals[question.name], question.kind, question.factors) for question in asked]
