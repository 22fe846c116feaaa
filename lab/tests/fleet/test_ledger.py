"""Every record is stored once and every block counts once, in whatever order and however often records arrive."""

import itertools

import pytest

from hakmem_fleet.gather import AGAIN, Ledger
from hakmem_lab.store.query import finished_blocks
from hakmem_lab.store.runs import RunFile


@pytest.fixture
def ledger(store):
    file = RunFile.create(store, "fleet", {})
    yield Ledger(file)
    file.close()


def closed(ledger):
    """(block, host, phase) of each record that closes a block, in the order of writing."""
    return [(r["block"], r["host"], r["phase"]) for r in ledger.file.records() if r["type"] == "block"]


def test_the_same_records_twice_count_once(ledger, header, made):
    part = ledger.part(header("a"))
    own = [*made(0), *made(1, serial=5)]
    for _ in range(3):
        ledger.add([(part, own)])
    assert ledger.part(header("a")) == part
    assert closed(ledger) == [(0, "a", "measure"), (1, "a", "measure")]
    assert len(list(ledger.file.records())) == 1 + 1 + 10


def test_a_ledger_that_is_opened_again_knows_what_it_holds(ledger, header, made):
    part = ledger.part(header("a"))
    ledger.add([(part, made(0))])
    before = list(ledger.file.records())
    again = Ledger(ledger.file)
    assert again.part(header("a")) == part
    again.add([(part, made(0))])
    assert (list(again.file.records()), again.counted) == (before, {0: "a"})


def test_of_two_that_come_at_once_the_one_that_ended_first_counts(ledger, header, made):
    parts = [ledger.part(header(name)) for name in ("a", "b")]
    ledger.add([(parts[0], made(3, finished=9.0)), (parts[1], made(3, finished=8.0))])
    assert closed(ledger) == [(3, "b", "measure"), (3, "a", AGAIN)]
    assert ledger.counted == {3: "b"}


def test_what_counts_goes_on_to_count(ledger, header, made):
    parts = [ledger.part(header(name)) for name in ("a", "b")]
    ledger.add([(parts[0], made(3, 100.0, finished=9.0))])
    ledger.add([(parts[1], made(3, 200.0, finished=8.0))])
    (block,) = finished_blocks(ledger.file.records(), "measure")
    assert [run["value"] for run in block["glibc"]] == [100.0, 100.0]


def test_the_order_of_collecting_does_not_matter(store, header, made):
    """Three parts have measured the same two blocks; collecting them in any order counts the same attempts."""
    found = set()
    own = {"a": [*made(0, finished=5.0), *made(1, serial=5, finished=9.0)], "b": made(1, finished=6.0),
           "c": [*made(1, finished=7.0), *made(0, serial=5, finished=8.0)]}  # fmt: skip
    for order in itertools.permutations(own):
        ledger = Ledger(RunFile.create(store, "fleet", {}))
        ledger.add([(ledger.part(header(name)), own[name]) for name in order])
        found.add(tuple(sorted(ledger.counted.items())))
        ledger.file.close()
    assert found == {((0, "a"), (1, "b"))}


def test_an_attempt_that_was_not_lived_to_end_waits_for_its_end(ledger, header, made):
    part, own = ledger.part(header("a")), made(0)
    ledger.add([(part, own[:3])])
    assert not [r for r in ledger.file.records() if r["type"] == "run"]
    ledger.add([(part, own)])
    assert closed(ledger) == [(0, "a", "measure")]
    assert len(finished_blocks(ledger.file.records(), "measure")) == 1


def test_a_failed_attempt_is_kept_and_does_not_count(ledger, header, made):
    part = ledger.part(header("a"))
    ledger.add([(part, [*made(0, ok=False), *made(0, serial=5, own=1)])])
    assert ledger.counted == {0: "a"}
    assert [r["attempt"] for r in ledger.file.records() if r["type"] == "block"] == [0, 1]
    assert len(finished_blocks(ledger.file.records(), "measure")) == 1


def test_the_attempts_of_two_parts_are_never_taken_for_one(ledger, header, made):
    """Attempts of two parts get different numbers, so the end of one part's block never closes another part's runs."""
    first, second = (ledger.part(header(name)) for name in ("a", "b"))
    ledger.add([(first, made(0, 1.0)), (second, made(0, 2.0))])
    attempts = {(r["host"], r["attempt"]) for r in ledger.file.records() if r["type"] == "run"}
    assert attempts == {("a", 0), ("b", 1000)}


def test_events_name_their_host(ledger, header):
    part = ledger.part(header("a"))
    ledger.add([(part, [{"type": "event", "what": "load", "text": "busy", "serial": 0}])])
    (event,) = (r for r in ledger.file.records() if r["type"] == "event")
    assert (event["text"], event["host"]) == ("a: busy", "a")
