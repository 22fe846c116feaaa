#!/usr/bin/python3
"""make demo: real programs on glibc, hakmem, mimalloc, jemalloc and tcmalloc, interleaved, in under three minutes.

Every round runs every program on every allocator in a new random order. The table shows ratios to glibc: above 1 is
faster (time or throughput alike), below 1 is leaner (peak resident memory); in brackets the 95 % interval.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import time

from arms import ROOT, BenchError, progress, standard_arms
from demo_programs import programs
from stats import paired_ratio
from verdicts import table

ORDER = ("hakmem", "mimalloc", "jemalloc", "tcmalloc")
BUDGET_SECONDS = 165
LEAST_ROUNDS = 2


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default=os.path.join(ROOT, "build/release/libhakmem.so"), help="the hakmem to show")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bench"), help="where the programs are")
    parser.add_argument("--rounds", type=int, default=6, help="most rounds; fewer if the time is over")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def remaining(start, done, rounds, per_round):
    """Seconds left: by the pace so far, never beyond the budget."""
    elapsed = time.monotonic() - start
    if done < per_round:
        return max(BUDGET_SECONDS - elapsed, 0)
    return max(min(elapsed / done * (rounds * per_round - done), BUDGET_SECONDS - elapsed), 0)


def run_rounds(options, todo, arms, rng):
    """Runs by (program title, arm name), one entry a round; stops before a round that would exceed the budget."""
    runs = {(program.title, arm.name): [] for program in todo for arm in arms}
    start, done, per_round = time.monotonic(), 0, len(todo) * len(arms)
    for index in range(options.rounds):
        elapsed = time.monotonic() - start
        if index >= LEAST_ROUNDS and elapsed * (index + 1) / index > BUDGET_SECONDS:
            break
        for program in rng.sample(todo, len(todo)):
            for arm in rng.sample(arms, len(arms)):
                left = remaining(start, done, options.rounds, per_round)
                progress(f"round {index + 1}, about {left:.0f} s left: {program.title} on {arm.name}")
                runs[program.title, arm.name].append(program.run(arm, rng))
                done += 1
    progress("")
    return runs


def _cell(runs, title, name, key, invert):
    mine = [run[key] for run in runs[title, name]]
    base = [run[key] for run in runs[title, "glibc"]]
    ratio, low, high = paired_ratio(base, mine) if invert else paired_ratio(mine, base)
    return f"{ratio:.2f} [{low:.2f}-{high:.2f}]"


def result_table(todo, runs):
    rows = []
    for program in todo:
        base = statistics.median(run["figure"] for run in runs[program.title, "glibc"])
        peak = statistics.median(run["peak_kib"] for run in runs[program.title, "glibc"]) / 1024
        speed = [_cell(runs, program.title, name, "figure", not program.higher_is_better) for name in ORDER]
        memory = [_cell(runs, program.title, name, "peak_kib", False) for name in ORDER]
        rows.append([f"{program.title}: speed", f"{base:.2f} {program.unit}", *speed])
        rows.append([f"{program.title}: peak RSS", f"{peak:.1f} MiB", *memory])
    return table(["ratio to glibc", "glibc", *ORDER], rows)


def main():
    options = parse_arguments()
    rng = random.Random(options.seed)
    try:
        arms = standard_arms(options.lib, [])
        todo = programs(options.bin)
        for program in todo:
            for arm in arms:
                progress(f"preflight: {program.title} on {arm.name}")
                program.preflight(arm)
        runs = run_rounds(options, todo, arms, rng)
    except (BenchError, subprocess.TimeoutExpired, OSError) as error:
        progress("")
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    rounds = min(len(entries) for entries in runs.values())
    print(result_table(todo, runs))
    print(f"{rounds} rounds; speed above 1 = faster, peak RSS below 1 = leaner than glibc; [95 % interval, or the widest]")


if __name__ == "__main__":
    main()
