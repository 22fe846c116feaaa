#!/usr/bin/env python3
"""Let every operating-system call of a workload fail in turn.

usage: run_faults.py --kind KIND --run CALLS [--stride N] PROGRAM
       run_faults.py --selftest

For each n up to the number of calls of that kind, PROGRAM runs with the calls n .. n + CALLS - 1 failing
(`--run all`: from n on). PROGRAM prints how many calls it made and how many of them failed. Success is exit status 0
and silence on stderr. A kind that is never called was not tested: that is wrong too, as are runs in which nothing
failed, but for a few, since time and addresses decide about some calls.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

PROGRAM_TIMEOUT_S = 120
FOREVER = 10**12
FAILURES_SHOWN = 5
TRIES = 4
# The share of runs that must have made a call fail.
MIN_REACHED = 0.9


def run(program, plan):
    environment = dict(os.environ)
    if plan:
        environment["FAULT_PLAN"] = plan
    return subprocess.run([program], env=environment, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S)


def counts_of(result):
    return {name: int(count) for name, count in (line.split() for line in result.stdout.splitlines())}


def run_until_one_fails(program, plan):
    """Once more where no call failed: addresses, which differ from run to run, decide how many there are."""
    for _ in range(TRIES):
        result = run(program, plan)
        if result.returncode != 0 or result.stderr or counts_of(result)["failed"] > 0:
            break
    return result


def count_calls(program, kind):
    results = [run(program, None) for _ in range(TRIES)]
    for result in results:
        if result.returncode != 0:
            sys.exit(f"the workload fails without any fault: status {result.returncode}\n{result.stderr}")
    calls = min(counts_of(result)[kind] for result in results)
    if calls == 0:
        sys.exit(f"{kind}: nothing was called, so nothing was tested")
    return calls


def selftest():
    """This script on workloads with known answers; each is a shell script with these counts and this status."""
    plain = "mmap 4 munmap 0 any 4 failed 0"
    for kind, planned, status, expected in (
        ("mmap", "mmap 4 failed 1", 0, 0),
        ("munmap", "mmap 4 failed 1", 0, "munmap: nothing was called, so nothing was tested"),
        ("mmap", "mmap 4 failed 0", 0, "only 0 of 4 runs made a call fail"),
        ("mmap", "mmap 4 failed 1", 3, 1),
        ("mmap", "mmap 4 failed 1; echo alas >&2", 0, 1),
    ):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "workload")
            with open(program, "w", encoding="utf-8") as file:
                file.write(
                    f'#!/bin/sh\n[ -n "$FAULT_PLAN" ] || {{ printf "%s %s\\n" {plain}; exit 0; }}\n'
                    f'printf "%s %s\\n" {planned}\nexit {status}\n'
                )
            os.chmod(program, 0o755)
            command = [sys.executable, __file__, "--kind", kind, "--run", "1", program]
            result = subprocess.run(command, capture_output=True, text=True)
            right = result.returncode == expected if isinstance(expected, int) else expected in result.stderr
            assert right and result.returncode == (expected != 0), (kind, planned, status, result)
    print("selftest: passed")


def main():
    if sys.argv[1:] == ["--selftest"]:
        selftest()
        return
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
        results = list(pool.map(lambda plan: run_until_one_fails(options.program, plan), plans))
    bad = [(plan, result) for plan, result in zip(plans, results) if result.returncode != 0 or result.stderr]
    reached = sum(result.returncode != 0 or counts_of(result)["failed"] > 0 for result in results)
    for plan, result in bad[:FAILURES_SHOWN]:
        print(f"FAULT_PLAN={plan}: status {result.returncode}\n{result.stderr}", file=sys.stderr)
    print(f"{options.kind}: {calls} calls, {len(plans)} runs, {reached} of them with a failure, {len(bad)} wrong")
    if reached < max(1, min(MIN_REACHED * len(plans), len(plans) - 1)):
        sys.exit(f"{options.kind}: only {reached} of {len(plans)} runs made a call fail")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
