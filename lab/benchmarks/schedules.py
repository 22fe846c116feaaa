"""What schedules measure: python benchmarks/schedules.py aa|bias|sharing [--blocks N] [--sets KIB,...]. Prints a
table; keeps nothing. Blocks of the schedules that a row compares alternate, so that both meet the same machine.

aa: the spread of a block of four runs of one program against itself, for each schedule. bias: the effect that a block
shows for a known amount of further work or of further cache misses, for working sets of 32 KiB to 1 GiB. sharing: what
a working set costs because the other side uses the same caches.
"""

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hakmem_lab.judge.statistics.paired import as_ratio, block_log_ratio
from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import command_arms
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.together import Together
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import machine

WORK = Path(__file__).with_name("work.c")
PRINTED = Metric(r"regex:^([0-9.]+)")
SETS_KIB = (32, 256, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 1 << 20)
EXTRA_PERCENT = (0, 1, 2, 5)
MISSES = 2000  # further misses in a million steps
TARGET_S, TRIAL_STEPS, MILLION = 0.08, 1_000_000, 1_000_000
LUA = "local t={} for i=1,400000 do t[i]=tostring(i) end print(#table.concat(t))"
PROGRAMS = {
    "jq": ["jq", "-n", "[range(300000)]|map(tostring)|length"],
    "lua": ["lua5.4", "-e", LUA],
    "xz": ["xz", "-T1", "-3", "-c", "NUMBERS"],
}
Blocks = Callable[[int], list[float]]  # the log-ratios of so many blocks, above 0 = the second command needs more


def measured(first: Sequence[str], second: Sequence[str], metric: Metric) -> dict[str, Blocks]:
    """Way -> what measures blocks of two commands that way."""
    values = {"kind": "ab", "commands": [list(first), list(second)], "metric": "cpu"}
    spec = build(AbSpec, values, "benchmark")
    arms = command_arms({"A": first, "B": second})
    processors = machine.separate_processors(sorted(os.sched_getaffinity(0)), schedule.ROUNDS)

    def blocks(name: str, pin: Sequence[int], count: int) -> list[float]:
        found = []
        with Runner(Workload.of(spec.model_copy(update={"pin": list(pin)})), [metric]) as runner:
            together = Together(runner, processors)
            for index in range(count):
                plan = schedule.block("AB", random.getrandbits(32), index, name)
                sides = [arms["AB".index(side)] for side in plan.order]
                if name == schedule.TOGETHER:
                    runs = together.block(sides, plan.pads, 1, index)
                else:
                    runs = [runner.run(arm, pad) for arm, pad in zip(sides, plan.pads, strict=True)]
                if why := next((run["why"] for run in runs if not run["ok"]), None):
                    sys.exit(f"{first}: {why}")
                figures = [[run["value"] for run in runs if run["arm"] == side] for side in "BA"]
                found.append(block_log_ratio(*figures, higher_is_better=False))
            together.close()
        return found

    return {
        "one by one": lambda count: blocks(schedule.ONE_BY_ONE, (), count),
        "one by one, pinned": lambda count: blocks(schedule.ONE_BY_ONE, processors[:1], count),
        "together": lambda count: blocks(schedule.TOGETHER, (), count),
    }


