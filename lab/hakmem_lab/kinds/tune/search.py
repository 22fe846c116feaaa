"""Chooses among candidates by successive halving: those that take part in the next block, and the last one. Pure.

All candidates and the default run in the same blocks. After every rung the better half by the objective stays;
candidates that clearly break a limit do not count. Each rung has twice the blocks of the one before. The search only
chooses: its estimates are not reported and bound no error, which is the task of the confirmation.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hakmem_lab.judge.analysis import log_ratios
from hakmem_lab.judge.statistics.paired import as_log, hodges_lehmann
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.store.query import Blocks

LONGEST_RUNG = 16
DOUBT = 2.0  # standard errors by which a metric may miss its limit and still keep it


@dataclass(frozen=True)
class Aim:
    """The goal of the search. control: the arm that candidates are compared with; limits: metric -> tolerated
    worsening, a ratio minus one."""

    control: str
    metric: Metric
    limits: Mapping[Metric, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rung:
    """blocks: number of blocks at its end; arms: those that took part to its end; kept: those that stayed, the best
    first."""

    blocks: int
    arms: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Course:
    """Progress of the choice. alive: the candidates in the next block; until: number of blocks at the end of this
    rung."""

    alive: tuple[str, ...]
    until: int
    rungs: tuple[Rung, ...]

    @property
    def chosen(self) -> str | None:
        return self.alive[0] if len(self.alive) == 1 else None


@dataclass(frozen=True)
class Score:
    """One candidate's log-ratios, positive = better. slack: distance of its worst metric from the limit."""

    estimate: float
    slack: float


def score(blocks: Blocks, name: str, aim: Aim, doubt: float) -> Score:
    """doubt: standard errors by which a metric may miss its limit before the limit counts as broken."""
    mine = shared(blocks, aim.control, name)
    found = log_ratios(mine, aim.control, name, aim.metric)
    slack = math.inf
    for metric, limit in aim.limits.items():
        d = log_ratios(mine, aim.control, name, metric)
        if not d:
            return Score(-math.inf, -math.inf)
        error = statistics.stdev(d) / math.sqrt(len(d)) if len(d) > 1 else 0.0
        slack = min(slack, hodges_lehmann(d) + doubt * error + as_log(limit))
    return Score(hodges_lehmann(found) if found else -math.inf, slack)


def ranked(names: Sequence[str], blocks: Blocks, aim: Aim, keep: int) -> tuple[str, ...]:
    """The best first, at most `keep`. Where all break a limit, the ones that break it least come first."""
    scores = {name: score(blocks, name, aim, DOUBT if keep > 1 else 0.0) for name in names}
    sound = [name for name in names if scores[name].slack >= 0]
    if sound:
        return tuple(sorted(sound, key=lambda name: -scores[name].estimate)[:keep])
    return tuple(sorted(names, key=lambda name: -scores[name].slack)[:keep])


def course(
    names: Sequence[str], blocks: Blocks, aim: Aim, first: int, gone: Mapping[str, int], over: bool = False
) -> Course:
    """The progress, from the candidates, the blocks so far and the length of the first rung. gone: failed candidate ->
    block in which it failed. over: there is no time for further blocks, so these decide."""

    def present(names: Sequence[str], until: int) -> tuple[str, ...]:
        return tuple(name for name in names if gone.get(name, math.inf) >= min(until, len(blocks) + 1))

    if len(names) == 1:
        return Course(present(names, 1), 0, ())
    alive, until, length, rungs = tuple(names), first, first, list[Rung]()
    while True:
        alive = present(alive, until)
        if over and len(alive) > 1 and len(blocks) < until:
            kept = ranked(alive, blocks, aim, 1)
            return Course(kept, len(blocks), (*rungs, Rung(len(blocks), alive, kept)))
        if len(alive) <= 1 or len(blocks) < until:
            return Course(alive, until, tuple(rungs))
        kept = ranked(alive, blocks[:until], aim, (len(alive) + 1) // 2)
        rungs.append(Rung(until, alive, kept))
        alive, length = kept, min(2 * length, LONGEST_RUNG)
        until += length


def blocks_of(count: int, first: int) -> list[tuple[int, int]]:
    """(blocks, candidates) of every rung, if no candidate fails."""
    found, length = [], first
    while count > 1:
        found.append((length, count))
        count, length = (count + 1) // 2, min(2 * length, LONGEST_RUNG)
    return found


def runs_of(count: int, first: int) -> int:
    """The most runs that the whole choice takes, including those of the default."""
    return sum(length * (4 if each == 1 else each + 1) for length, each in blocks_of(count, first))
