"""What preloading costs a process that hardly allocates: scripts/starts --help. Prints four tables, a side a column."""

import argparse
import collections
import os
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "build" / "release" / "bench"
SOURCE = """#include <stdio.h>
struct node { int value; struct node *next; };
static int sum(const struct node *at) {
  int total = 0;
  for (; at; at = at->next)
    total += at->value;
  return total;
}
int main(void) {
  struct node last = {2, NULL}, first = {1, &last};
  return printf("%d\\n", sum(&first)) < 0;
}
"""
# Short programs of Debian. The geometric means are over these.
PROGRAMS = {
    "true": "/bin/true",
    "ls": "ls -l /usr/bin",
    "cat": "cat /etc/passwd",
    "dash": "dash -c x=1",
    "bash": "bash -c x=1",
    "awk": "awk BEGIN{x=1}",
    "sed": "sed s/a/b/ /etc/passwd",
    "grep": "grep root /etc/passwd",
    "sort": "sort /etc/passwd",
    "find": "find /etc/apt",
    "tar": "tar cf /dev/null -C / etc/passwd",
    "perl": "perl -e 1",
    "python": "/usr/bin/python3 -c 1",
    "git": f"git -C {ROOT} log -5",
    "gcc": "gcc -c {source} -o /dev/null",
}
WORKLOADS = {
    "200 blocks": f"{BENCH}/first 200",
    "300 subshells of bash": "bash -c 'for i in {1..300}; do (x=1); done'",
    "300 starts of true": "dash -c 'for i in $(seq 300); do /bin/true; done'",
    "CGI: 20 scripts of perl": "dash -c 'for i in $(seq 20); do perl -e print; done'",
    "1,000 threads, sleeping": f"{BENCH}/young 1000 sleep",
    "1,000 threads, one by one": f"{BENCH}/young 1000 end",
}
Run = collections.namedtuple("Run", "faults peak_kib seconds")


def sides(text):
    """NAME=PATH,...: what is preloaded; `-` stands for nothing."""
    found = dict(part.split("=", 1) for part in text.split(","))
    for path in found.values():
        if path != "-" and not Path(path).is_file():
            raise argparse.ArgumentTypeError(f"{path}: no such library")  # the loader would only warn
    return found


def default_sides(folder):
    empty = Path(folder) / "libempty.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", empty, "-"], input=b"int nothing;", check=True)
    found = {"glibc": "-", "empty": str(empty), "hakmem": str(ROOT / "build/release/libhakmem.so")}
    peers = sorted((ROOT / "build" / "peers").glob("lib*.so"))
    return found | {peer.stem.removeprefix("lib"): str(peer) for peer in peers}


def measure(command, libraries, processor, rounds):
    """The runs of each side."""
    call = [BENCH / "starts", str(processor), str(rounds), ",".join(libraries), "--", *shlex.split(command)]
    lines = subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()
    runs = [[] for _ in libraries]
    for line in lines:
        number, faults, peak_kib, seconds = line.split()
        runs[int(number)].append(Run(int(faults), int(peak_kib), float(seconds)))
    return runs


def system_calls(command, library):
    """Of the program alone: strace itself runs without the library."""
    preload = [] if library == "-" else ["-E", f"LD_PRELOAD={library}"]
    with tempfile.NamedTemporaryFile("r") as log:
        subprocess.run(["strace", "-f", "-qq", "-o", log.name, *preload, *shlex.split(command)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)  # fmt: skip
        return sum("resumed>" not in line and "+++" not in line and "---" not in line for line in log)


def table(title, names, rows, digits):
    """rows: of each command, a figure for each side. Prints them, and the means of the quotients with the first."""
    print(f"\n| {title} | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for command, figures in rows.items():
        print(f"| {command} | {' | '.join(f'{figure:,.{digits}f}' for figure in figures)} |")
    names = list(names)
    means = [statistics.geometric_mean(rows[row][i] / rows[row][0] for row in rows if row in PROGRAMS)
             for i in range(len(names))] if any(row in PROGRAMS for row in rows) else []  # fmt: skip
    if means:
        print(f"| geometric mean of the programs, ÷ {names[0]} | {' | '.join(f'{mean:.2f}' for mean in means)} |")


def quotients(runs):
    """Of each side with the first, which ran at the same time: the median, and an interval that holds the true median
    in 96 % of cases with nine rounds (the second and the last but one)."""
    for side in runs:
        each = sorted(
            max(run.seconds, 1e-6) / max(first.seconds, 1e-6) for run, first in zip(side, runs[0], strict=True)
        )
        inner = each[1:-1] if len(each) > 2 else each
        yield f"{statistics.median(each):.2f}" + ("" if side is runs[0] else f" ({inner[0]:.2f}–{inner[-1]:.2f})")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="starts", description=__doc__)
    parser.add_argument("--libs", type=sides, help="NAME=PATH,...; PATH - : nothing (default: glibc, an empty library, "
                        "hakmem, and the peers that are built)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=9, help="runs of each side; medians count (%(default)s)")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name has a match")
    parser.add_argument("--no-times", action="store_true", help="leave out processor time")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        chosen = arguments.libs or default_sides(folder)
        source = Path(folder) / "ten.c"
        source.write_text(SOURCE)
        commands = {name: command.replace("{source}", str(source)) for name, command in (PROGRAMS | WORKLOADS).items()
                    if re.search(arguments.only, name)}  # fmt: skip
        libraries = list(chosen.values())
        alone = {name: measure(command, libraries, -1, 3) for name, command in commands.items()}
        table("page faults", chosen, {name: [min(run.faults for run in side) for side in runs]
                                      for name, runs in alone.items()}, 0)  # fmt: skip
        table("peak memory, KiB", chosen, {name: [statistics.median(run.peak_kib for run in side) for side in runs]
                                           for name, runs in alone.items()}, 0)  # fmt: skip
        if shutil.which("strace"):
            calls = {name: [system_calls(command, library) for library in libraries]
                     for name, command in commands.items() if name in PROGRAMS or name == "200 blocks"}  # fmt: skip
            table("system calls", chosen, calls, 0)
        if not arguments.no_times:
            processor = max(os.sched_getaffinity(0))
            timed = {name: measure(command, libraries, processor, arguments.rounds)
                     for name, command in commands.items()}  # fmt: skip
            print(f"\n| processor time, ÷ {next(iter(chosen))} | {' | '.join(chosen)} |\n|---|{'---|' * len(chosen)}")
            for name, runs in timed.items():
                print(f"| {name} | {' | '.join(quotients(runs))} |")


if __name__ == "__main__":
    main()
