"""The guardrails of several arms against the first one, each from the blocks in which it took part."""

import numpy as np
import pytest
from tests.analysis.test_two_arms import run

from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.two_arms import guardrail_rows, guardrails_judged

PLAN = Plan((20, 40), 0.35)
ALPHA = 0.04
LIMITS = {"cpu": 0.05, "rss": 0.10}


def header(*names, guardrails=("cpu", "rss")):
    limits = {name: {"limit": LIMITS[name]} for name in guardrails}
    spec = {"metric": "wall", "higher-is-better": False, "alpha": ALPHA, "guardrails": limits}
    return {"kind": "compare", "spec": spec, "arms": [{"name": name} for name in names]}


@pytest.fixture(scope="module")
def blocks():
    """14 blocks of c, t and u. t uses more processor time than c, u less. u leaves after 9 blocks; v has none."""
    draw = np.random.default_rng(4)
    found = []
    for number in range(14):
        block = {}
        for name, factor in (("c", 1.0), ("t", 1.2), ("u", 0.9)):
            cpu, kib = np.exp(draw.normal(0, 0.02, 2)) * (factor, 1000)
            block[name] = [run(1.0, cpu) | {"rss_peak_kib": int(kib), "rss_mean_kib": None}]
        found.append(block if number < 9 else {"c": block["c"], "t": block["t"]})
    return found


def ratios(blocks, name, key):
    return [np.log(block["c"][0][key] / block[name][0][key]) for block in blocks if name in block]


KEYS = {"cpu": "cpu_s", "rss": "rss_peak_kib"}


def same(found, expected):
    assert (found.name, found.limit, found.status) == (expected.name, expected.limit, expected.status)
    assert vars(found.interval) == pytest.approx(vars(expected.interval))


def test_after_any_number_of_blocks_the_arms_share_alpha(blocks):
    found = guardrails_judged(header("c", "t", "u"), blocks, PLAN)
    for place, (metric, limit) in enumerate(LIMITS.items()):
        for name in "tu":
            d = ratios(blocks, name, KEYS[metric])
            same(found[name][place], verdict.guardrail(d, limit, ALPHA / 2, metric, PLAN))
            assert len(found[name]) == 2


def test_an_arm_without_a_block_or_without_the_metric_has_no_guardrail(blocks):
    """The remaining arms share alpha among themselves."""
    without = [block | {"w": [run(1.0, None)]} for block in blocks]
    found = guardrails_judged(header("c", "t", "v", "w", guardrails=["cpu"]), without, PLAN)
    assert found["v"] == found["w"] == []
    (only,) = guardrails_judged(header("c", "t", guardrails=["cpu"]), blocks, PLAN)["t"]
    same(found["t"][0], only)


def test_the_rows_of_a_result_name_the_arm(blocks):
    found = guardrails_judged(header("c", "t", "u"), blocks, PLAN)
    rows = guardrail_rows(found)
    assert [(row["arm"], row["metric"]) for row in rows] == [("t", "cpu"), ("t", "rss"), ("u", "cpu"), ("u", "rss")]
    assert rows[1] == found["t"][1].row() | {"arm": "t"}
