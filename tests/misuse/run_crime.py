#!/usr/bin/env python3
"""Run one crime program and judge how it ended.

usage: run_crime.py [--preload LIBRARY] --function REGEX --reason REGEX COMMAND...

Right is: death by SIGABRT, and on stderr exactly one line
    hakmem: FUNCTION(): REASON: 0xPOINTER
with the pointer that the program announced on stdout, if it announced one.
"""
import argparse
import os
import re
import resource
import signal
import subprocess
import sys


def fail(text, result):
    sys.exit(f"{text}\nstatus: {result.returncode}\nstdout: {result.stdout!r}\nstderr: {result.stderr!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload")
    parser.add_argument("--function", required=True)
    parser.add_argument("--reason", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    environment = dict(os.environ)
    if options.preload:
        environment["LD_PRELOAD"] = options.preload
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    result = subprocess.run(
        options.command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
    )

    if result.returncode == 0:
        fail("the crime was not noticed", result)
    if result.returncode == 3:
        fail("a block was handed out twice", result)
    if result.returncode not in (-signal.SIGABRT, 128 + signal.SIGABRT):
        fail("the program did not end by abort", result)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("qemu: uncaught target signal")]
    if len(lines) != 1:
        fail("stderr is not exactly one line", result)
    match = re.fullmatch(rf"hakmem: (?:{options.function})\(\): (?:{options.reason}): (0x[0-9a-f]+)", lines[0])
    if not match:
        fail(f"the line is not 'hakmem: {options.function}(): {options.reason}: 0x...'", result)
    announced = result.stdout.split()
    if announced and int(announced[0], 16) != int(match.group(1), 16):
        fail("the line names another pointer than the crime's", result)


if __name__ == "__main__":
    main()
