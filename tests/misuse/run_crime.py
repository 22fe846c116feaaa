#!/usr/bin/env python3
"""Run one crime program and judge how it ended.

usage: run_crime.py [--preload LIBRARY] [--hidden] --says TEXT [--says TEXT] COMMAND...
       run_crime.py [--preload LIBRARY] --harmless COMMAND...
       run_crime.py [--preload LIBRARY] --faults COMMAND...
       run_crime.py --selftest

Right is: death by SIGABRT, and on stderr exactly one line
    hakmem: TEXT: PLACE: 0xPOINTER
to the letter, where POINTER is what the program announced on stdout before its crime; with --hidden, without the pointer
and without HAKMEM_VERBOSE=1, which asks for it. PLACE has no address. TEXT is `FUNCTION(): REASON`;
where more than one is given, any of them is right. Of a harmless crime right is that nothing comes of it: it ends with 0 and
says nothing. Of one that faults right is death by SIGSEGV, without a word, after a pointer was announced.
"""
import argparse
import os
import re
import resource
import signal
import subprocess
import sys

EXIT_HANDED_OUT_TWICE = 3
FAULT = "fault"


# Where a block lies, in a message: what follows the place's last colon is the pointer.
PLACE = (
    r"(block \d+ of slab \d+, \d+ bytes|a block of \d+ bytes|slice \d+|outside the heap)"
    r"(, at its byte \d+)?"
)


def complaint(result, promised, hidden=False):
    """What is wrong with how the program ended; None where it is as promised, which may be FAULT."""
    if not promised:
        return None if result.returncode == 0 and not result.stderr else "something came of a harmless crime"
    if result.returncode == 0:
        return "the crime was not noticed"
    if result.returncode == EXIT_HANDED_OUT_TWICE:
        return "a block was handed out twice"
    wanted = signal.SIGSEGV if promised == FAULT else signal.SIGABRT
    if result.returncode not in (-wanted, 128 + wanted):
        return "the program did not end by " + ("a fault" if promised == FAULT else "abort")
    announced = result.stdout.split()
    if len(announced) != 1:
        return "the program did not announce one pointer"
    lines = [line for line in result.stderr.splitlines() if not line.startswith("qemu: uncaught target signal")]
    if promised == FAULT:
        return "stderr is not empty" if lines else None
    end = "" if hidden else f": {int(announced[0], 16):#x}"
    right = [re.escape(f"hakmem: {text}: ") + PLACE + end for text in promised]
    if len(lines) != 1 or not any(re.fullmatch(pattern, lines[0]) for pattern in right):
        return f"stderr is not the one line {' or '.join(map(repr, right))}"
    return None


def judge(command, preload, promised, hidden=False):
    environment = dict(os.environ)
    if not hidden:
        environment["HAKMEM_VERBOSE"] = "1"
    if preload:
        environment["LD_PRELOAD"] = preload
    for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):  # a fault is the program's end, and no report
        environment[name] = environment.get(name, "") + ":handle_segv=0"
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
    )
    found = complaint(result, promised, hidden)
    if found:
        found += f"\nstatus: {result.returncode}\nstdout: {result.stdout!r}\nstderr: {result.stderr!r}"
    return found


def selftest():
    """Programs with known endings: a runner that accepts everything must not pass."""
    promised = ["free(): double free", "free(): invalid pointer"]
    line = "hakmem: free(): double free: block 3 of slab 7, 64 bytes, at its byte 16: 0x7f10"
    for said, printed, end, expected in (
        ("0x7f10", line, "kill -ABRT $$", None),
        ("0x7f10", line.replace("double free", "invalid pointer"), "kill -ABRT $$", None),
        ("0x7f10", f"qemu: uncaught target signal 6 (Aborted)\n{line}", "exit 134", None),
        ("0x7f10", line, "exit 0", "the crime was not noticed"),
        ("0x7f10", line, "exit 3", "a block was handed out twice"),
        ("0x7f10", line, "kill -SEGV $$", "the program did not end by abort"),
        ("", line, "kill -ABRT $$", "the program did not announce one pointer"),
        ("0x7f20", line, "kill -ABRT $$", "stderr is not"),
        ("0x7f10", "", "kill -ABRT $$", "stderr is not"),
        ("0x7f10", f"{line}\n{line}", "kill -ABRT $$", "stderr is not"),
        ("0x7f10", f"{line} ", "kill -ABRT $$", "stderr is not"),
        ("0x7f10", line.replace("free()", "malloc()"), "kill -ABRT $$", "stderr is not"),
        ("0x7f10", line.replace("double free", "double free or corrupted free block"), "kill -ABRT $$", "stderr is not"),
    ):
        found = judge(["sh", "-c", f'printf "{said}"; printf "{printed}" >&2; {end}'], None, promised)
        assert found is None if expected is None else found and found.startswith(expected), (printed, end, found)
    for printed, right in ((line, False), (line.removesuffix(": 0x7f10"), True), (line.replace("3", "0x3"), False)):
        found = judge(["sh", "-c", f'printf 0x7f10; printf "{printed}" >&2; kill -ABRT $$'], None, promised, hidden=True)
        assert (found is None) == right, (printed, found)
    for printed, end in (("", "exit 3"), ("", "kill -ABRT $$"), (line, "exit 0")):
        assert judge(["sh", "-c", f'printf "{printed}" >&2; {end}'], None, []), (printed, end)
    assert judge(["sh", "-c", "echo 0x7f10"], None, []) is None
    for said, printed, end, expected in (
        ("0x7f10", "", "kill -SEGV $$", None),
        ("0x7f10", "qemu: uncaught target signal 11 (Segmentation fault)", "exit 139", None),
        ("0x7f10", "", "exit 0", "the crime was not noticed"),
        ("0x7f10", line, "kill -ABRT $$", "the program did not end by a fault"),
        ("0x7f10", line, "kill -SEGV $$", "stderr is not empty"),
        ("", "", "kill -SEGV $$", "the program did not announce one pointer"),
    ):
        found = judge(["sh", "-c", f'printf "{said}"; printf "{printed}" >&2; {end}'], None, FAULT)
        assert found is None if expected is None else found and found.startswith(expected), (printed, end, found)
    print("selftest: passed")


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.argv[1:] == ["--selftest"]:
        selftest()
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload")
    parser.add_argument("--hidden", action="store_true")
    promise = parser.add_mutually_exclusive_group(required=True)
    promise.add_argument("--says", action="append", default=[])
    promise.add_argument("--harmless", action="store_true")
    promise.add_argument("--faults", dest="says", action="store_const", const=FAULT)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    sys.exit(judge(options.command, options.preload, options.says, options.hidden))


if __name__ == "__main__":
    main()