def alternating(ways: Mapping[str, Blocks], blocks: int) -> dict[str, list[float]]:
    """The log-ratios of so many blocks of each way, one block of each in turn."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(blocks):
        for way in random.sample(list(ways), len(ways)):
            found[way] += ways[way](1)
    return found


def shown(ratios: Sequence[float]) -> str:
    """The mean effect with its standard error, in percent."""
    error = statistics.stdev(ratios) / math.sqrt(len(ratios))
    return f"{100 * as_ratio(statistics.fmean(ratios)):+.2f} ± {100 * error:.2f}"


def print_aa(blocks: int, work: Path) -> None:
    two_percent = work_command(work, "chase", 32), work_command(work, "chase", 32, 2)
    numbers = work.with_name("numbers")
    numbers.write_text("".join(f"{number}\n" for number in range(300_000)))
    commands = {name: [str(numbers) if w == "NUMBERS" else w for w in words] for name, words in PROGRAMS.items()}
    pairs = {name: measured(command, command, Metric("cpu")) for name, command in commands.items()}
    print(f"| | {' | '.join(pairs)} | 2 % more work |\n|---|{'---|' * (len(pairs) + 1)}")
    for way in ("one by one", "one by one, pinned", "together"):
        spreads = [f"{100 * statistics.stdev(ways[way](blocks)):.2f} %" for ways in pairs.values()]
        effect = shown(measured(*two_percent, PRINTED)[way](blocks))
        print(f"| {way} | {' | '.join(spreads)} | {effect} % |", flush=True)


def work_command(work: Path, kind: str, kib: int, extra: float = 0, misses: int = 0) -> list[str]:
    """A command that works for about TARGET_S, and `extra` percent longer."""
    trial = [str(work), kind, str(kib), str(TRIAL_STEPS), "0"]
    took_s = min(float(subprocess.check_output(trial).split()[0]) for _ in range(3))
    steps = steps_for(kind, kib, took_s)
    return [str(work), kind, str(kib), str(round(steps * (1 + extra / 100))), str(misses)]


STEPS: dict[tuple[str, int], int] = {}


def steps_for(kind: str, kib: int, took_s: float) -> int:
    return STEPS.setdefault((kind, kib), round(TRIAL_STEPS * TARGET_S / took_s))


def print_bias(blocks: int, work: Path, sets: Sequence[int]) -> None:
    heads = [f"{extra} % more" for extra in EXTRA_PERCENT] + [f"{MISSES / MILLION:.1%} misses"]
    print(f"| set | schedule | {' | '.join(heads)} |\n|---|---|{'---:|' * len(heads)}")
    for kind in ("chase", "stream"):
        for kib in sets:
            base = work_command(work, kind, kib)
            others = [work_command(work, kind, kib, extra) for extra in EXTRA_PERCENT]
            others += [work_command(work, kind, kib, 0, MISSES)]
            size = f"{kib} KiB" if kib < 1024 else f"{kib >> 10} MiB"
            found = [alternating(beside(measured(base, other, PRINTED)), blocks) for other in others]
            for way in found[0]:
                print(f"| {kind} {size} | {way} | {' | '.join(shown(each[way]) for each in found)} |", flush=True)


def beside(ways: Mapping[str, Blocks]) -> dict[str, Blocks]:
    """The two ways that differ only in sharing a processor."""
    return {way: ways[way] for way in ("one by one, pinned", "together")}


def print_sharing(blocks: int, work: Path, sets: Sequence[int]) -> None:
    """How much more a side with a large working set needs together than alone, measured against one of 32 KiB."""
    print("| set | alone: time ÷ that of 32 KiB | together | together ÷ alone |\n|---|---:|---:|---:|")
    small = work_command(work, "chase", SETS_KIB[0])
    for kib in sets:
        ways = beside(measured(small, work_command(work, "chase", kib), PRINTED))
        alone, together = alternating(ways, blocks).values()
        apart = statistics.fmean(together) - statistics.fmean(alone)
        error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (alone, together)))
        size = f"{kib} KiB" if kib < 1024 else f"{kib >> 10} MiB"
        levels = [f"{math.exp(statistics.fmean(each)):.3f}" for each in (alone, together)]
        print(f"| {size} | {' | '.join(levels)} | {100 * as_ratio(apart):+.1f} ± {100 * error:.1f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["aa", "bias", "sharing"])
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--sets", type=lambda text: [*map(int, text.split(","))], default=SETS_KIB, metavar="KIB,...")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hak-") as folder:
        work = Path(folder) / "work"
        subprocess.run(["cc", "-O2", "-o", work, WORK], check=True)
        if asked.table == "aa":
            print_aa(asked.blocks, work)
        else:
            {"bias": print_bias, "sharing": print_sharing}[asked.table](asked.blocks, work, asked.sets)


if __name__ == "__main__":
    main()
