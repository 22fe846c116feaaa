"""Calls of the allocator and the bytes that they ask for: exact, over all processes, on any allocator; and the gate."""

import shutil
import sys
from pathlib import Path

import pytest

from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import counting

# One request of each kind for every argument: 10 of them, 1000 bytes in all.
PROGRAM = r"""
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *text) {
  void *block = malloc(100), *other;
  block = realloc(block, 200);
  block = reallocarray(block, 3, 100);
  if (posix_memalign(&other, 64, 100)) return NULL;
  void *all[] = {block, other, calloc(5, 20), memalign(64, 100), aligned_alloc(64, 64), valloc(10), strdup("12345"),
                 strndup("1234567", 3), malloc(0), malloc(16)};
  for (int i = 0; i < 10; i++) free(all[i]);
  return text;
}
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (*argv[i] == 'f' && fork() == 0) { work(NULL); _exit(0); }
    if (*argv[i] == 't') { pthread_t t; pthread_create(&t, NULL, work, NULL); pthread_join(t, NULL); }
    if (*argv[i] == 'm') work(NULL);
    if (*argv[i] == 'x') { argv[i][0] = 'k'; work(NULL); execv(argv[0], argv); }
    if (*argv[i] == 'k') work(NULL), _exit(0);
  }
  while (wait(NULL) > 0) { }
  return 0;
}
"""
CALLS, BYTES = 12, 100 + 200 + 300 + 100 + 100 + 100 + 64 + 10 + 6 + 4 + 0 + 16
NEW = """
#include <new>
int main(int n, char **) { while (--n > 0) { delete[] new char[500]; delete new (std::nothrow) int; } }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory, compile_once):
    source = tmp_path_factory.mktemp("counts") / "counts.c"
    source.write_text(PROGRAM)
    return compile_once(source.with_suffix(""), ["cc", "-O0", "-w", "-fno-builtin", "-pthread", source])


def run(command, allocator="glibc", **keys):
    values = {"command": list(map(str, command)), "control": "glibc", "treatment": "glibc"} | keys
    metrics = [Metric("allocated"), Metric("calls")]
    with Runner(Workload.of(build(AbSpec, values, "test")), metrics) as runner:
        return runner.run(parse_arm(allocator), 100)


def counted(command, allocator="glibc", **keys):
    record = run(command, allocator, **keys)
    assert record["ok"], record["why"]
    assert record["extra"] == {"calls": record["metrics"]["calls"], "allocated_bytes": record["metrics"]["allocated"]}
    return record["extra"]["calls"], record["extra"]["allocated_bytes"]


def test_every_kind_of_request_counts_in_threads_children_and_after_exec(program, fakes):
    for allocator in ("glibc", str(fakes.allocator)):
        few, more = (counted([program, *words], allocator) for words in ("mtf", "mmtf"))
        assert (more[0] - few[0], more[1] - few[1]) == (CALLS, BYTES)
        alone, forked = counted([program, "m"], allocator), counted([program, "m", "f", "f"], allocator)
        assert (forked[0] - alone[0], forked[1] - alone[1]) == (2 * CALLS, 2 * BYTES)
    once, twice = counted([program, "m"]), counted([program, "x"])
    assert twice[0] - once[0] >= CALLS and twice[1] - once[1] >= BYTES


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
def test_an_operator_counts_once(tmp_path, fakes):
    (tmp_path / "new.cc").write_text(NEW)
    program = fakes.compiled(tmp_path / "new", ["c++", "-O0", tmp_path / "new.cc"])
    few, more = counted([program, "1"]), counted([program, "1", "2"])
    assert (more[0] - few[0], more[1] - few[1]) == (2, 504)


# dlerror formats its text, of some lengths by realloc. hakmem notices a write to its state where that was freed.
ERROR = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  char name[200] = "";
  for (int i = 0; i < 199; i++) {
    name[i] = 'x';
    if (dlsym(RTLD_DEFAULT, name) || !strstr(dlerror(), name)) return 1;
    for (int j = 0; j < 8; j++) if (!malloc(32)) return 2;
  }
  return 0;
}
"""


def test_a_count_leaves_the_state_of_dlerror_alone(fakes, tmp_path):
    (tmp_path / "error.c").write_text(ERROR)
    program = fakes.compiled(tmp_path / "error", ["cc", "-O0", "-fno-builtin", "-D_GNU_SOURCE", tmp_path / "error.c"])
    calls, _ = counted([program], "hakmem")
    assert calls >= 199 * 8


def test_a_program_that_changes_its_user_can_open_what_counts_it():
    with counting.Counts() as counts:
        env = counts.environment({"LD_PRELOAD": "/lib/other.so"})
        library, other = env["LD_PRELOAD"].split(":")
        assert other == "/lib/other.so"
        for path, mode in ((Path(library), 0o5), (Path(env["HAK_COUNT"]), 0o6)):
            assert path.stat().st_mode & mode == mode and path.parent.stat().st_mode & 0o5 == 0o5
            assert Path.home() not in path.parents
    assert not path.parent.exists()


def test_runs_repeat_themselves_exactly_whatever_the_environment(program):
    assert counted([program, "m"]) == counted([program, "m"])
    assert counted([sys.executable, "-S", "-c", "0"], env={"PYTHONHASHSEED": "0"}) == counted(
        [sys.executable, "-S", "-c", "0"], env={"PYTHONHASHSEED": "0"}
    )


def test_what_cannot_be_counted_says_why(fakes, program):
    why = "metric 'allocated' could not be measured: "
    assert run([fakes.static_program, "exit", "0"], "default")["why"] == why + counting.NOTHING
    assert run(["/bin/false"], "default")["why"] == "exit status 1"
    with pytest.raises(Exception, match="the metric 'faults' is not counted for a"):
        build(AbSpec, {"command": "x", "control": "glibc", "treatment": "glibc", "metric": "faults",
                       "server": {"command": "y"}}, "test")  # fmt: skip


@pytest.mark.parametrize("clients", [1, 3])
def test_of_a_server_counts_what_its_processes_request_while_the_client_runs(fakes, clients):
    """Each connection takes one block of 48 MiB, in a child of the server; before the client, others come and go."""
    client = f"{fakes.server} {{port}} client"
    server = {"command": [str(fakes.server), "{port}", "prefork"], "warm_up": client.split()}
    record = run(["sh", "-c", "; ".join([client] * clients)], server=server, env={"FAKE_START_MIB": "5"})
    assert record["ok"], record["why"]
    assert record["extra"] == {"calls": clients, "allocated_bytes": clients * (48 << 20)}
    assert record["server"]["rss_peak_kib"] > 0


ONCE = ("--repeat", "1", "--warm-up", "0", "--max-blocks", "8", "--quiet", "--json", "-")


@pytest.mark.parametrize(("words", "status"), [("fm", 0), ("mmmm", 1)])
def test_a_gate_on_two_commands(here, program, words, status):
    new = f"{program} {' '.join(words)}"
    answer = here("compare", "--commands", f"{program} m f", new, "--gate", "1%", "--metric", "allocated,calls", *ONCE)
    assert answer.status == status, answer.err
    rows = answer.result()["guardrails"]
    assert {row["metric"] for row in rows} == {"allocated", "calls"}
    assert {row["status"] for row in rows} == {"failed" if status else "held"}
    assert ("the gate is not passed: allocated (failed), calls (failed)" in answer.err) == bool(status)
