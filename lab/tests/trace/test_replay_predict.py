"""Predictions for the live program from replays: differences from the base, honest intervals, the order of the arms."""

import pytest

from hakmem_lab.kinds.replay import predict
from hakmem_lab.kinds.replay.predict import QUANTITIES, Column
from hakmem_lab.kinds.replay.result import base_arm

WALL, CPU, RSS = QUANTITIES


def by_arm(rows):
    return {row["arm"]: row for row in rows}


def test_an_arm_uses_as_much_more_than_the_base_as_its_replay_does():
    columns = {"glibc": Column([1.0, 1.0, 1.0], []), "other": Column([0.6, 0.6, 0.6], [])}
    rows = by_arm(predict.rows(columns, "glibc", CPU, 5.0))
    assert rows["glibc"]["predicted"] == 5.0
    assert rows["other"]["predicted"] == pytest.approx(4.6)
    assert rows["other"]["low"] < 4.6 < rows["other"]["high"]


def test_without_a_level_of_the_base_nothing_is_predicted():
    assert predict.rows({"glibc": Column([1.0], [])}, "glibc", CPU, None) == []


def test_live_runs_of_the_base_are_the_level():
    columns = {"glibc": Column([1.0] * 3, [3.0, 3.0, 3.0]), "other": Column([2.0] * 3, [4.1, 4.1, 4.1])}
    rows = by_arm(predict.rows(columns, "glibc", CPU, 99.0))
    assert rows["other"]["predicted"] == pytest.approx(4.0)
    assert rows["other"]["error"] == pytest.approx(4.0 / 4.1 - 1)
    assert rows["other"]["inside"]
    assert "error" not in rows["glibc"]


def test_threads_at_once_make_less_wall_than_processor_time():
    columns = {"glibc": Column([1.0], []), "other": Column([0.0], [])}
    rows = by_arm(predict.rows(columns, "glibc", WALL, 4.0, cpu_level=8.0))
    assert rows["other"]["predicted"] == pytest.approx(3.5)


def test_the_error_of_an_arm_is_told_from_the_others_alone():
    """The model fits all arms but `odd`. So the interval of `odd` is narrow, and it widens those of the others."""
    lives = {"glibc": 100.0, "a": 110.0, "b": 120.0, "c": 130.0, "odd": 200.0}
    replays = {"glibc": 0.0, "a": 10.5, "b": 19.5, "c": 30.5, "odd": 40.0}
    columns = {name: Column([replays[name]] * 4, [lives[name]] * 4) for name in lives}
    rows = by_arm(predict.rows(columns, "glibc", RSS, None))
    assert not rows["odd"]["inside"]
    assert rows["a"]["inside"]
    assert rows["a"]["high"] - rows["a"]["low"] > 3 * (rows["odd"]["high"] - rows["odd"]["low"])


def test_noise_widens_the_interval():
    def width(spread):
        columns = {"glibc": Column([1.0] * 4, []),
                   "other": Column([1.5 - spread, 1.5 + spread, 1.5 - spread, 1.5 + spread], [])}  # fmt: skip
        row = by_arm(predict.rows(columns, "glibc", CPU, 10.0))["other"]
        return row["high"] - row["low"]

    assert width(0.5) > width(0.1) > width(0.0) > 0


def test_the_order_of_arms_counts_where_live_runs_differ_by_more_than_matters():
    values = {"a": (100, 100), "b": (99, 102), "c": (120, 110), "d": (90, 130)}
    rows = [{"arm": name, "predicted": predicted, "live": live} for name, (predicted, live) in values.items()]
    lives = {name: [[live + 0.1 * block] for block in range(12)] for name, (_, live) in values.items()}
    found = predict.ranking(rows, lives)
    assert found["unsure"] == []
    assert found["agree"] == [["a", "c"], ["b", "c"]]
    assert found["contrary"] == [["a", "d"], ["b", "d"], ["c", "d"]]
    assert found["live"] == ["a", "b", "c", "d"]
    assert found["predicted"] == ["d", "b", "a", "c"]


def test_a_difference_that_may_be_chance_asks_for_no_order():
    rows = [{"arm": "a", "predicted": 100, "live": 100}, {"arm": "b", "predicted": 99, "live": 110}]
    steady = [[100.0 + block % 3] for block in range(12)]
    jumping = [[100.0 + off] for off in (31, -17, 24, -12, 19, -8, 27, -15, 14, -5, 22, -10)]
    found = predict.ranking(rows, {"a": steady, "b": jumping})
    assert (found["agree"], found["contrary"], found["unsure"]) == ([], [], [["a", "b"]])
    few = predict.ranking(rows, {"a": steady[:3], "b": [[120.0]] * 3})
    assert few["unsure"] == [["a", "b"]]


def test_the_peak_is_that_of_the_largest_process_with_what_it_holds_besides():
    runs = [{"replay": {"processes": [{"process": 0, "rss_peak_kib": 100}, {"process": 1, "rss_peak_kib": 50}]}}]
    beside = predict.offsets([{"process": 0, "peak_kib": 150.0}, {"process": 1, "peak_kib": 500.0}], runs)
    assert beside == {0: 50.0, 1: 450.0}
    assert predict.peak([{"process": 0, "rss_peak_kib": 300}, {"process": 1, "rss_peak_kib": 60}], beside) == 510.0


@pytest.mark.parametrize(
    ("served", "arm"),
    [("", "glibc"), ("/lib/libc.so.6", "glibc"), ("/opt/libjemalloc.so.2", "jemalloc"), ("/opt/libother.so", None)],
)
def test_the_base_is_the_arm_that_served_the_largest_process(served, arm):
    arms = [{"name": "tuned", "library": None, "variables": {"MALLOC_ARENA_MAX": "1"}},
            {"name": "glibc", "library": "/usr/lib/libc.so.6", "variables": {}},
            {"name": "jemalloc", "library": "/usr/lib/libjemalloc.so.2", "variables": {}}]  # fmt: skip
    small = {"allocator": "/opt/libelse.so", "peak_kib": 10.0}
    recorded = {"processes": [small, {"allocator": served, "peak_kib": 20.0}]}
    assert base_arm({"arms": arms}, recorded) == arm


def test_nothing_is_predicted_where_the_replay_takes_longer_than_all_of_the_program():
    columns = {"glibc": Column([1.2] * 4, [1.0] * 4), "other": Column([0.7] * 4, [1.0] * 4)}
    assert predict.rows(columns, "glibc", CPU, None) == []
    said = predict.doubt(columns, "glibc", CPU, None, 1.0)
    assert "on glibc the replay alone took 1.2 s, and all of the program 1 s" in said
    calm = {name: Column([0.5] * 4, [1.0] * 4) for name in columns}
    assert predict.doubt(calm, "glibc", CPU, None, 1.0) == "" and len(predict.rows(calm, "glibc", CPU, None)) == 2
    assert predict.rows({"glibc": Column([1.2], []), "other": Column([0.7], [])}, "glibc", CPU, 1.1) == []


def test_no_prediction_and_no_end_of_an_interval_is_below_nothing():
    columns = {"glibc": Column([0.9] * 4, []), "other": Column([0.1] * 4, [])}
    row = by_arm(predict.rows(columns, "glibc", CPU, 0.95))["other"]
    assert row["low"] == 0.0 < row["predicted"] < row["high"]
