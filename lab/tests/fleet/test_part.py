"""A host's part of a fleet: preflight and warm-up once, blocks on request, and a number in every record."""

import dataclasses
import fcntl
import os
import tempfile
import threading
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError


@pytest.fixture
def part(job, store, monkeypatch):
    from hakmem_fleet import part as module
    from hakmem_lab.system import machine

    monkeypatch.setattr(machine, "busy_processors", lambda: 0.0)
    opened = []

    def begin(*lines):
        opened.append(module.begin(job(*lines)[1], "here", store))
        return opened[-1]

    yield begin
    for each in opened:
        each.__exit__(None, None, None)


def test_blocks_in_any_order_have_the_places_of_the_fleet(part):
    own = part()
    assert {r["phase"] for r in own.taken() if r["type"] == "run"} == {"calibrate", "warm-up"}
    assert (own.measure(7), own.measure(2)) == (None, None)
    records = own.taken()
    assert [r["block"] for r in records if r["type"] == "block"] == [7, 2]
    assert own.taken() == []


def test_every_record_has_its_number_here_and_in_the_file(part):
    own = part()
    own.measure(0)
    records = own.taken()
    assert [r["serial"] for r in records] == list(range(len(records)))
    stored = [r for r in own.file.records() if r["type"] != "header"]
    assert [(r["serial"], r["type"]) for r in stored] == [(r["serial"], r["type"]) for r in records]
    assert own.file.header()["fleet"]["host"] == "here"


def test_a_block_is_the_same_on_every_host(part):
    """A block's order, padding and seed depend only on its number, not on the host that measures it."""
    seen = []
    for _ in range(2):
        own = part()
        own.taken()
        own.measure(5)
        seen.append([(r["arm"], r["pad_bytes"], r["workload_seed"], r["value"]) for r in own.taken() if "value" in r])
    assert seen[0] == seen[1]
    assert len(seen[0]) == 4


@pytest.mark.parametrize(
    ("lacking", "said"),
    [({"command": ["no-such-program"]}, "no-such-program"), ({"treatment": "/no/such/lib.so"}, "no library /no/such")],
)
def test_what_a_host_lacks_is_said_and_nothing_is_left(job, store, lacking, said):
    from hakmem_fleet import part as module

    asked = job()[1]
    with pytest.raises(LabError, match=said):
        module.begin(dataclasses.replace(asked, spec=asked.spec | lacking), "here", store)
    assert not store.exists()


def test_a_block_that_fails_says_why_and_keeps_its_records(part):
    own = part("timeout = '10s'", 'env = { GAIN = "0" }')
    own.taken()
    own.workload.argv[2] = "exit 3"
    why = own.measure(0)
    assert "exit status 3" in why
    closes = [r for r in own.taken() if r["type"] == "block"]
    assert [r["ok"] for r in closes] == [False] * 3


def test_another_version_of_hak_does_not_take_part(job, store):
    from hakmem_fleet import part as module

    asked = dataclasses.replace(job()[1], lab_version="0.1")
    with pytest.raises(LabError, match=r"hak is .* here, and 0\.1 where the fleet was started"):
        module.begin(asked, "here", store)


def test_one_at_a_time_on_a_machine(part):
    """While another process holds the machine's lock, a block waits."""
    own = part()
    own.taken()
    path = Path(tempfile.gettempdir()) / f"hakmem-lab-fleet-{os.getuid()}.lock"
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread = threading.Thread(target=own.measure, args=(0,))
        thread.start()
        thread.join(0.3)
        assert (thread.is_alive(), own.taken()) == (True, [])
    thread.join(30)
    assert [r["ok"] for r in own.taken() if r["type"] == "block"] == [True]


@pytest.mark.parametrize("name", ["HAK_FLEET_HOST", "SLURMD_NODENAME"])
def test_the_engine_says_how_a_host_is_called(monkeypatch, name):
    from hakmem_fleet import part as module

    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    own = module.host_name()
    monkeypatch.setenv(name, "node-3")
    assert module.host_name() == "node-3" != own
