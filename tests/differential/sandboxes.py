"""Sandboxes that end a process at any system call that they do not list: tables, one a file, as filters.

A line of a table, whose calls stand at its end:
    allow CALL...
    ERROR CALL...                      fails with it
    within ARGUMENT BITS CALL...       allowed where the argument has no other bits
    among ARGUMENT VALUES ERROR CALL...  allowed where the argument is one of these; else fails, or `kill`
"""

import errno
import os
import re
import struct
import subprocess
from functools import cache
from pathlib import Path

TABLES = Path(__file__).with_name("sandboxes")
KILL, ALLOW, FAIL = 0x80000000, 0x7FFF0000, 0x00050000
LOAD, EQUAL, SHARED_BITS, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, ARGUMENTS = 0, 16  # where they are in what a filter sees

# What threads call, which a program in a sandbox need not have.
THREADS = "clone clone3 exit exit_group mprotect munmap rseq rt_sigaction rt_sigprocmask set_robust_list write"


@cache
def numbers() -> dict[str, int]:
    """Of system calls, by name, as the compiler knows them."""
    shown = subprocess.run(
        [os.environ.get("CC", "cc"), "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", shown.stdout)}


def step(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value & 0xFFFFFFFF)


def end(word: str) -> bytes:
    """What becomes of the call."""
    return step(RETURN, {"kill": KILL, "allow": ALLOW}.get(word) or FAIL | getattr(errno, word))


def verdict(line: list[str]) -> tuple[list[bytes], list[str]]:
    """The instructions for the calls of a line, and these."""
    kind, *words = line
    if kind == "within":
        argument, bits, *calls = words
        look = step(LOAD, ARGUMENTS + 8 * int(argument))
        return [look, step(SHARED_BITS, ~int(bits, 0), 0, 1), end("kill"), end("allow")], calls
    if kind == "among":
        argument, values, otherwise, *calls = words
        tests = [one for value in values.split(",") for one in (step(EQUAL, int(value, 0), 0, 1), end("allow"))]
        return [step(LOAD, ARGUMENTS + 8 * int(argument)), *tests, end(otherwise)], calls
    return [end(kind)], words


def rules(name: str, besides: str) -> str:
    """The table's filter, in hexadecimal. It decides about the calls that it names, `besides` are allowed, too."""
    known, lines = numbers(), (TABLES / f"{name}.txt").read_text().splitlines()
    program = [step(LOAD, NUMBER)]
    for line in [*lines, f"allow {besides}"]:
        if line.startswith("#"):
            continue
        instructions, calls = verdict(line.split())
        for call in (call for call in calls if call in known):
            program += [step(EQUAL, known[call], 0, len(instructions)), *instructions]
    return b"".join([*program, end("kill")]).hex()
