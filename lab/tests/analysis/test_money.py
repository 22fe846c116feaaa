"""Saved memory at the user's price: its amount, its interval, and the sentence."""

import math

import pytest
from tests.analysis.test_results import AB, ab_records, header

from hakmem_lab.designs.contrasts import ab
from hakmem_lab.judge.money import of_suite, priced
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec, spec_hash
from hakmem_lab.plan.values import price_of

GIB_KIB = 2**20


def comparison(metric, estimate, low=None, high=None):
    return {"control": "glibc", "treatment": "hakmem", "metric": metric, "estimate": estimate, "ci_low": low,
            "ci_high": high}  # fmt: skip


def result(row, price="4/GiB-month", kib=2 * GIB_KIB, phase="measure"):
    run = {"wall_s": 1.0, "metrics": {row["metric"]: kib}}
    key = {"block": 0, "attempt": 0, "phase": phase}
    runs = [{"type": "run", "arm": name, "position": at, "ok": True, "value": 1.0, **key, **run}
            for at, name in enumerate(("glibc", "hakmem"))]  # fmt: skip
    records = [*runs, {"type": "block", "ok": True, "order": ["glibc", "hakmem"], **key}]
    return priced({"comparisons": [row], "metric": {"name": row["metric"]}}, {"spec": {"price": price}}, records)


def test_half_the_memory_saves_half_its_price():
    (row,) = result(comparison("after-load", 1.0, 0.6, 1.5))["money"]
    assert (row["saved_kib"], row["amount"]) == (GIB_KIB, 4.0)
    assert row["saved_kib_low"] == pytest.approx(0.75 * GIB_KIB)
    assert row["sentence"] == (
        "hakmem saves 1 GiB [0.75, 1.2] of memory after load against glibc: 4 a month [3, 4.8], at 4/GiB-month."
    )


@pytest.mark.parametrize("phase", ["confirm", "beside"])
def test_it_is_of_the_blocks_that_the_comparison_is_about(phase):
    (row,) = result(comparison("after-load", 1.0, 0.6, 1.5), phase=phase)["money"]
    assert row["saved_kib"] == GIB_KIB


def test_a_suite_says_what_the_subject_saves_in_each_workload():
    memory = {"key": "kv", "workload": "a store", "metric": "peak RSS", "unit": "KiB", "against": "glibc",
              "words": ("leaner", "larger"), "medians": {"glibc": 2 * GIB_KIB, "hakmem": GIB_KIB},
              "arms": {"glibc": {"ratio": 2.0, "ci_low": 1.6, "ci_high": math.inf, "word": "leaner"}}}  # fmt: skip
    bar = {key: value for key, value in memory.items() if key != "words"}
    rows = [memory | {"metric": "speed", "unit": "s"}, memory, bar, memory | {"arms": {"glibc": {"word": "failed"}}}]
    (row,) = of_suite("4/GiB-month", rows, "hakmem", "glibc", "glibc")["money"]
    assert [row[key] for key in ("saved_kib", "amount", "amount_low")] == pytest.approx([GIB_KIB, 4, 3])
    assert row["amount_high"] is None
    assert row["sentence"] == "hakmem saves 1 GiB of peak RSS in 'a store' against glibc: 4 a month, at 4/GiB-month."
    assert of_suite(None, rows, "hakmem", "glibc", "glibc") == {}


def test_more_memory_costs_and_an_open_interval_is_left_out():
    (row,) = result(comparison("rss", -0.2), "$10/GB-hour")["money"]
    assert row["amount"] == pytest.approx(-0.5 * 2**30 / 1e9 * 10)
    assert row["sentence"] == "hakmem costs 0.537 GB of peak memory against glibc: 5.37 an hour, at $10/GB-hour."


@pytest.mark.parametrize("metric", ["wall", "growth", "faults"])
def test_only_amounts_of_memory_have_a_price(metric):
    assert result(comparison(metric, 1.0))["money"] == []


def test_a_run_with_a_price_says_it():
    found = ab.analyse(header("ab", ["c", "t"], **AB, price="3/GiB-month"), ab_records(8))
    assert [row["metric"] for row in found["money"]] == ["rss", "rss-mean"]
    assert found["money"][0]["sentence"] in found["answer"]


def test_without_a_price_there_is_none_and_a_price_measures_nothing_else():
    assert "money" not in ab.analyse(header("ab", ["c", "t"], **AB), ab_records(8))
    keys = {"command": "x", "control": "glibc", "treatment": "hakmem"}
    assert spec_hash(build(AbSpec, keys, "t")) == spec_hash(build(AbSpec, keys | {"price": "1/GiB-day"}, "t"))


@pytest.mark.parametrize("text", ["4.5", "4.5/GiB", "0/GiB-month", "GiB-month", "1/EiB-month", "1/2/GiB-month"])
def test_other_prices_are_refused(text):
    with pytest.raises(ValueError, match="a price is written as"):
        price_of(text)
    assert price_of("4.5 EUR/GB-month") == (4.5, 1e9 / 1024, "month")
