"""The share of a program's instructions inside its allocator, against what callgrind collects by itself."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.run.share import answer, read

SOURCE = """
#include <stdlib.h>
int main(int argc, char **argv) {
  void *kept[1000] = {0};
  unsigned state = 1;
  volatile long work = 0;
  for (int i = 0; i < 20000; i++) {
    state = state * 1103515245 + 12345;
    int k = (int)(state >> 8) % 1000;
    free(kept[k]);
    kept[k] = malloc(16 + (state >> 20) % 500);
    for (int j = 0; j < 10 * argc; j++) {
      work += j;
    }
  }
  return 0;
}
"""
needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    (folder / "p.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-o", folder / "p", folder / "p.c"], check=True, capture_output=True)
    return folder / "p"


def collected(program, words, folder):
    """Instructions that callgrind collects with these options: inside malloc and free only, or all without options."""
    out = folder / "out"
    command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *words, program]
    subprocess.run(command, check=True, capture_output=True)
    return int(re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.M)[1])


@needs_valgrind
def test_it_is_what_callgrind_collects(here, program, tmp_path):
    found = here("share", "--allocators", "glibc,hakmem", "--json", "-", "--", program).result()
    inside = collected(program, ("--toggle-collect=malloc", "--toggle-collect=free"), tmp_path)
    glibc, hakmem = found["arms"]
    assert glibc["share"] == pytest.approx(inside / collected(program, (), tmp_path), abs=0.01)
    assert 0.05 < glibc["share"] < 0.9 and 0 < hakmem["share"] < glibc["share"] and glibc["calls"] >= 39000
    assert found["answer"].startswith(f"{100 * glibc['share']:.1f} % of the instructions are inside glibc")


@needs_valgrind
def test_what_the_program_starts_counts(here, program):
    alone, through = (
        here("share", "--allocators", "glibc", "--json", "-", "--", *words).result()["arms"][0]["calls"]
        for words in ((program,), ("sh", "-c", f"{program}; :"))
    )
    assert through > alone


FILE = """
summary: 1000
ob=/p
fn=main
0 10
cob=LIB
cfn=odd_name
calls=2 0
0 300
cfn=own
calls=1 0
0 5
cob=LIB
cfn=malloc
calls=1 0
0 40
ob=LIB
fn=realloc
0 1
cfn=malloc'2
calls=1 0
0 7
"""


@pytest.mark.parametrize(
    ("home", "library", "inside"),
    [("/l.so", "/l.so", 340), ("/libc.so", None, 40), ("???", "/l.so", 340)],
)
def test_calls_into_the_allocator_from_outside_count(home, library, inside):
    found = read(FILE.replace("LIB", home).splitlines(), library)
    assert (found.instructions, found.inside) == (1000, inside)


# Instructions that callgrind collected in Python 3.11 -S with PYTHONMALLOC=malloc, with --toggle-collect of one
# function in each run.
COLLECTED = {"malloc": 6_096_602, "free": 6_362_802, "calloc": 578_548, "realloc": 2_894_662}
TWICE = 84_711  # in malloc on behalf of realloc(NULL), so collected for both


def test_of_python_it_is_what_callgrind_collects_in_each_function():
    """The callers include recursive functions, and functions without a known object file."""
    with (Path(__file__).parent / "python.callgrind").open(encoding="utf-8") as lines:
        found = read(lines, None)
    assert (found.inside, found.calls) == (sum(COLLECTED.values()) - TWICE, 111_398)
    assert found.share == pytest.approx(0.2955, abs=0.0001)


def test_the_answer_says_what_there_is_to_gain():
    said = answer([{"name": "glibc", "share": 0.2}])
    assert said.startswith("20.0 % of the instructions are inside glibc") and "25.0 % faster" in said


def test_a_program_that_fails_is_refused(here, fakes):
    if shutil.which("valgrind"):
        assert "exit status 3" in here("share", "--allocators", "glibc", "--", fakes.program, "exit", "3").message()
