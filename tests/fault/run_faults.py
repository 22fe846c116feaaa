#!/usr/bin/env python3
"""Let every operating-system call of a workload fail in turn.

usage: run_faults.py --kind any|mmap|munmap|madvise|mprotect|mremap --run CALLS [--stride N] PROGRAM

For each n up to the number of calls of that kind, PROGRAM runs with the calls n .. n + CALLS - 1 failing
(`--run all`: from n on). PROGRAM alone prints its counts. Success is exit status 0 and silence on stderr.
"""
import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PROGRAM_TIMEOUT_S = 120
FOREVER = 10**12
FAILURES_SHOWN = 5


def run(program, plan):
    environment = dict(os.environ)
    if plan:
        environment["FAULT_PLAN"] = plan
    return subprocess.run([program], env=environment, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S)


def count_calls(program, kind):
    result = run(program, None)
    if result.returncode != 0:
        sys.exit(f"the workload fails without any fault: status {result.returncode}\n{result.stderr}")
    return {name: int(count) for name, count in (line.split() for line in result.stdout.splitlines())}[kind]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("program")
    options = parser.parse_args()

    length = FOREVER if options.run == "all" else int(options.run)
    calls = count_calls(options.program, options.kind)
    plans = [f"{options.kind}:{first}:{length}" for first in range(1, calls + 1, options.stride)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda plan: run(options.program, plan), plans)
        bad = [(plan, result) for plan, result in zip(plans, results) if result.returncode != 0 or result.stderr]
    for plan, result in bad[:FAILURES_SHOWN]:
        print(f"FAULT_PLAN={plan}: status {result.returncode}\n{result.stderr}", file=sys.stderr)
    print(f"{options.kind}: {calls} calls, {len(plans)} runs, {len(bad)} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
