"""Commands of every kind, on a program that hangs in the execution that a test chooses."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

RATE = r"regex:ops (\d+)"
FAST = ["--repeat", "1", "--warm-up", "0"]
# Does not count the preflight's execution, which only asks the dynamic linker. One execution hangs, with a child and
# two orphans.
SLOW = """#!/bin/sh
[ -n "$LD_DEBUG" ] && exit 0
echo >> "{folder}/count"
n=$(wc -l < "{folder}/count")
read -r hang < "{folder}/hang"
if [ $n -ge $hang ] && mkdir "{folder}/hung.$hang" 2> /dev/null; then
  sleep {marker} &
  exec "{fake}" orphans-hang 2 {marker}
fi
echo "ops ${{RATE:-1000}}"
echo "response 1000 1000"
{rest}
"""
NEVER = 10**6


@dataclasses.dataclass
class Slow:
    """The program and its control files. marker: a word in the arguments of all processes of a hanging execution."""

    folder: Path
    marker: str
    path: Path

    def hang(self, ahead: int = 1) -> None:
        """Makes the execution hang that is `ahead` executions from now."""
        (self.folder / "hang").write_text(f"{self.executions() + ahead}\n")

    def hangs(self) -> bool:
        """Whether the chosen execution has begun to hang; the processes that it starts may not exist yet."""
        return (self.folder / f"hung.{(self.folder / 'hang').read_text().strip()}").exists()

    def run_through(self) -> None:
        (self.folder / "hang").write_text(f"{NEVER}\n")

    def executions(self) -> int:
        count = self.folder / "count"
        return len(count.read_text().splitlines()) if count.exists() else 0


@pytest.fixture
def slow(tmp_path, fakes, marker):
    def make(rest: str = "") -> Slow:
        path = tmp_path / "slow.sh"
        path.write_text(SLOW.format(folder=tmp_path, fake=fakes.program, marker=marker, rest=rest))
        path.chmod(0o755)
        made = Slow(tmp_path, marker, path)
        made.run_through()
        return made

    return make


@dataclasses.dataclass
class Case:
    """A command that measures. first: number of executions before the header is written."""

    words: list
    slow: Slow
    first: int


SPECS = {
    "sweep": 'default = "glibc"\nselect-blocks = 4\nmax-blocks = 6\nlooks = 1\n[candidates]\na = "glibc,RATE=1010"\n',
    "tune": 'allocators = ["glibc,RATE=1010", "glibc,RATE=1005"]\nselect-blocks = 2\nmax-blocks = 6\nlooks = 1\n',
    "matrix": 'base = "glibc"\nmax-blocks = 9\n[factors]\na = "RATE=1010"\nb = "OTHER=1"\n',
    "latency": 'allocators = ["glibc", "glibc,OTHER=1"]\n',
    "syscalls": 'allocators = ["glibc"]\nrepeats = 8\n',
    "soak": 'allocator = "glibc"\nduration = "8s"\nsample-interval = "50ms"\n',
}
BLOCKS_OF_SPECS = "warm-up = 0\n"
SUITE = f"""kind = "suite"
allocators = ["glibc,RATE=1100", "glibc", "glibc,RATE=900"]
subject = "glibc,RATE=1100"
max-blocks = 6
[[workload]]
key = "first"
title = "the first"
metric = '{RATE}'
higher-is-better = true
repeat = 1
"""
KINDS = ("ab", "aa", "baseline", "compare", "sweep", "tune", "matrix", "latency", "syscalls", "soak", "suite")


@pytest.fixture
def case(slow, tmp_path, here, fakes):
    def of_spec(kind: str, words: list, text: str) -> list:
        path = tmp_path / f"{kind}.toml"
        path.write_text(text)
        return [kind, path, *words]

    def make(kind: str) -> Case:
        program = slow("exec sleep 20" if kind == "soak" else "")
        command = ["--", program.path]
        metric = ["--metric", RATE, "--higher-is-better"]
        first = 2
        if kind in ("ab", "baseline"):
            arms = ["--control", "glibc", "--treatment", "glibc,RATE=1100"]
            start = ["ab", *arms, *FAST]
            if kind == "baseline":
                kept = tmp_path / "old.baseline"
                assert here("baseline", "save", kept, "--allocator", fakes.allocator).status == 0
                start = ["baseline", "compare", kept, "--treatment", f"{fakes.allocator},RATE=1100", *FAST[:2]]
            words = [*start, *metric, "--looks", "1", "--max-blocks", "6", "--quiet", *command]
        elif kind == "aa":
            words = [
                "aa",
                "--allocator",
                "glibc",
                *metric,
                *FAST[:2],
                "--max-blocks",
                "12",
                "--quiet",
                *command,
            ]
        elif kind == "compare":
            words = [kind, "--allocators", "glibc", "glibc,RATE=1100", *metric, *FAST, "--max-blocks", "6"]
            words += ["--quiet", *command]
        elif kind == "suite":
            text = SUITE + f"command = {json.dumps([str(program.path)])}\n"
            words, first = of_spec(kind, ["--quiet"], text), 3
        else:
            blocks = BLOCKS_OF_SPECS if kind in ("sweep", "tune", "matrix") else ""
            top = f"kind = {json.dumps(kind)}\ncommand = {json.dumps([str(program.path)])}\n"
            judged = f"metric = '{RATE}'\nhigher-is-better = true\nrepeat = 1\n" if blocks else ""
            words = of_spec(kind, ["--quiet"], top + judged + blocks + SPECS[kind])
            first = {"matrix": 4, "tune": 3, "syscalls": 0, "soak": -1}.get(kind, 2)
        return Case(words, program, first)

    return make


# All kinds end by the same code (run/endings), so most of them, which take minutes, are left to make test-long.
QUICK, KILLED = ("ab",), ("ab", "syscalls", "suite")


def quick(kinds):
    return [kind if kind in kinds else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]


@pytest.fixture(params=quick(QUICK))
def measuring(request, measuring_a):
    return measuring_a(request.param)


@pytest.fixture(params=quick(KILLED))
def killed(request, measuring_a):
    """A command to be killed by SIGKILL, which hak cannot handle: only what it has stored by then remains."""
    return measuring_a(request.param)


@pytest.fixture
def measuring_a(case):
    def make(kind):
        if kind == "syscalls" and shutil.which("strace") is None:
            pytest.skip("strace is not installed")
        return case(kind)

    return make
