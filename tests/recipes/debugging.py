"""Runs the command and the calls of docs/debugging.md in gdb: debugging.py PAGE LIBRARY CC. Status 77: there is no gdb.

The program stops where it is about to free a block twice. There, gdb makes the calls; then the program goes on.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
void second(char *freed, char *p) { free(freed); }
int main(void) {
  char *freed = malloc(64), *p = malloc(64);
  free(freed);
  puts("once");
  second(freed, p);
}
"""
# What gdb prints at each call of the page, and afterwards.
ANSWERS = {
    "call (void)hak_check()": r"",
    "print (long)hak_malloc_usable_size(p)": r"^\$\d+ = \d+$",
    "call (void)hak_stats_print(stderr)": r"^hakmem statistics",
    'print (int)hak_option_set("DECAY_MS", "100")': r"^\$\d+ = 0$",
}
AFTER = (r"^hakmem: free\(\): double free: ", r"received signal SIGABRT", r"^#\d+ .* hak_misuse \(")


def main() -> int:
    page, library, compiler = Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2], sys.argv[3]
    (line,) = re.findall(r"^gdb -ex .* --args ", page, re.MULTILINE)
    calls = re.findall(r"^\| `((?:call|print) .*?)` \|", page, re.MULTILINE)
    assert set(calls) == ANSWERS.keys(), f"the page has the calls {calls}"
    if shutil.which("gdb") is None:
        print("skipped: gdb is not installed")
        return 77
    *start, last = shlex.split(re.sub(r"LD_PRELOAD=[^ ']*", f"LD_PRELOAD={library}", line))
    steps = ["break second", "run", *calls, "continue", "backtrace"]
    commands = [word for step in steps for word in ("-ex", step)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.c").write_text(PROGRAM, encoding="utf-8")
        flags = ["-g", "-O0", "-fno-builtin", "-w"]
        subprocess.run([compiler, *flags, "-o", "program", "program.c"], cwd=folder, check=True)
        words = [*start, "-nx", "-batch", *commands, last, "./program"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    said = done.stdout + done.stderr
    if re.search(r"ptrace|not trace", said):
        print("skipped: no process can be traced here")
        return 77
    missing = [pattern for pattern in (*ANSWERS.values(), *AFTER) if not re.search(pattern, said, re.MULTILINE)]
    assert not missing, f"gdb does not print {missing}:\n{said}"
    return 0


sys.exit(main())
