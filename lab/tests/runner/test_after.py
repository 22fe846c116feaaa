"""Memory after the load has ended: of a command at its mark, of a server when its client has ended."""

import os
import sys
import time
from types import SimpleNamespace

import pytest

from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run import after
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import Workload

MIB_KIB = 1024
BY_LINES = 'echo > "$HAK_MARK"; read line < "$HAK_MARK.done"'
GROWS = "kept = []\nfor _ in range(60): kept.append(bytearray(1 << 20)); time.sleep(0.03)\n"
BY_COMMAND = f"{sys.executable} -m hakmem_lab.cli.main mark"


@pytest.fixture
def run():
    def call(command, metrics=("after-load", "wall"), **keys):
        values = {"command": list(map(str, command)), "control": "glibc", "treatment": "glibc", "after": "0.2s"}
        with Runner(Workload.of(build(AbSpec, values | keys, "test")), [Metric(name) for name in metrics]) as runner:
            return runner.run(parse_arm("glibc"), 0)

    return call


@pytest.mark.parametrize("way", [BY_LINES, BY_COMMAND])
def test_a_command_marks_the_end_of_its_load(run, way):
    began = time.monotonic()
    record = run(["/bin/sh", "-c", f"{way}; echo done"])
    took_s = time.monotonic() - began
    assert record["ok"], record["why"]
    assert record["extra"] == {"after_load_kib": record["metrics"]["after-load"], "by": "pss", "after_s": 0.2}
    assert 0 < record["wall_s"] <= took_s - 0.2


def test_memory_is_read_after_the_mark_and_the_program_goes_on(run):
    code = f"b = bytearray({64 << 20}); del b; import os; os.system('''{BY_LINES}'''); b = bytearray({64 << 20})"
    record = run([sys.executable, "-c", code])
    assert record["metrics"]["after-load"] < 48 * MIB_KIB < 64 * MIB_KIB < record["rss_peak_kib"]


def test_the_process_that_marks_does_not_count(run):
    plain, marked = (
        run(["/bin/sh", "-c", f"{way}; echo done"])["metrics"]["after-load"] for way in (BY_LINES, BY_COMMAND)
    )
    assert marked < plain + 2 * MIB_KIB


def test_the_whole_tree_counts_and_the_last_mark(run):
    holds = f"b = bytearray({32 << 20}); import sys; print(1, flush=True); sys.stdin.read()"
    line = f"mkfifo pipe; {sys.executable} -c '{holds}' < pipe > said & exec 3> pipe; until [ -s said ]; do :; done"
    record = run(["/bin/sh", "-c", f"cd $(mktemp -d); {BY_LINES}; {line}; {BY_LINES}; exec 3>&-; wait"])
    assert record["ok"], record["why"]
    assert record["metrics"]["after-load"] >= 32 * MIB_KIB


def test_a_command_without_a_mark_says_what_to_do(run):
    assert run(["/bin/true"])["why"] == f"metric 'after-load' could not be measured: {after.UNMARKED}"


def test_a_program_that_ends_before_the_reading_has_none(run):
    record = run(["/bin/sh", "-c", 'echo > "$HAK_MARK"'], after="60s")
    assert "the program ended" in record["why"] and "could be read at 60 s" in record["why"]


def test_a_server_is_read_when_its_client_has_ended(run, fakes):
    server = {"command": [str(fakes.server), "{port}"]}
    record = run([fakes.server, "{port}", "client"], server=server, env={"FAKE_START_MIB": "8"})
    assert record["ok"], record["why"]
    assert record["extra"]["by"] == "pss" and 0 < record["metrics"]["after-load"] < 8 * MIB_KIB


def test_outside_of_a_measurement_a_mark_does_nothing(monkeypatch):
    monkeypatch.delenv(after.MARK, raising=False)
    after.mark()
    monkeypatch.setenv(after.MARK, os.devnull + "/gone")
    after.mark()


def test_a_run_that_waits_is_one_execution():
    from hakmem_lab.run.session import Session

    for metric, expected in (("after-load", 1), ("wall", 10)):
        keys = {"command": ["/bin/true"], "control": "glibc", "treatment": "glibc", "metric": metric}
        session = Session.__new__(Session)
        session.runner = SimpleNamespace(search=None)
        session.spec = build(AbSpec, keys, "test")
        session.wait_s = session.spec.after if metric == "after-load" else 0.0
        assert session._repeats(0.01) == expected


def test_growth_of_a_run(run):
    code = "import time; kept = []\nfor _ in range(60): kept.append(bytearray(1 << 20)); time.sleep(0.01)"
    record = run([sys.executable, "-c", code], ("growth",))
    assert record["ok"], record["why"]
    assert record["extra"] == {"growth_kib": record["metrics"]["growth"]}
    assert record["metrics"]["growth"] > 3600 * MIB_KIB
    assert run(["/bin/true"], ("growth",))["why"].startswith("metric 'growth' could not be measured: the run was too")


def test_growth_of_a_child_counts(run):
    code = f"import os, time\nif os.fork(): os.wait(); os._exit(0)\n{GROWS}"
    record = run([sys.executable, "-c", code], ("growth", "rss"), requests=1000)
    assert record["ok"], record["why"]
    assert record["metrics"]["growth"] > 20 * MIB_KIB


def test_growth_of_a_server_is_that_of_its_children(run):
    ready = "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    forks = "if os.fork(): os.wait(); os._exit(0)\n"
    grows = GROWS.replace("\n", "\n ")
    serves = f"while True:\n c = s.accept()[0]\n if not c.recv(9): continue\n {grows}c.send(b'x'); c.close()\n"
    asks = "s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.send(b'x'); sys.exit(s.recv(9) != b'x')"
    program = [sys.executable, "-c", f"import os, socket, sys, time\n{ready}{forks}{serves}", "{port}"]
    client = [sys.executable, "-c", f"import socket, sys; {asks}", "{port}"]
    record = run(client, ("growth", "server-rss"), server={"command": program}, requests=1000)
    assert record["ok"], record["why"]
    first = record["server"]
    assert record["metrics"]["growth"] > 20 * MIB_KIB > first["rss_peak_kib"] - first["rss_series"][0][1]
