#!/usr/bin/python3
"""make bench: every workload on hakmem and its peers, interleaved in randomised blocks, against the bars.

A block is one run of every arm in a new random order; ratios are taken inside blocks. The estimate is
Hodges-Lehmann's with the signed-rank 95 % interval; a verdict with '~' has the bar inside its interval.
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from arms import ROOT, Arm, BenchError, check_serves, progress, run_program, standard_arms
from rows import (BAR_ROWS, DEMO_KEY, INFO_ROWS, LIMIT_FILE, SYSCALL_OPS, SYSCALLS_KEY, SYSCALLS_PER_OP_BAR,
                  TRUE_BAR_MIB, TRUE_BAR_MS, TRUE_KEY, all_keys)
from stats import median_interval
from verdicts import judged, line, medians_table, row_lines, rss_line, table

QUICK_BLOCKS = 3
TRUE_ROUNDS = 300
DEMO_BLOCKS = 3
BUSY_SHARE = 0.5


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default=os.path.join(ROOT, "build/release/libhakmem.so"), help="the hakmem to measure")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bench"), help="where the programs are")
    parser.add_argument("--rows", default="", help="only these, separated by commas: " + ", ".join(all_keys()))
    parser.add_argument("--arms", action="append", default=[], metavar="NAME=PATH[,VAR=VALUE...]",
                        help="a further library to preload; one named 'prototype' gets its own bar")
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--quick", action="store_true", help="rows with bars only, 3 blocks: a look, not a verdict")
    parser.add_argument("--json", metavar="FILE", help="write raw runs and results there")
    options = parser.parse_args()
    if options.blocks < 1:
        parser.error("--blocks must be at least 1")
    options.keys = [key for key in options.rows.split(",") if key]
    for key in options.keys:
        if key not in all_keys():
            parser.error(f"--rows: no row '{key}'; there are {', '.join(all_keys())}")
    if options.quick:
        options.blocks = min(options.blocks, QUICK_BLOCKS)
    return options


def wanted(options, key, informational=False):
    if options.keys:
        return key in options.keys
    return not (options.quick and informational)


def program_path(options, name):
    path = os.path.join(options.bin, name)
    if not os.path.isfile(path):
        raise BenchError(f"{path} is missing: build it first (make)")
    return path


def read_run(row, text):
    """The figure after `NAME =` and the peak after `peak_kib=`."""
    figure = re.search(re.escape(row.figure) + r" = ([0-9.]+)", text)
    peak = re.search(r"peak_kib=(\d+)", text)
    if figure is None or peak is None:
        raise BenchError(f"cannot read the output of {row.command[0]}: {text!r}")
    scale = 1e-6 if row.unit == "Mop/s" else 1.0
    run = {"figure": float(figure.group(1)) * scale, "peak_kib": int(peak.group(1))}
    live = re.search(r"ratio=([0-9.]+)", text)
    if live is not None:
        run["live_ratio"] = float(live.group(1))
    return run


def run_row(options, row, arms, rng):
    """All blocks of one row: arm name -> list of runs, one a block."""
    command = [program_path(options, row.command[0]), *row.command[1:]]
    arms = list(arms)
    if row.limit_bar is not None or row.command[0] == "random_mixed":
        arms.append(Arm("limit", program_path(options, LIMIT_FILE)))
    for arm in arms:
        check_serves(arm, [command[0], "preflight"])
    blocks = min(options.blocks, row.max_blocks)
    runs = {arm.name: [] for arm in arms}
    for block in range(blocks):
        for arm in rng.sample(arms, len(arms)):
            progress(f"{row.key}: block {block + 1} of {blocks}, {arm.name}")
            runs[arm.name].append(read_run(row, run_program(arm, command, rng)))
    return runs


def count_syscalls(arm, command):
    """System calls of the whole process tree, from strace's summary."""
    with tempfile.NamedTemporaryFile("r", suffix=".strace") as summary:
        tracer = ["strace", "-f", "-c", "-o", summary.name, "-E", "LD_PRELOAD=" + arm.library]
        for name, value in arm.variables.items():
            tracer += ["-E", f"{name}={value}"]
        done = subprocess.run(tracer + command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        total = re.search(r"^\s*100\.00\s+\S+\s+(?:\d+\s+)?(\d+)\s+(?:\d+\s+)?total", summary.read(), re.M)
    if done.returncode != 0 or total is None:
        raise BenchError("strace cannot trace here: " + done.stderr.decode(errors="replace").strip()[-200:])
    return int(total.group(1))


def syscall_lines(options, arms):
    title, bar = "system calls of random_mixed WS=400", f"< {SYSCALLS_PER_OP_BAR:.0e} per operation"
    if shutil.which("strace") is None:
        return [line(title, bar, "strace is not installed", "skipped")], {}
    counts = {}
    for arm in arms:
        progress(f"{SYSCALLS_KEY}: {arm.name}")
        counts[arm.name] = [count_syscalls(arm, [program_path(options, "random_mixed"), str(ops), "400", "1"])
                            for ops in SYSCALL_OPS]
    short, long = counts["hakmem"]
    rate = (long - short) / (SYSCALL_OPS[1] - SYSCALL_OPS[0])
    measured = f"{rate:.1e} ({short} in {SYSCALL_OPS[0]:.0e}, {long} in {SYSCALL_OPS[1]:.0e})"
    return [line(title, bar, measured, "pass" if rate < SYSCALLS_PER_OP_BAR else "miss")], counts


def true_lines(options, arms, rng):
    """/bin/true preloaded, started many times in random order by a small static program."""
    rounds = max(20, TRUE_ROUNDS * options.blocks // 9)
    progress(f"{TRUE_KEY}: {rounds} starts of each")
    command = [program_path(options, "spawn"), str(rounds), str(rng.randrange(1 << 30))]
    text = run_program(Arm("spawn", ""), command + [arm.library or "-" for arm in arms] + ["--", "/bin/true"], rng)
    starts = {arm.name: [] for arm in arms}
    for row in text.splitlines():
        index, milliseconds, kib, status = row.split()
        if status != "0":
            raise BenchError(f"/bin/true failed with {arms[int(index)].name} preloaded: status {status}")
        starts[arms[int(index)].name].append((float(milliseconds), int(kib)))
    over_ms = [h[0] - g[0] for h, g in zip(starts["hakmem"], starts["glibc"])]
    over_mib = [(h[1] - g[1]) / 1024 for h, g in zip(starts["hakmem"], starts["glibc"])]
    ms, mib = median_interval(over_ms), median_interval(over_mib)
    lines = [
        line("/bin/true preloaded", f"<= {TRUE_BAR_MS} ms over glibc", f"{ms[0]:+.3f} [{ms[1]:+.3f}, {ms[2]:+.3f}] ms",
             judged(*(x <= TRUE_BAR_MS for x in ms))),
        line("/bin/true preloaded", f"<= {TRUE_BAR_MIB:.0f} MiB over glibc",
             f"{mib[0]:+.2f} [{mib[1]:+.2f}, {mib[2]:+.2f}] MiB", judged(*(x <= TRUE_BAR_MIB for x in mib))),
    ]
    return lines, starts


def demo_lines(options, arms, rng):
    """Peak RSS of the programs of `make demo`."""
    from demo_programs import programs as demo_programs  # here: the other rows do not need the demo's programs

    programs = demo_programs(options.bin)
    peaks = {program.title: {arm.name: [] for arm in arms} for program in programs}
    for program in programs:
        for arm in arms:
            program.preflight(arm)
        for block in range(min(options.blocks, DEMO_BLOCKS)):
            for arm in rng.sample(arms, len(arms)):
                progress(f"{DEMO_KEY}: {program.title}, block {block + 1}, {arm.name}")
                peaks[program.title][arm.name].append(program.run(arm, rng)["peak_kib"])
    return [rss_line(title, by_arm) for title, by_arm in peaks.items()], peaks


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > BUSY_SHARE * os.cpu_count():
        print(f"bench: warning: load average {load:.1f}: other work on this machine disturbs the figures", file=sys.stderr)


def run_all(options):
    warn_if_busy()
    rng = random.Random(options.seed)
    arms = standard_arms(options.lib, options.arms)
    results, lines, raw = [], [], {}
    for row in BAR_ROWS + INFO_ROWS:
        if wanted(options, row.key, row in INFO_ROWS):
            runs = run_row(options, row, arms, rng)
            results.append((row, runs))
            lines += row_lines(row, runs)
            raw[row.key] = runs
    if wanted(options, SYSCALLS_KEY):
        more, raw[SYSCALLS_KEY] = syscall_lines(options, arms)
        lines += more
    if wanted(options, TRUE_KEY):
        more, raw[TRUE_KEY] = true_lines(options, arms, rng)
        lines += more
    if wanted(options, DEMO_KEY):
        more, raw[DEMO_KEY] = demo_lines(options, arms, rng)
        lines += more
    progress("")
    names = [arm.name for arm in arms] + ["limit"]
    if results:
        print(medians_table(results, names) + "\n")
    print(table(["workload", "bar", "measured [95 % interval]", "verdict"], [list(entry.values()) for entry in lines]))
    print(f"\n{options.blocks} blocks, seed {options.seed}, {os.cpu_count()} processors, Linux {platform.release()}")
    return {"seed": options.seed, "load_average_at_end": os.getloadavg()[0], "blocks": options.blocks, "kernel": platform.release(), "processors": os.cpu_count(),
            "arms": {arm.name: arm.library for arm in arms}, "results": lines, "runs": raw}


def main():
    options = parse_arguments()
    try:
        record = run_all(options)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as out:
                json.dump(record, out, indent=1)
    except (BenchError, subprocess.TimeoutExpired, OSError) as error:
        progress("")
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
