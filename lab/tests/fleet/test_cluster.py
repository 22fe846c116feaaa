"""A real cluster of worker processes on this machine; one worker is killed during the run."""

import contextlib
import importlib.util
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys

import pytest

# Only looked up: importing it would take seconds in every pytest worker, also in those that run none of these tests.
if importlib.util.find_spec("distributed") is None:
    pytest.skip("needs the extra 'fleet'", allow_module_level=True)

BLOCKS, WORKERS = 12, 3  # of fewer hosts nothing can be said about a fleet
FIRST = ("--engine", "dask", "--quiet")


@pytest.fixture(scope="module")
def whole(killing, tmp_path_factory):
    """Records of a run in which no worker is killed."""
    found = killing.measure(tmp_path_factory.mktemp("fleet") / "whole", WORKERS, BLOCKS, None)
    killing.check(found, found, BLOCKS, killed=False)
    return found


def test_the_workers_share_the_blocks(whole, killing):
    (result,) = (r for r in whole if r["type"] == "result")
    assert (result["verdict"], result["final"]) == ("GO", True)
    assert [each["blocks"] for each in result["fleet"]["hosts"]] == [BLOCKS // WORKERS] * WORKERS
    phases = [(r["host"], r["phase"]) for r in whole if r["type"] == "run" and r["phase"] != "measure"]
    assert len(set(phases)) == 2 * WORKERS, "each was calibrated and warmed up"
    assert len(phases) == 4 * WORKERS, "once"


@pytest.mark.long
def test_a_killed_worker_costs_no_finished_block_and_no_verdict(killing, whole, tmp_path):
    said = killing.trial(tmp_path / "run", WORKERS, BLOCKS, whole, random.Random(1))
    assert re.match("part [0-2] killed after", said)


@pytest.mark.long
def test_twenty_runs_with_a_killed_worker_each(killing, whole, tmp_path):
    rng = random.Random(20)
    for number in range(20):
        killing.trial(tmp_path / str(number), WORKERS, BLOCKS, whole, rng)


@pytest.mark.long
def test_where_no_host_can_measure_each_is_named_with_the_reason(hak, tmp_path, store):
    spec = tmp_path / "spec.toml"
    spec.write_text('command = ["true"]\ncontrol = "glibc"\ntreatment = "nope.so"\n')
    answer = hak("fleet", spec, *FIRST, "--workers", 2)
    assert answer.status == 2
    assert re.search(r"no host can measure this: .*/\d: treatment: there is no allocator 'nope\.so'", answer.message())
    assert not list(store.glob("*.jsonl"))


def test_no_scheduler_there(hak, spec_file):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    answer = hak("fleet", spec_file(), *FIRST, "--scheduler", address)
    assert (answer.status, "no Dask scheduler answers at" in answer.message()) == (2, True)


@pytest.mark.long
def test_an_interrupted_fleet_goes_on(begin, hak, spec_file, store, until, killing):
    running = begin("fleet", spec_file(blocks=40), *FIRST, "--workers", 2)
    until(lambda: len(killing.finished(killing.records(store))) >= 3, 60)
    running.terminate()
    _, said = running.communicate(timeout=600)
    assert running.returncode == 143
    assert "hak runs resume" in said.splitlines()[-1]
    before = killing.values(killing.records(store))
    assert hak("resume", "--quiet", "--json", "-").result()["final"]
    after = killing.values(killing.records(store))
    assert {block: after[block] for block in before} == before
    assert sorted(after) == list(range(40))
    assert json.loads(hak("show", "last", "--json", "-").out)["verdict"] == "INCONCLUSIVE", "two hosts are no fleet"


@pytest.fixture
def cluster(tmp_path, until):
    """Address of a Dask scheduler with two workers, which are started as separate processes, not by hak."""
    file = tmp_path / "scheduler.json"
    words = ("--scheduler-file", str(file), "--no-dashboard")
    started = [["scheduler", "--port", "0", *words], *[["worker", "--nthreads", "1", "--no-nanny", *words]] * 2]
    with contextlib.ExitStack() as stack:
        for name, *flags in started:
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *flags]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
            stack.callback(process.wait)
            stack.callback(process.kill)
            until(file.exists, 60)
        yield json.loads(file.read_text())["address"]


@pytest.mark.long
def test_a_cluster_that_is_there(cluster, begin, spec_file, store, until, killing):
    """Two workers on one machine count as one host: only one measures, and if it dies, the other one continues."""
    running = begin("fleet", spec_file(blocks=30), *FIRST, "--scheduler", cluster)
    until(lambda: len(killing.finished(killing.records(store))) >= 5, 120)
    first = next(r for r in killing.records(store) if r["type"] == "host")
    os.kill(first["pid"], signal.SIGKILL)
    said = running.communicate(timeout=600)
    assert running.returncode == 0, said
    found = killing.records(store)
    assert sorted(r["block"] for r in killing.finished(found)) == list(range(30))
    parts = [r for r in found if r["type"] == "host"]
    assert [r["host"] for r in parts] == [socket.gethostname()] * 2
    assert parts[0]["pid"] != parts[1]["pid"]
