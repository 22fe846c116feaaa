"""The warm-up at the beginning of a soak, which is not judged."""

import math

import pytest

from hakmem_lab.errors import LabError


@pytest.fixture
def analyse(soak_header):
    from hakmem_lab.kinds.soak import soak

    end = {"type": "run", "block": 0, "arm": "glibc", "ok": True, "why": None, "wall_s": 900.0, "cpu_s": 800.0,
           "rss_peak_kib": 99_000, "minor_faults": 10, "major_faults": 0, "ended_by_itself": False}  # fmt: skip
    return lambda records, **keys: soak.analyse(soak_header(**keys), [*records, end])


def samples(course, n=900, segment=0):
    """One sample a second of this course, in KiB, with a little deterministic noise."""
    noise = [((i * 7919) % 13 - 6) * 5.0 for i in range(n)]
    return [
        {"type": "sample", "segment": segment, "t_s": i + 0.5, "rss_kib": course(i) + noise[i], "pss_kib": course(i),
         "exact": True, "threads": 5, "threads_started": 5, "cpu_s": i * 0.9, "minor_faults": i, "major_faults": 0,
         "operations": 1000 * i, "ops_per_s": 1000.0, "phase": None, "line_phase": None, "live_kib": 10_000.0,
         "p50_us": 1.0, "p99_us": 5.0, "p999_us": 40.0}
        for i in range(n)
    ]  # fmt: skip


def settling(i):
    """An ordinary warm-up: memory rises ever more slowly."""
    return 50_000.0 - 8_000 * math.exp(-i / 90)


def test_a_warm_up_that_is_named_is_not_judged(analyse):
    found = analyse(samples(settling), **{"warm-up": 500.0})
    assert found["verdict"] == "GO" and found["soak"]["samples"] == 400


def test_a_leak_behind_it_is_still_one(analyse):
    leaking = samples(lambda i: settling(i) + 20 * i)
    assert analyse(leaking, **{"warm-up": 500.0})["verdict"] == "NO-GO"


def test_each_process_has_its_own_and_one_that_ends_within_it_is_left_out(analyse):
    both = [*samples(settling), *samples(settling, 500, segment=1)]
    found = analyse(both, **{"warm-up": 500.0})
    assert [part["segment"] for part in found["soak"]["segments"]] == [0]


def test_a_warm_up_of_all_of_it_is_refused():
    from hakmem_lab.kinds.soak import SoakSpec
    from hakmem_lab.plan.spec import build

    values = {"kind": "soak", "command": "true", "duration": "60s"}
    with pytest.raises(LabError, match="nothing would be judged"):
        build(SoakSpec, values | {"warm-up": "60s"}, "s.toml")
    assert build(SoakSpec, values | {"warm-up": "30s"}, "s.toml").warm_up == 30
