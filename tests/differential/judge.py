"""What counts as a fault: our runs of a program beside those of the others, and beside themselves as rounds go by."""

import signal
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arms import OURS, Run, run, run_all
from programs import LONGEST_RUN_S, Program

Runs = dict[str, list[Run]]


@dataclass(frozen=True)
class Limit:
    """Ours may be `ratio` times the best of the others, and `floor` more. µs, KiB or counts, as `of` gives them."""

    of: Callable[[Run], float]
    ratio: float
    floor: float
    unit: str
    time: bool = False  # the best of several runs counts, for noise only adds; else the median

    def value(self, runs: Sequence[Run]) -> float:
        values = [self.of(one) for one in runs]
        return min(values) if self.time else statistics.median(values)


MIB = 1024
LIMITS = {
    "cpu": Limit(lambda r: r.last.cpu_us, 3, 60_000, "µs", time=True),
    "waits": Limit(lambda r: r.last.waits, 3, 3000, "", time=True),
    "longest call": Limit(lambda r: r.longest_us, 3, 2_000, "µs", time=True),
    "peak RSS": Limit(lambda r: r.peak_rss, 2, 16 * MIB, "KiB"),
    "idle RSS": Limit(lambda r: r.idle.rss if r.idle else 0, 2, 16 * MIB, "KiB"),
    "peak VmSize": Limit(lambda r: r.peak_size, 2, 256 * MIB, "KiB"),
    "mappings": Limit(lambda r: max(s.mappings for s in r.samples), 2, 200, ""),
    "refused": Limit(lambda r: r.refused, 1, 0, "calls"),
}
# What CI asks: nothing that a busy machine could change.
STABLE = ("peak RSS", "mappings", "refused")
METADATA_FLOOR, METADATA_SHARE = 4 * MIB, 0.02
# Growth over the second half of the rounds: by at least so much, and this share of what there was.
GROWTH = {"rss": (4 * MIB, 0.05, "KiB"), "size": (64 * MIB, 0.05, "KiB"), "mappings": (100, 0.05, "")}
SLOWER, SLOWER_FLOOR_US = 2.0, 60_000


@dataclass(frozen=True)
class Flag:
    """`kind` on our side against the best of the others, or of the first rounds (`arm` says which)."""

    kind: str
    ours: float
    best: float
    arm: str
    unit: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / max(self.best, 1)

    def __str__(self) -> str:
        if self.kind in ("status", "contents"):
            return f"{self.kind}: {self.arm}"
        scale, unit = (1000, "ms") if self.unit == "µs" else (1024, "MiB") if self.unit == "KiB" else (1, self.unit)
        return f"{self.kind}: {self.ours / scale:.6g} {unit}, {self.arm} {self.best / scale:.6g}".replace(" ,", ",")


def possible(one: Run) -> list[Flag]:
    """What a run of ours alone could be flagged for: where all is below the floors, the others need not run."""
    if one.status == -signal.SIGXCPU:
        return [Flag("cpu", LONGEST_RUN_S * 1e6, 0, "")]
    if one.status != 0 or one.stderr:
        return [Flag("contents" if one.status == 3 else "status", one.status, 0, "")]
    values = {kind: limit.of(one) for kind, limit in LIMITS.items() if limit.of(one) > limit.floor}
    if one.metadata > METADATA_FLOOR:
        values["metadata"] = one.metadata
    return [*(Flag(kind, value, 0, "") for kind, value in values.items()), *growth(one, times=True)]


def ended_badly(runs: Runs) -> list[Flag]:
    """Ours failed where another did not. What stderr says besides counts, too."""
    bad = [one for one in runs[OURS] if one.status != 0 or one.stderr]
    if not bad or all(one.status != 0 for arm, rows in runs.items() if arm != OURS for one in rows):
        return []
    if bad[0].status == -signal.SIGXCPU:
        least, arm = min((one.last.cpu_us, arm) for arm, rows in runs.items() for one in rows if one.status == 0)
        longest = LONGEST_RUN_S * 1e6  # or more
        return [Flag("cpu", longest, least, arm, "µs")] if longest > LIMITS["cpu"].ratio * least else []
    return [
        Flag("contents" if bad[0].status == 3 else "status", bad[0].status, 0, f"{bad[0].status} {bad[0].stderr!r}")
    ]


