#!/usr/bin/env python3
"""What preloading costs the start of a process: start.py LIBRARY COMPILER [--exact]

Counts page faults and system calls of /bin/true, and of a program that allocates forty small blocks, above those with
an empty library preloaded. Page faults are the least of many starts, since addresses and the kernel's caches decide
about some. `--exact`: the library is built as those of the table, whose numbers are those of one C library."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STARTS = 100
PROCESSES = {"forks": 11}
SKIPPED = 77
# By C library and program: page faults and system calls above those with an empty library. The order of calls in
# several processes varies.
GOLDEN = {"glibc 2.36": {"true": (7, 1), "blocks": (16, 4), "forks": (52, None)}}
# For each process: the places of the library's pages in units of 64 KiB are random, and the linker orders its data.
SLACK_FAULTS = 1
SOURCE = """#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **unused) {
  (void)unused;
  for (size_t i = 1; i <= 40; i++)
    *(volatile char *)malloc(i * 16 * (count == 2 ? 512 : 1)) = 1;
  for (size_t i = 0; count == 3 && i < 200; i++)
    free(malloc(16));
  for (size_t i = 0; count == 3 && i < 10 && fork() > 0; i++)
    wait(NULL);
}
"""


def faults(library, *command):
    environment = os.environ | {"LD_PRELOAD": library}
    least = None
    for _ in range(STARTS):
        _, status, used = os.wait4(os.posix_spawn(command[0], command, environment), 0)
        if status != 0:
            sys.exit(f"{command} ended with status {status:#x}")
        least = used.ru_minflt if least is None else min(least, used.ru_minflt)
    return least


def calls(library, *command, setting="HAKMEM_STATS=0"):
    """A line each. None: the system does not let strace work."""
    with tempfile.NamedTemporaryFile("r") as log:
        traced = subprocess.run(["strace", "-f", "-qq", "-o", log.name, "-E", f"LD_PRELOAD={library}", "-E", setting,
                                 *command], check=False)  # fmt: skip
        return None if traced.returncode != 0 else log.readlines()


def reads_settings(library, program, setting):
    """Whether a heap of six megabytes asks for the system's huge pages."""
    lines = calls(library, program, "large", setting=setting)
    return any("transparent_hugepage" in line for line in lines or ())


def main():
    library, compiler = str(Path(sys.argv[1]).resolve()), sys.argv[2]
    libc = os.confstr("CS_GNU_LIBC_VERSION")
    expected = GOLDEN.get(libc) if "--exact" in sys.argv else None
    if not expected:
        print("no numbers for", libc)
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        # The linker writes its file piece by piece, and the kernel then maps fewer of its pages at a fault.
        library = shutil.copy(library, f"{folder}/copy.so")
        empty, blocks = f"{folder}/empty.so", f"{folder}/blocks"
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-o", empty, "-"], input=b"int nothing;", check=True)
        subprocess.run([compiler, "-fno-builtin", "-x", "c", "-o", blocks, "-"], input=SOURCE.encode(), check=True)
        wrong, traces = False, shutil.which("strace") and calls(empty, "/bin/true")
        for name, command in {"true": ["/bin/true"], "blocks": [blocks], "forks": [blocks, "ten", "forks"]}.items():
            found = faults(library, *command) - faults(empty, *command)
            counted = traces and expected[name][1] is not None
            found_calls = len(calls(library, *command)) - len(calls(empty, *command)) if counted else expected[name][1]
            print(f"{name}: {found} page faults and {found_calls} system calls above an empty library")
            wrong |= found > expected[name][0] + SLACK_FAULTS * PROCESSES.get(name, 1) or found_calls != expected[name][1]
        if traces and not reads_settings(library, blocks, "HAKMEM_HUGE_PAGES=auto"):
            sys.exit("the heap of the program has no second chunk")
        if traces and reads_settings(library, blocks, "HAKMEM_HUGE_PAGES=off"):
            sys.exit("a heap without huge pages reads the system's settings")
        if wrong:
            sys.exit(f"the table has {expected}")


if __name__ == "__main__":
    main()
