"""All blocks of one pair of builds count as one unit: forming units, and how often layout noise gives a verdict."""

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.analysis import failed_runs, log_ratios
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict
from hakmem_lab.kinds.ab import builds as build_pairs
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.store.query import finished_blocks

ALPHA, MARGIN = 0.05, 0.01
SIMULATED = pytest.mark.parametrize("simulated", [500, pytest.param(2000, marks=pytest.mark.long)])
ARMS = ("old", "new")


def blocks(ratios, each):
    """A block for every log-ratio, with two runs of each arm; `each` successive blocks share a build."""
    found = []
    for index, d in enumerate(ratios):
        run = {"build": index // each, "metrics": {}}
        new = run | {"metrics": {"wall": float(np.exp(-d))}}
        old = run | {"metrics": {"wall": 1.0}}
        found.append({"old": [old, old], "new": [new, new]})
    return found


def wrong(layout, noise, builds, each, looks, rng, clustered, simulated):
    """How many simulated runs of equal sources give GO or NO-GO. layout: spread of a build; noise: of a block."""
    count = 0
    for _ in range(simulated):
        shift = np.repeat(rng.normal(0, layout * np.sqrt(2), builds), each)
        d = shift + rng.normal(0, noise, builds * each)
        values = d.reshape(builds, each).mean(axis=1) if clustered else d
        found = sequential_verdict(list(values), Plan(tuple(planned_looks(len(values), looks))), MARGIN, ALPHA)
        count += found in (Verdict.GO, Verdict.NO_GO)
    return count


@pytest.mark.parametrize("each", [1, 2, 5])
def test_the_ratio_of_a_unit_is_the_mean_of_its_blocks(each):
    d = list(np.random.default_rng(1).normal(0, 0.1, 30))
    units = build_pairs.units(blocks(d, each), each)
    wanted = np.reshape(d, (-1, each)).mean(axis=1)
    assert log_ratios(units, *ARMS, Metric("wall")) == pytest.approx(list(wanted))


def test_an_unfinished_pair_of_builds_does_not_count():
    d = [0.1] * 9
    assert len(build_pairs.units(blocks(d, 4), 4)) == 2
    assert len(build_pairs.units(blocks(d[:8], 4), 4)) == 2


def test_a_lost_block_does_not_shift_the_others():
    """A damaged line loses one block of a finished pair; the other blocks stay with their pairs."""
    found = blocks([0.1] * 4 + [0.2] * 4 + [0.3] * 4, 4)
    del found[1]
    units = build_pairs.units(found, 4)
    assert log_ratios(units, *ARMS, Metric("wall")) == pytest.approx([0.1, 0.2, 0.3])


def test_failed_attempts_stay_and_do_not_count():
    """A crash of the treatment is still reported, and its pair is judged by the blocks that ended well."""
    records = []
    for index, block in enumerate(blocks([0.1] * 4, 2)):
        for attempt, ok in ((0, index != 1), (1, True))[: 2 if index == 1 else 1]:
            key = {"block": index, "attempt": attempt, "phase": "measure", "build": index // 2}
            for arm, runs in block.items():
                records += [run | key | {"type": "run", "arm": arm, "ok": ok, "why": None if ok else "killed"}
                            for run in runs]  # fmt: skip
            order = [arm for arm, runs in block.items() for _ in runs]
            records.append({"type": "block", **key, "ok": ok, "order": order, "disturbed": "load" if index else None})
    found = build_pairs.unit_records(records, 2)
    units = finished_blocks(found, "measure")
    assert [len(unit["new"]) for unit in units] == [4, 4]
    assert log_ratios(units, *ARMS, Metric("wall")) == pytest.approx([0.1, 0.1])
    assert len(failed_runs(found, "new")) == len(failed_runs(records, "new")) == 2
    assert [r["disturbed"] for r in found if r["type"] == "block" and r["ok"]] == ["load", "load"]


def test_a_header_of_builds_plans_them_as_blocks():
    spec = {"max-blocks": 60, "looks": 3, "alpha": ALPHA}
    header = {"spec": spec, "builds": {"each": 6, "pairs": [{}] * 10}}
    assert build_pairs.unit_header(header) == {"spec": spec | {"max-blocks": 10}}
    assert build_pairs.unit_header({"spec": {"max-blocks": 60}}) == {"spec": {"max-blocks": 60}}


def test_so_few_builds_that_three_looks_could_give_no_verdict_have_one():
    assert [len(build_pairs.plan_of(builds, 3, ALPHA).looks) for builds in (6, 7, 10)] == [1, 3, 3]
    header = {"spec": {"max-blocks": 60, "looks": 3, "alpha": ALPHA}, "builds": {"each": 10, "pairs": [{}] * 6}}
    assert build_pairs.unit_header(header)["spec"]["looks"] == 1
    plan = build_pairs.plan_of(6, 3, ALPHA)
    assert sequential_verdict([0.02, 0.021, 0.03, 0.022, 0.024, 0.028], plan, MARGIN, ALPHA) is Verdict.GO


@SIMULATED
@pytest.mark.parametrize("layout", [0.0, 0.005, 0.01, 0.03])
@pytest.mark.parametrize(("builds", "each", "looks"), [(6, 10, 1), (10, 6, 3), (12, 5, 3), (30, 2, 3)])
def test_layout_noise_gives_no_more_false_verdicts_than_alpha(layout, builds, each, looks, simulated):
    rng = np.random.default_rng([builds, looks, int(1000 * layout)])
    count = wrong(layout, 0.02, builds, each, looks, rng, clustered=True, simulated=simulated)
    assert count <= binom.ppf(0.9999, simulated, ALPHA)


@SIMULATED
@pytest.mark.parametrize(("layout", "at_least"), [(0.005, 0.10), (0.01, 0.30)])
def test_one_build_an_arm_gives_many(layout, at_least, simulated):
    """60 blocks of one pair of builds, each counted on its own, give many false verdicts. Several builds avoid this."""
    rng = np.random.default_rng(5)
    assert wrong(layout, 0.02, 1, 60, 3, rng, clustered=False, simulated=simulated) > at_least * simulated


@SIMULATED
def test_blocks_of_a_pair_taken_as_independent_give_too_many(simulated):
    """With six pairs, too: there are too many false verdicts if every block counts on its own."""
    count = wrong(0.01, 0.02, 6, 10, 3, np.random.default_rng(5), clustered=False, simulated=simulated)
    assert count > binom.ppf(0.9999, simulated, ALPHA)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 block is too few: at least 6 blocks", "1 build is too few: at least 6 builds"),
        ("a blocking call", "a blocking call"),
    ],
)
def test_a_sentence_counts_what_the_interval_rests_on(text, wanted):
    assert build_pairs.in_builds(text) == wanted


def test_a_new_run_has_one_build_of_each_side(here, fakes, tmp_path, store):
    """Specs of recorded runs keep the key, since their results rest on it."""
    path = tmp_path / "spec.toml"
    path.write_text(
        f'kind = "ab"\ncommand = ["{fakes.program}"]\ncontrol = "glibc"\ntreatment = "default"\nbuilds = 6\n'
    )
    answer = here("ab", path)
    assert answer.status == 2 and "one build a side" in answer.message() and not store.exists()