def compared(runs: Runs, kinds: Sequence[str]) -> list[Flag]:
    good = {arm: [one for one in rows if one.status == 0] for arm, rows in runs.items()}
    rivals = [arm for arm, rows in good.items() if rows and arm != OURS]
    if not good[OURS] or not rivals:
        return []
    flags = []
    for kind in kinds:
        limit = LIMITS[kind]
        ours = limit.value(good[OURS])
        best, arm = min((limit.value(good[rival]), rival) for rival in rivals)
        if ours > limit.ratio * best + limit.floor:
            flags.append(Flag(kind, ours, best, arm, limit.unit))
    metadata, size = good[OURS][0].metadata, good[OURS][0].peak_size
    if metadata > METADATA_FLOOR + METADATA_SHARE * size:
        flags.append(Flag("metadata", metadata, size, "VmSize", "KiB"))
    return flags


def growth(one: Run, times: bool) -> list[Flag]:
    """From one quarter of the rounds to all, and still in the second half: what lives is taken off."""
    rows = [sample for sample in one.samples if sample.round >= 0]
    if len(rows) < 9:
        return []
    first, middle, last = rows[len(rows) // 4], rows[len(rows) // 2], rows[-1]
    flags = []
    for kind, (floor, share, unit) in GROWTH.items():
        live = (last.live - first.live, last.live - middle.live) if unit == "KiB" else (0, 0)
        start, end = getattr(first, kind), getattr(last, kind)
        least = floor + share * start
        if end - start - max(0, live[0]) > least and end - getattr(middle, kind) - max(0, live[1]) > least / 2:
            flags.append(Flag(f"{kind} grows", end, start, f"after a quarter of {last.round} rounds", unit))
    if times:
        early, late = middle.cpu_us - first.cpu_us, last.cpu_us - rows[-1 - (len(rows) // 4)].cpu_us
        if late > SLOWER * early + SLOWER_FLOOR_US:
            flags.append(Flag("rounds slow down", late, early, f"in the second quarter of {last.round} rounds", "µs"))
    return flags


def grows_alike(flag: Flag, others: Sequence[Run]) -> bool:
    """Whether each of the others grows by half as much, too: then it is the program that grows."""
    kind = flag.kind.split()[0]
    if kind not in GROWTH:
        return False
    rows = [[sample for sample in one.samples if sample.round >= 0] for one in others if one.status == 0]
    increases = [getattr(each[-1], kind) - getattr(each[len(each) // 4], kind) for each in rows]
    return bool(increases) and 2 * min(increases) >= flag.ours - flag.best


def judge(runs: Runs, stable: bool = False) -> list[Flag]:
    """All that is wrong with our runs; `stable`: of what no noise can change."""
    if flags := ended_badly(runs):
        return flags
    flags = compared(runs, STABLE if stable else tuple(LIMITS))
    grown = [growth(one, times=not stable) for one in runs[OURS] if one.status == 0]
    if grown and all(grown):
        flags += grown[-1]
    return flags


def confirm(flags: Sequence[Flag], program: Program, arms: Sequence[str], times: int = 3, **how) -> list[Flag]:
    """Those that show in `times` more runs together; growth also in four times as many rounds, and more of it."""
    if not flags:
        return []
    kinds = {flag.kind for flag in flags}
    confirmed = []
    if any(not kind.endswith(("grows", "down")) for kind in kinds):
        again = judge(run_all(arms, program, times, **how))
        confirmed += [flag for flag in again if flag.kind in kinds and not flag.kind.endswith(("grows", "down"))]
    before = {flag.kind: flag for flag in flags if flag.kind.endswith(("grows", "down"))}
    if before:
        long = {**program, "rounds": program["rounds"] * 4}
        longer = run(OURS, long, **how)
        found = [] if longer.status else growth(longer, times=True)
        more = [
            f for f in found if f.kind in before and f.ours - f.best > 2 * (before[f.kind].ours - before[f.kind].best)
        ]
        if more:
            others = [run(arm, long, **how) for arm in arms if arm != OURS]
            confirmed += [flag for flag in more if not grows_alike(flag, others)]
    return confirmed
