#!/usr/bin/env python3
"""Addresses of blocks are as hard to guess as the kernel's own.

usage: address_randomness.py [--preload LIBRARY] PROGRAM

Of 400 runs, hardly two may put their heap into the same 2 MiB; the bits above and the place inside are random, too.
"""

import argparse
import os
import pathlib
import subprocess
import sys

RUNS = 400
CHUNK_BITS, SLAB_BITS = 21, 16
RANDOM_BITS = range(CHUNK_BITS, 39)  # 28 random bits above the page are the least a 64-bit kernel has by default
SKIP = 77


def is_randomised():
    try:
        if pathlib.Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
            return False
        return not int(pathlib.Path("/proc/self/personality").read_text(), 16) & 0x0040000
    except OSError:
        return True


def addresses(program, environment):
    process = subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=20)
    if process.returncode:
        sys.exit(f"status {process.returncode}")
    return [int(word, 16) for word in output.split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload")
    parser.add_argument("program")
    options = parser.parse_args()
    if not is_randomised():
        print("skipped: this system does not randomise addresses")
        sys.exit(SKIP)
    environment = os.environ | ({"LD_PRELOAD": options.preload} if options.preload else {})
    runs = [addresses(options.program, environment) for _ in range(RUNS)]
    faults = []
    for name, column in zip(("16 bytes", "200 bytes", "100 KiB", "8 MiB"), zip(*runs)):
        chunks = len({address >> CHUNK_BITS for address in column})
        print(f"{name}: {chunks} different chunks in {RUNS} runs")
        if chunks < RUNS - 4:
            faults.append(f"{name}: only {chunks} different chunks")
        fixed = [bit for bit in RANDOM_BITS if len({address >> bit & 1 for address in column}) == 1]
        if fixed:
            faults.append(f"{name}: bits {fixed} are always the same")
    for name, column in zip(("16 bytes", "200 bytes"), zip(*runs)):
        slabs = len({address >> SLAB_BITS & 31 for address in column})
        print(f"{name}: {slabs} of the 32 slabs of a chunk")
        if slabs < 12:
            faults.append(f"{name}: only {slabs} different slabs of a chunk")
    sys.exit("\n".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
