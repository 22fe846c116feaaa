"""Packing turns recorded words into a trace of the program's operations, in an order that every replay can follow."""

import subprocess

import pytest


def fields(line: str) -> dict[str, float]:
    return {name: float(value) for name, value in (each.split("=") for each in line.split())}


@pytest.fixture(scope="module")
def packed(built):
    """packed(MODEL, seeds): the figures of pack_check for so many simulated programs; fails if a trace is illegal."""

    def run(model: str, seeds: int) -> dict[str, float]:
        program = built("pack_check.c", "pack/*.c", beside=["pack_model.c"])
        done = subprocess.run([program, model, str(seeds)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        return fields(done.stdout)

    return run


@pytest.mark.parametrize("model", ["exact", "exact-handed", "alone", "own"])
def test_what_times_tell_apart_is_packed_as_it_was(packed, model):
    found = packed(model, 40)
    assert found["operations"] > 100_000
    assert {name: found[name] for name in ("wrong", "dropped", "added", "unknown", "lost")} == dict.fromkeys(
        ("wrong", "dropped", "added", "unknown", "lost"), 0
    )


@pytest.mark.parametrize(("model", "lost"), [("usual", 0.002), ("busy", 0.003), ("handed", 0.003), ("worst", 0.05)])
def test_what_times_do_not_tell_apart_is_packed_as_it_may_have_been(packed, model, lost):
    found = packed(model, 40)
    assert found["handed_over"] > 1000
    assert found["dropped"] <= lost * found["operations"]
    assert found["added"] <= found["lost"] <= lost * found["operations"]
