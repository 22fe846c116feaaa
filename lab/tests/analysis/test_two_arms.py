"""The verdict on two arms from records, and the plan for an effect that is to be detected."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hakmem_lab.judge import fitness
from hakmem_lab.judge.analysis import arm_rows
from hakmem_lab.judge.statistics import further, power, verdict
from hakmem_lab.judge.statistics.means import ratio_of_means
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.two_arms import also_changed, decide, judged_row, means_of, means_row, shared
from hakmem_lab.judge.words import BESIDE
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.run import endings
from hakmem_lab.run.conduct import plan_detection

PLAN = Plan((20, 40))
SPEC = {"metric": "wall", "higher-is-better": False, "margin": 0.02, "alpha": 0.04, "guardrails": {}}


def header(**more):
    return {"kind": "ab", "spec": SPEC | more, "arms": []}


def run(wall, cpu):
    return {"wall_s": wall, "cpu_s": cpu, "rss_peak_kib": 1, "rss_mean_kib": 1, "metrics": {"wall": wall},
            "minor_faults": 0, "major_faults": 0}  # fmt: skip


def figures(seed=1, count=12):
    """wall[arm, block, run] and cpu[arm, block, run]."""
    return np.exp(np.random.default_rng(seed).normal(0, 0.02, (2, 2, count, 2))) * np.array(
        [[[[1.0]], [[0.97]]], [[[1.0]], [[1.04]]]]
    )


def blocks_of(wall, cpu):
    columns = [
        [[run(*pair) for pair in zip(*row, strict=True)] for row in zip(wall[arm], cpu[arm], strict=True)]
        for arm in (0, 1)
    ]
    return [{"c": c, "t": t} for c, t in zip(*columns, strict=True)]


def ratios(values):
    return np.log(values[0]).mean(axis=1) - np.log(values[1]).mean(axis=1)


@pytest.mark.parametrize("comparisons", [1, 4])
def test_the_verdict_its_guardrails_and_the_other_average_share_alpha(comparisons):
    wall, cpu = figures()
    alpha = 0.04 / comparisons
    words = {"comparisons": comparisons} if comparisons > 1 else {}
    found = decide(header(guardrails={"cpu": 0.05}), blocks_of(wall, cpu), ("c", "t"), PLAN, **words)
    rail = verdict.guardrail(ratios(cpu), 0.05, alpha, "cpu", PLAN)
    means = ratio_of_means(wall[0], wall[1], False, 1 - alpha)
    expected = verdict.decide(ratios(wall), 0.02, alpha, PLAN, [rail], means)
    assert found.interval.level == 1 - alpha
    assert (found.verdict, found.least) == (expected.verdict, expected.least)
    assert vars(found.interval) == pytest.approx(vars(expected.interval))
    assert [(one.name, one.limit, one.status) for one in found.guardrails] == [("cpu", 0.05, rail.status)]
    assert vars(found.guardrails[0].interval) == pytest.approx(vars(rail.interval))
    assert vars(found.means.ratio) == pytest.approx(vars(means.ratio), nan_ok=True)


def test_blocks_without_one_of_the_arms_do_not_count():
    blocks = blocks_of(*figures())
    others = [{"c": blocks[0]["c"]}, {"t": blocks[0]["t"]}, {"x": blocks[0]["c"]}]
    assert shared([*others, *blocks, *others], "c", "t") == blocks
    assert decide(header(), [*others, *blocks], ("c", "t"), PLAN).interval.n == 12


def test_higher_is_better_of_both_averages():
    wall, cpu = figures()
    blocks = blocks_of(wall, cpu)
    lower, higher = (decide(header(**{"higher-is-better": up}), blocks, ("c", "t"), PLAN) for up in (False, True))
    assert higher.interval.estimate == pytest.approx(-lower.interval.estimate)
    assert higher.means.ratio.estimate == pytest.approx(-lower.means.ratio.estimate)


def test_three_blocks_have_no_other_average():
    assert means_of(blocks_of(*figures())[:3], ("c", "t"), Metric("wall"), 0.9) is None


@pytest.mark.parametrize(
    ("metric", "name"), [(Metric("wall"), "wall"), (Metric("regex:(x)", title="blocks"), "blocks")]
)
def test_the_row_of_the_other_average(metric, name):
    means = means_of(blocks_of(*figures()), ("c", "t"), Metric("wall"), 0.9)
    ends = {
        key: pytest.approx(as_ratio(getattr(means.lasting, key.removeprefix("ci_"))))
        for key in ("estimate", "ci_low", "ci_high")
    }
    assert means_row(means, ("c", "t"), metric) == ends | {
        "name": "t against c", "metric": f"mean of {name}", "control": "c", "treatment": "t", "level": 0.9,
        "verdict": None, "runs": [24, 24], "far_off": [0, 0], "spread": list(means.spreads),
    }  # fmt: skip


@pytest.mark.parametrize(("sides", "share"), [(2, 1.0), (3, 0.5)])
def test_the_other_metrics_share_alpha_by_a_plan_of_their_own(sides, share):
    wall, cpu = figures()
    blocks = blocks_of(wall, cpu)
    head = header() | {"arms": [{"name": name} for name in "ctu"[:sides]]}
    decision = decide(head, blocks, ("c", "t"), PLAN, sides - 1)
    rows = also_changed(head, blocks, {"t": decision}, PLAN, ("wall", "cpu", "rss", "faults"), share)
    alpha = 0.04 / (sides - 1)
    parts = further.alphas(["cpu", "rss"], BESIDE, share * alpha, decision.verdict is not verdict.Verdict.INCONCLUSIVE)
    for row, name, d in zip(rows, ("cpu", "rss"), (ratios(cpu), np.zeros(12)), strict=True):
        expected = further.plan_of(PLAN).judged(d, parts[name]).interval.ratio()
        assert (row["metric"], row["control"], row["treatment"], row["level"]) == (name, "c", "t", 1 - alpha)
        assert (row["estimate"], row["ci_low"], row["ci_high"]) == pytest.approx(
            (expected.estimate, expected.low, expected.high)
        )


def test_the_row_of_a_verdict_has_the_facts_that_explain_it():
    wall, cpu = figures()
    rail = header(guardrails={"cpu": 0.001})
    found = decide(rail, blocks_of(wall, cpu), ("c", "t"), PLAN)
    ends = found.interval.row() | {"control": "c", "treatment": "t", "name": "t against c", "metric": "wall"}
    row = judged_row(found, ("c", "t"), "wall")
    assert {key: row[key] for key in ends} == pytest.approx(ends)
    narrow = found.equivalence.ratio()
    assert (row["equivalence_low"], row["equivalence_high"]) == pytest.approx((narrow.low, narrow.high))
    assert (row["verdict"], row["blocks"], row["least_blocks"]) == (str(found.verdict), 12, found.least)
    assert row["uncorrected"] == pytest.approx(as_ratio(found.plain))
    facts = ("at_least_margin", "torn", "mean_open", "consistent", "vetoed_by")
    assert [row[key] for key in facts] == [False, False, False, True, ["cpu"]]
    torn = judged_row(replace(found, torn=True, mean_open=True, consistent=False), ("c", "t"), "wall")
    assert [torn[key] for key in facts] == [False, True, True, False, ["cpu"]]
    narrow = replace(found.interval, low=found.interval.estimate, high=found.interval.estimate)
    row = judged_row(replace(found, equivalence=narrow), ("c", "t"), "wall")
    assert row["equivalence_low"] == row["equivalence_high"] == pytest.approx(row["estimate"])
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((ends["ci_low"], ends["ci_high"]))
    assert row["ci_low"] != pytest.approx(row["estimate"])


def test_metrics_that_the_blocks_lack_come_from_those_beside_them():
    """The blocks know the processor time alone, and eight more blocks, one by one, the wall time as well."""
    wall, cpu = figures()
    apart = [{name: [each | {"wall_s": None, "metrics": {}} for each in runs] for name, runs in block.items()}
             for block in blocks_of(wall, cpu)]  # fmt: skip
    beside = blocks_of(*figures(4, 8))
    head = header(metric="faults") | {"arms": [{"name": name} for name in "ct"]}
    decision = {"t": decide(header(metric="cpu"), apart, ("c", "t"), PLAN)}

    def rows(*more, **words):
        found = also_changed(head, apart, decision, PLAN, ("wall", "cpu"), *more, **words)
        return {row["metric"]: (row["estimate"], row.get("schedule")) for row in found}

    (alone,) = rows().items()
    both = rows(beside=beside)
    assert alone == ("cpu", pytest.approx((both["cpu"][0], None)))
    expected = further.plan_of(PLAN).judged(ratios(figures(4, 8)[0]), 0.02).interval.estimate
    assert both["wall"] == (pytest.approx(as_ratio(expected)), "one-by-one") and list(both) == ["wall", "cpu"]


def test_peak_memory_comes_from_blocks_one_by_one_where_there_are_some():
    """Runs that share a processor last longer, and an allocator then gives memory back before the peak."""

    def blocks(peak, rounds):
        return [
            {name: [run(1.0, 1.0) | {"value": 1.0, "rss_peak_kib": kib}] for name, kib in (("c", 1000), ("t", peak))}
        ] * rounds

    together, alone = blocks(1000, 8), blocks(1500, 8)
    head = header(metric="cpu") | {"arms": [{"name": name} for name in "ct"]}
    decision = {"t": decide(head, together, ("c", "t"), PLAN)}
    (row,) = also_changed(head, together, decision, PLAN, ("rss",), beside=alone)
    assert (row["estimate"], row["schedule"]) == (pytest.approx(1 / 1.5 - 1), "one-by-one")
    (row,) = also_changed(head, together, decision, PLAN, ("rss",))
    assert (row["estimate"], row.get("schedule")) == (pytest.approx(0.0), None)
    assert [row["rss_peak_kib"] for row in arm_rows(head, together, Metric("cpu"), alone)] == [1000, 1500]
    assert [row["rss_peak_kib"] for row in arm_rows(head, together, Metric("cpu"))] == [1000, 1000]


def test_the_figures_beside_a_verdict_have_all_of_their_alpha_where_nothing_is_said():
    blocks, head = blocks_of(*figures()), header() | {"arms": [{"name": name} for name in "ct"]}
    decision = {"t": decide(head, blocks, ("c", "t"), PLAN)}
    assert also_changed(head, blocks, decision, PLAN) == also_changed(head, blocks, decision, PLAN, share=1.0)
    assert also_changed(head, blocks, decision, PLAN) != also_changed(head, blocks, decision, PLAN, share=0.5)


class Session:
    """A session that records the calls it gets."""

    def __init__(self, detect=0.02, most=None, anytime=None, run_s=None, planned=False):
        self.head = header() | ({"anytime": anytime} if anytime is not None else {})
        self.file = SimpleNamespace(header=lambda: self.head, path=SimpleNamespace(parent="folder"))
        self.spec = SimpleNamespace(
            detect=detect, alpha=0.04, max_blocks=most or 60, model_fields_set={"max_blocks"} if most else set()
        )
        self.run_s, self.said, self.events, self.asked = run_s, [], [], []
        self.progress = SimpleNamespace(say=self.said.append)
        self.planned = planned

    def records(self):
        return [{"type": "event", "what": "plan", "blocks": 9}] if self.planned else []

    def runs_of_each(self, arms):
        return 2 if arms == 2 else 1

    def run_blocks(self, *words):
        self.asked.append(words)
        quiet, loud = figures(2, 6), figures(3, 6)
        return [
            {"c": a["c"], "t": a["t"], "u": [run(one["wall_s"] ** 3, 1.0) for one in b["t"]]}
            for a, b in zip(blocks_of(*quiet), blocks_of(*loud), strict=True)
        ]

    def event(self, what, text, **more):
        self.events.append((what, text, more))

    def tell(self, what, text, **more):
        self.event(what, text, **more)
        self.said.append(text)


def needed(sigma, effect=0.02, alpha=0.04, share=0.0):
    return power.planned_to_detect(sigma, effect, alpha, 1, share)


@pytest.mark.parametrize("given", [{"detect": None}, {"planned": True}])
def test_nothing_is_planned_twice_or_for_nothing(given):
    session = Session(**given)
    plan_detection(session, ["c", "t"])
    assert session.said == session.events == session.asked == []


@pytest.mark.parametrize("comparisons", [1, 3])
@pytest.mark.parametrize("anytime", [None, 0.35])
def test_the_plan_comes_from_the_last_aa(monkeypatch, comparisons, anytime):
    asked = []
    monkeypatch.setattr(fitness, "spread_of", lambda *words: asked.append(words) or (0.02, "the A/A r0"))
    session = Session(anytime=anytime)
    plan_detection(session, ["c", "t"], *([comparisons] if comparisons > 1 else []))
    count = needed(0.02, alpha=0.04 / comparisons, share=anytime or 0.0)
    text = f"to show 2 %: {count} blocks at most, by the A/A r0"
    assert asked == [("folder", session.head)] and session.asked == []
    assert (session.events, session.said) == ([("plan", text, {"blocks": count})], [text])


@pytest.mark.parametrize("names", [["c", "t", "u"], ["c", "u", "t"]])
def test_without_one_the_first_six_blocks_say_it_and_the_noisiest_arm_counts(monkeypatch, names):
    monkeypatch.setattr(fitness, "spread_of", lambda *_: None)
    session = Session()
    plan_detection(session, names)
    assert session.asked == [("measure", names, 6)]
    blocks = session.run_blocks()
    walls = {name: np.array([[one["wall_s"] for one in block[name]] for block in blocks]) for name in "ctu"}
    sigma = {name: power.spread(ratios((walls["c"], walls[name]))) for name in "tu"}
    count = needed(max(sigma.values()))
    assert sigma["u"] > sigma["t"] and count != needed(sigma["t"])
    text = f"to show 2 %: {count} blocks at most, by the first 6 blocks"
    assert session.said == ["the first 6 blocks say how many are needed", text]
    assert session.events == [("plan", text, {"blocks": count})]


def test_an_arm_that_has_left_the_first_blocks_says_nothing_of_the_noise(monkeypatch):
    """Arm u is the noisiest, but lacks the last block, so its noise does not count."""
    monkeypatch.setattr(fitness, "spread_of", lambda *_: None)
    session = Session()
    *whole, last = session.run_blocks()
    left = [*whole, {name: runs for name, runs in last.items() if name != "u"}]
    session.run_blocks = lambda *_: left
    plan_detection(session, ["c", "t", "u"])
    walls = {name: np.array([[one["wall_s"] for one in block[name]] for block in left]) for name in "ct"}
    count = needed(power.spread(ratios((walls["c"], walls["t"]))))
    assert [more for _, _, more in session.events] == [{"blocks": count}]


def test_the_ratios_that_are_judged_may_be_others_than_those_of_two_arms(monkeypatch):
    monkeypatch.setattr(fitness, "spread_of", lambda *_: pytest.fail("no A/A knows how they spread"))
    session, asked = Session(), []
    columns = [[0.01, 0.02, 0.04, 0.01, 0.03, 0.02], [0.1, -0.1, 0.05, 0.0, 0.02, -0.04]]
    plan_detection(session, ["c", "t"], columns_of=lambda blocks: asked.append(blocks) or columns)
    assert [len(blocks) for blocks in asked] == [6]
    text = f"to show 2 %: {needed(power.spread(columns[1]))} blocks at most, by the first 6 blocks"
    assert [text for _, text, _ in session.events] == [text]


@pytest.mark.parametrize(
    ("sigma", "given", "blocks", "more"),
    [
        (1e-6, {}, needed(1e-6), ""),
        (1e-6, {"most": 5}, 5, f"; {needed(1e-6)} would be needed for it, and max-blocks is 5"),
        (0.03, {"most": 10}, 10, f"; {needed(0.03)} would be needed for it, and max-blocks is 10"),
        (0.03, {"most": needed(0.03)}, needed(0.03), ""),
        (0.03, {"most": 1000}, needed(0.03), ""),
        (90.0, {}, 100_000, "; more than 100000 would be needed for it, and max-blocks is 100000"),
        (90.0, {"most": 40}, 40, "; more than 100000 would be needed for it, and max-blocks is 40"),
    ],
)
def test_no_more_blocks_than_were_allowed_and_what_would_be_needed(monkeypatch, sigma, given, blocks, more):
    monkeypatch.setattr(fitness, "spread_of", lambda *_: (sigma, "it"))
    session = Session(**given)
    plan_detection(session, ["c", "t"])
    assert session.events == [("plan", f"to show 2 %: {blocks} blocks at most, by it{more}", {"blocks": blocks})]


@pytest.mark.parametrize(("names", "runs"), [(["c", "t"], 4), (["c", "t", "u"], 3)])
def test_the_time_that_it_takes_is_said(monkeypatch, names, runs):
    """A block of two arms has four runs; a block of more arms has one run for each."""
    monkeypatch.setattr(fitness, "spread_of", lambda *_: (0.02, "it"))
    session = Session(run_s=7.0)
    plan_detection(session, names)
    assert session.said[0].endswith(f"by it, about {endings.duration(needed(0.02) * runs * 7.0)}")
