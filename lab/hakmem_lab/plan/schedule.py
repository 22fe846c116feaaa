"""Which arm runs when. Pure: the same seed gives the same schedule, so that an interrupted run continues as planned.

Two arms: ABBA or BAAB by the toss of a coin, so that a drift that is linear over a block cancels in it. More arms:
rows of randomised Latin squares, so that every arm stands equally often at every position. Arms of a shared schedule,
which run at the same time: two rounds a block, each with every arm once, started in random order.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hakmem_lab.plan.metrics import OTHER, PATTERN, row_of

TOGETHER, TURNS, ONE_BY_ONE = "together", "turns", "one-by-one"
# Shared schedule -> the metrics that it does not change. The others are measured one by one: wall time and what depends
# on it, such as the peak memory of an allocator that purges by time.
MEASURES = {
    TOGETHER: ("cpu", "faults", "instructions"),
    TURNS: ("cpu", "server-cpu", "instructions"),
}
ROUNDS = 2  # of a block of a shared schedule
PAD_BYTES = 4096
WORKLOAD_SEED_BITS = 31


@dataclass(frozen=True)
class Block:
    """order: arms in the order of their runs. pads: bytes of padding in the environment of each run."""

    index: int
    order: tuple[str, ...]
    pads: tuple[int, ...]


def _with_pads(index: int, order: Sequence[str], rng: random.Random) -> Block:
    # The length of the environment shifts the stack and so its cache lines: it is drawn anew for every run.
    return Block(index, tuple(order), tuple(rng.randrange(PAD_BYTES) for _ in order))


def pair_block(control: str, treatment: str, seed: int, index: int) -> Block:
    """The index-th block of two arms: each of them twice."""
    rng = random.Random(f"pair {seed} {index}")
    outer, inner = (control, treatment) if rng.random() < 0.5 else (treatment, control)
    return _with_pads(index, (outer, inner, inner, outer), rng)


def latin_square(arms: Sequence[str], rng: random.Random) -> list[tuple[str, ...]]:
    """Every arm once in every row and in every column: a cyclic square, its rows, columns and arms shuffled."""
    k = len(arms)
    columns, rows, names = (rng.sample(range(k), k) for _ in range(3))
    return [tuple(arms[names[(row + column) % k]] for column in columns) for row in rows]


def row_block(arms: Sequence[str], seed: int, index: int) -> Block:
    """The index-th block of k arms: each once. Blocks nk to nk + k - 1 make up a Latin square."""
    square, row = divmod(index, len(arms))
    order = latin_square(arms, random.Random(f"square {seed} {square}"))[row]
    return _with_pads(index, order, random.Random(f"row {seed} {index}"))


def shared_block(arms: Sequence[str], seed: int, index: int) -> Block:
    """The index-th block of arms that run at the same time: its order is that of the first round, then the second."""
    rng = random.Random(f"together {seed} {index}")
    return _with_pads(index, [name for _ in range(ROUNDS) for name in rng.sample(arms, len(arms))], rng)


def runs_of_each(arms: int, name: str = ONE_BY_ONE) -> int:
    """Runs of each arm in a block with this number of arms."""
    return ROUNDS if name in MEASURES else 2 if arms == 2 else 1


def left_out(name: str, metrics: Iterable[str]) -> list[str]:
    """The metrics that a schedule cannot measure: under a shared one they come from runs one by one."""
    return [metric for metric in metrics if metric not in MEASURES.get(name, [metric])]


def of_figure(name: str | None, metric: str) -> str | None:
    """The schedule of a metric's runs in a result of the schedule `name`."""
    known = row_of(metric) is not OTHER or metric.startswith(PATTERN)
    return ONE_BY_ONE if name and known and left_out(name, [metric]) else name


def workload_seed(seed: int, phase: str, index: int) -> int:
    """The value of `{seed}` in a phase's index-th block: the same for all runs of the block."""
    return random.Random(f"workload {seed} {phase} {index}").getrandbits(WORKLOAD_SEED_BITS)


def block(arms: Sequence[str], seed: int, index: int, name: str = ONE_BY_ONE, once: bool = False) -> Block:
    """The index-th block of the schedule `name`: the first arm is the control, or the baseline. once: one by one, two
    arms run once each, as more of them do."""
    if len(set(arms)) != len(arms) or len(arms) < 2:
        raise ValueError("a schedule needs two or more different sides")
    if name in MEASURES:
        return shared_block(arms, seed, index)
    return pair_block(arms[0], arms[1], seed, index) if len(arms) == 2 and not once else row_block(arms, seed, index)
