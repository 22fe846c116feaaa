"""A matrix that is judged after every block: its early results, when it ends, and the rule that is applied."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from hakmem_lab.designs.cells import matrix
from hakmem_lab.errors import LabError
from hakmem_lab.judge.planning import check_more, least_blocks, most_blocks

_found = importlib.util.spec_from_file_location("test_results", Path(__file__).parent / "test_results.py")
made = importlib.util.module_from_spec(_found)
_found.loader.exec_module(made)

CELLS, PLANNED = ["(none)", "A", "B", "A+B"], 30


def header(**keys):
    factors = {"A": "X=1", "B": "Y=1"}
    return made.header("matrix", CELLS, factors=factors, **{"max-blocks": PLANNED, **keys}) | {"anytime": 0.35}


def records(count, sizes=(1.0, 0.9, 0.9, 0.81), noise=0.005, seed=1):
    """Blocks of cells in rotating order; each cell's times vary around its value in `sizes`."""
    rng, found = np.random.default_rng(seed), []
    for block in range(count):
        order = [CELLS[(place + block) % 4] for place in range(4)]
        times = dict(zip(CELLS, np.array(sizes) * np.exp(rng.normal(0, noise, 4)), strict=True))
        found += made.block_records(block, order, {name: times[name] for name in order})
    return found


def settled_after(found, **keys):
    """The smallest number of blocks that gives a settled result."""
    per_block = len(found) // PLANNED
    return next(n for n in itertools.count(1) if matrix.analyse(header(**keys), found[: per_block * n]).get("settled"))


def test_a_clear_design_is_over_before_its_plan_is_used():
    found = records(PLANNED)
    count = settled_after(found, margin="2%")
    assert 9 <= count < PLANNED
    result = matrix.analyse(header(margin="2%"), found[: count * len(found) // PLANNED])
    assert result["final"] and result["open"] == []
    rows = {row["name"]: row for row in result["effects"]}
    assert [rows[f"A while B is {level}"]["reading"] for level in ("off", "on")] == ["better"] * 2
    assert rows["A×B"]["reading"] == "additive within the margin"
    assert all(row["settled"] for row in result["effects"] if row["kind"] != "main")
    assert rows["A while B is off"]["estimate"] == pytest.approx(1 / 0.9 - 1, abs=0.01)


def test_before_any_reading_is_possible_it_says_so():
    result = matrix.analyse(header(), records(8))
    assert result["effects"] == [] and not result["final"]
    assert result["answer"].startswith("No reading yet: 8 of at most 30 blocks")


def test_what_is_open_is_named_until_the_plan_is_used():
    """Effects of 10 % show at once; whether the two effects add up within 0.1 % stays open."""
    early = matrix.analyse(header(margin="0.1%"), records(12))
    assert early["open"] == ["A×B"] and not early["settled"] and not early["final"]
    assert "Undecided: A×B" in early["answer"]
    late = matrix.analyse(header(margin="0.1%"), records(PLANNED))
    assert late["open"] == ["A×B"] and late["final"]


def test_an_estimate_that_its_own_luck_settled_is_nearer_to_nothing():
    found, corrected = records(PLANNED, (1.0, 0.975, 1.0, 0.975), 0.012, seed=3), []
    for count in range(9, PLANNED, 2):
        rows = matrix.analyse(header(), found[: count * len(found) // PLANNED])["effects"]
        corrected += [row for row in rows if row["uncorrected"] != pytest.approx(row["estimate"])]
    assert corrected
    for row in corrected:
        assert abs(row["estimate"]) < abs(row["uncorrected"])
        assert row["ci_low"] <= row["estimate"] <= row["ci_high"] and row["settled"]


def test_a_guardrail_that_may_be_read_after_every_block_has_the_wider_interval():
    keys, found = {"guardrails": {"rss": "10%"}, "max-blocks": 12}, records(12)
    for place, record in enumerate(record for record in found if record["type"] == "run"):
        record["rss_peak_kib"] += 7 * place % 101
    once = {key: value for key, value in header(**keys).items() if key != "anytime"}
    rails = [matrix.analyse(top, found)["guardrails"] for top in (header(**keys), once)]
    assert {row["status"] for row in rails[0]} == {"held"}
    for often, single in zip(*rails, strict=True):
        assert often["ci_low"] < single["ci_low"] <= single["ci_high"] < often["ci_high"]


def test_a_design_can_be_prolonged_under_the_same_rule():
    check_more(header() | {"id": "x"}, 3)
    with pytest.raises(LabError, match="cannot be prolonged"):
        check_more({key: value for key, value in header().items() if key != "anytime"} | {"id": "x"}, 3)
    more = {"type": "event", "what": "more", "until": PLANNED + 10, "settled": False}
    found = [*records(PLANNED), more]
    assert most_blocks(header(), found) == PLANNED + 10 and least_blocks(found) == 0
    result = matrix.analyse(header(margin="0.1%"), found)
    assert not result["final"] and result["max_blocks"] == PLANNED + 10
