"""A latency run that is judged early: how often it errs, how soon it ends, and which rule it applies."""

import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.errors import LabError

_found = importlib.util.spec_from_file_location(
    "noise_kinds", Path(__file__).parents[1] / "statistics" / "noise_kinds.py"
)
noise_kinds = importlib.util.module_from_spec(_found)
_found.loader.exec_module(noise_kinds)

ALPHA, MARGIN, BLOCKS, REQUESTS = 0.05, 0.02, 24, 1000
KINDS = ["normal", "heavy tails", "drift", "two modes", "neighbours alike", "rare and slow"]


def at_most(simulations, share):
    return binom.ppf(0.999, simulations, share)


def requests_of(rng, kind, simulations, blocks, effect=0.0):
    """Logs of response times of (control, treatment), each as [simulation, block, request].

    A block is ABBA or BAAB; an arm's two runs in it are joined. The noise of a run shifts all of its requests. effect:
    by how much the treatment's times are shorter.
    """
    noise = noise_kinds.KINDS[kind](rng, simulations, 4 * blocks).reshape(simulations, blocks, 4, 1)
    runs = noise + rng.normal(0, 0.15, (simulations, blocks, 4, REQUESTS // 2)).astype(np.float32)
    outer, inner = (runs[:, :, pair].reshape(simulations, blocks, -1) for pair in ([0, 3], [1, 2]))
    tossed = rng.random((simulations, blocks, 1)) < 0.5
    return np.where(tossed, outer, inner), np.where(tossed, inner, outer) - effect


def block_log_ratios(arms, q=0.99):
    """Log-ratios of each block's own percentile; positive if the treatment's is lower."""
    place = int(np.ceil(q * REQUESTS)) - 1
    control, treatment = (np.partition(arm, place, axis=-1)[..., place] for arm in arms)
    return control - treatment


@pytest.mark.parametrize("rounds", [1, pytest.param(25, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_arms_are_told_apart_in_alpha_of_the_runs_however_often_one_looks(kind, rounds):
    """Judges the blocks' own percentiles after every block; `widened` allows no claim that these do not show."""
    from hakmem_lab.judge.statistics.paired import as_log
    from hakmem_lab.judge.statistics.plan import Plan

    simulations, rng, claimed = 120, np.random.default_rng(41), 0
    plan = Plan((BLOCKS,))
    for _ in range(rounds):
        for row in block_log_ratios(requests_of(rng, kind, simulations, 2 * BLOCKS)):
            claimed += any(side.any() for side in plan.shown(row.astype(float), ALPHA, as_log(MARGIN))[:2])
    assert claimed <= at_most(rounds * simulations, ALPHA)


@pytest.mark.parametrize("simulations", [400, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blocks", [12, 24])
def test_equal_arms_are_told_apart_in_alpha_of_the_runs_at_planned_looks(kind, blocks, simulations):
    """Blocks with too few requests: an interval excludes 0 only if the sign-flip test does so at a look's level, or if
    the bets do. The bets are read after every block, even if the run goes on to twice as many blocks."""
    from hakmem_lab.judge.statistics.plan import Bets
    from hakmem_lab.judge.statistics.pooled import flip_p_of
    from hakmem_lab.kinds.latency.verdict import of_blocks

    law = of_blocks(blocks)
    d = noise_kinds.blocks(kind, np.random.default_rng(42), simulations, 2 * blocks)
    claimed = np.zeros(simulations, dtype=bool)
    for count, level, _ in law.seldom.levels(ALPHA):
        claimed |= flip_p_of(d[:, :count]) <= 1 - level
    enough = -np.log(ALPHA * law.seldom.share / 2)
    claimed |= [max(Bets(row).log_capital(0.0, above)[-1] for above in (True, False)) >= enough for row in d]
    assert claimed.sum() <= at_most(simulations, ALPHA)


@dataclass
class Arms:
    """Two arms of one simulated run, with the methods that the rule calls."""

    requests: tuple
    count: int

    @property
    def blocks(self):
        return range(self.count)

    def log_ratios(self, _):
        return block_log_ratios([arm[: self.count] for arm in self.requests]).astype(float)

    @cached_property
    def _edges(self):
        return np.linspace(-1.5, 2, 701)

    def against(self, _, levels, count=None):
        from hakmem_lab.judge.statistics.pooled import compared

        return compared(*self._sampled(count), 0.99, levels)

    def _sampled(self, count=None):
        from hakmem_lab.judge.statistics.pooled import Pool, Sampled

        values = np.exp(self._edges[1:])
        for arm in self.requests:
            rows = [np.histogram(block, self._edges)[0] for block in arm[: count or self.count]]
            yield Sampled.of(Pool(values, np.array(rows, dtype=float)), [0.99])

    def spread(self, _):
        from hakmem_lab.judge.statistics.pooled import spread

        return spread(*self._sampled(), 0.99)

    def beyond(self, _, count=None):
        return 0.01 * REQUESTS * (count or self.count)


def verdict_after(law, requests, count):
    """(verdict, interval) after `count` blocks; None if the rule does not judge at that count."""
    from hakmem_lab.judge.statistics.paired import as_log
    from hakmem_lab.judge.statistics.verdict import judge

    pair = Arms(requests, count)
    if not law.may_settle(pair, "p99", as_log(MARGIN), ALPHA):
        return None
    interval, equivalence = law.intervals(pair, "p99", ALPHA)
    return str(judge(interval, equivalence, as_log(MARGIN))), interval


@pytest.mark.parametrize("simulations", [4, pytest.param(12, marks=pytest.mark.long)])
@pytest.mark.parametrize("by_block", [["p99"], []])
def test_five_percent_are_found_before_the_plan_is_used(by_block, simulations):
    from hakmem_lab.kinds.latency.verdict import of_blocks

    effect, law = np.log(1.05), of_blocks(BLOCKS, by_block)
    control, treatment = requests_of(np.random.default_rng(43), "normal", simulations, BLOCKS, effect)
    ends, words, missed = [], [], 0
    for requests in zip(control, treatment, strict=True):
        for count in range(1, BLOCKS + 1):
            found = verdict_after(law, requests, count)
            if found and found[0] != "INCONCLUSIVE":
                words.append(found[0])
                missed += not found[1].low <= effect <= found[1].high
                break
        ends.append(count)
    assert np.mean(ends) < 0.85 * BLOCKS
    assert words.count("GO") >= 0.8 * simulations and "NO-GO" not in words
    assert missed <= at_most(simulations, ALPHA)


def test_more_blocks_than_were_planned_settle_what_the_looks_left_open():
    """After the last look its bounds stay, and the bets can narrow them; a verdict needs all requests to agree, too."""
    from hakmem_lab.kinds.latency.verdict import of_blocks

    law, effect = of_blocks(BLOCKS // 2), np.log(1.04)
    control, treatment = requests_of(np.random.default_rng(47), "normal", 1, 5 * BLOCKS, effect)
    requests = control[0], treatment[0]
    word, at_the_end = verdict_after(law, requests, BLOCKS // 2)
    assert word == "INCONCLUSIVE"
    later = {count: verdict_after(law, requests, count) for count in range(BLOCKS, 5 * BLOCKS, BLOCKS)}
    assert "GO" in [found[0] for found in later.values()]
    assert all(found[1].low >= at_the_end.low and found[1].high <= at_the_end.high for found in later.values())
    assert all(found[1].low <= effect <= found[1].high for found in later.values())


def test_what_few_blocks_have_holds_back_what_most_blocks_show():
    """Nine blocks of ten are 10 % better, the tenth stalls. The blocks show an improvement, but all requests do not."""
    from hakmem_lab.judge.statistics.plan import Plan
    from hakmem_lab.kinds.latency.verdict import of_blocks

    control, treatment = requests_of(np.random.default_rng(44), "normal", 1, BLOCKS, 0.1)
    treatment[0, ::10, :120] += 1.0
    pair = Arms((control[0], treatment[0]), BLOCKS)
    alone = Plan((BLOCKS,)).judged(pair.log_ratios("p99"), ALPHA).interval
    interval, _ = of_blocks(BLOCKS, ["p99"]).intervals(pair, "p99", ALPHA)
    assert alone.low > 0 > interval.low and interval.high >= alone.high


def test_a_look_before_the_end_needs_requests_beyond_the_percentile():
    from hakmem_lab.kinds.latency.verdict import of_blocks

    law = of_blocks(12)
    assert law.seldom.looks == (6, 9, 12)
    control, treatment = requests_of(np.random.default_rng(45), "normal", 1, 12, 1.0)
    pair = Arms((control[0], treatment[0]), 9)
    assert law.intervals(pair, "p99", ALPHA)[0].low > 0
    pair.beyond = lambda *_: 9
    assert law.intervals(pair, "p99", ALPHA)[0].low == -np.inf


def spec(command, **keys):
    from hakmem_lab.kinds.latency import Spec
    from hakmem_lab.plan.model import build

    words = [str(word) for word in command]
    values = {"kind": "latency", "command": words, "allocators": ["glibc", "glibc,TAIL=100000"], "seed": 1}
    return build(Spec, values | keys, "s.toml")


def test_a_run_ends_when_its_verdict_stands_and_goes_on_when_asked(printer, context, only_run, here):
    from hakmem_lab.kinds.latency import latency

    result = latency.run(spec([printer], **{"max-blocks": 20}), context())
    assert (result["verdict"], result["blocks"], result["final"]) == ("NO-GO", 8, True)
    assert result["headline"].startswith("glibc,TAIL=100000 p99 2.0 × as high as glibc [")
    records = list(only_run().records())
    assert [r["percentiles"][:4] for r in records if r.get("what") == "by-block"] == [["p50", "p90", "p99", "p99.9"]]
    more = here("resume", "--more", "2", "--quiet", "--json", "-").result()
    assert (more["verdict"], more["blocks"], more["final"]) == ("NO-GO", 10, True)


def test_a_percentile_with_few_requests_a_block_has_planned_looks_and_goes_on_when_asked(
    printer, context, only_run, here
):
    from hakmem_lab.judge.planning import check_more
    from hakmem_lab.kinds.latency import latency

    made = spec([printer], metric="p99.99", **{"max-blocks": 16})
    result = latency.run(made, context())
    assert (result["verdict"], result["final"]) == ("NO-GO", True)
    assert result["blocks"] == 12  # half of the blocks have too few requests beyond p99.99
    records = list(only_run().records())
    before = [{key: value for key, value in record.items() if key != "reserve"} for record in records]
    with pytest.raises(LabError, match="cannot be prolonged"):
        check_more(only_run().header(), 2, before)
    more = here("resume", "--more", "3", "--quiet", "--json", "-").result()
    assert (more["verdict"], more["blocks"], more["final"]) == ("NO-GO", 15, True)
    assert more["comparisons"][0]["blocks"] == 15


def test_runs_that_are_all_alike_end_with_their_verdict(modelled, context):
    from hakmem_lab.kinds.latency import latency

    program = modelled(lambda run: {"stdout": "response 1000 1000\n"})
    result = latency.run(spec([program], **{"max-blocks": 20}), context())
    assert (result["verdict"], result["final"]) == ("NEUTRAL", True) and result["blocks"] < 20


def test_a_settled_arm_leaves_and_the_others_go_on(modelled, context, only_run):
    from hakmem_lab.kinds.latency import latency

    def model(run):
        tail = 48000 + int(run.argv[1]) % 9 * 500 if run.env.get("TAIL") == "1" else run.env.get("TAIL", 50000)
        return {"stdout": f"response 1000 9850\nresponse {tail} 150\n"}

    program = modelled(model)
    arms = ["glibc", "glibc,TAIL=200000", "glibc,TAIL=1"]
    made = spec([program, "{seed}"], allocators=arms, **{"max-blocks": 14, "margin": "1%"})
    result = latency.run(made, context())
    rows = {row["treatment"]: row for row in result["comparisons"] if row["verdict"]}
    assert rows[arms[1]]["verdict"] == "NO-GO" and rows[arms[1]]["blocks"] < result["blocks"]
    orders = [set(record["order"]) for record in only_run().records() if record["type"] == "block"]
    assert len(orders[0]) == 3 and arms[1] not in orders[-1]


def test_a_run_without_a_promised_rule_is_judged_at_its_end_alone(printer, context, only_run):
    from hakmem_lab.kinds.latency import latency

    latency.run(spec([printer], **{"max-blocks": 20}), context())
    header = {key: value for key, value in only_run().header().items() if key != "anytime"}
    early = latency.analyse(header, list(only_run().records()))
    assert early["verdict"] is None and early["answer"] == "No verdict yet: 8 of 20 planned blocks."
    header["spec"] |= {"max-blocks": 8}
    late = latency.analyse(header, list(only_run().records()))
    assert late["verdict"] == "NO-GO" and late["final"]


def test_the_blocks_are_planned_by_their_own_percentiles(printer, context, only_run):
    from hakmem_lab.kinds.latency import latency

    result = latency.run(spec([printer], detect="10%", **{"max-blocks": 20}), context())
    (plan,) = [record for record in only_run().records() if record.get("what") == "plan"]
    assert "by the first 6 blocks" in plan["text"] and plan["blocks"] == 7
    assert (result["verdict"], result["blocks"], result["max_blocks"]) == ("NO-GO", 7, 7)


def test_an_estimate_that_its_own_luck_ended_is_nearer_to_nothing():
    """The estimate moves towards 0 at the block or planned look that ends the run, not later or at the last look."""
    from hakmem_lab.kinds.latency import verdict
    from hakmem_lab.kinds.latency.verdict import of_blocks

    law = of_blocks(BLOCKS, ["p99"])
    asked = verdict.Asked({"metric": "p99", "margin": MARGIN, "guardrails": {}}, law, ALPHA)
    arms = [arm[0] for arm in requests_of(np.random.default_rng(46), "normal", 1, BLOCKS, 0.06)]
    end = next(n for n in range(1, BLOCKS) if (found := verdict_after(law, arms, n)) and found[0] == "GO")

    def shown(count, rule):
        pair, before = Arms(arms, count), Arms(arms, count - 1)
        interval = rule.intervals(pair, "p99", ALPHA)[0]
        moved = verdict.moved(verdict.Asked(asked.spec, rule, ALPHA), pair, before, interval)
        return interval, moved

    interval, moved = shown(end, law)
    assert max(0.0, interval.low) <= moved.estimate < interval.estimate
    interval, moved = shown(end + 2, law)
    assert moved == interval
    planned = of_blocks(BLOCKS)
    end = next(n for n in planned.seldom.looks if verdict_after(planned, arms, n)[0] == "GO")
    assert end < BLOCKS
    interval, moved = shown(end, planned)
    assert max(0.0, interval.low) <= moved.estimate < interval.estimate
    interval, moved = shown(BLOCKS, planned)
    assert moved == interval


@pytest.mark.parametrize("effect", [0.5, 1.0])
def test_estimates_of_planned_looks_are_corrected_for_their_luck(effect):
    """Averages over runs that end at the first look that shows the effect. Uncorrected, they are 3 to 5 % too large."""
    from hakmem_lab.judge.statistics.paired import paired_interval
    from hakmem_lab.judge.statistics.stopping import corrected_at_look
    from hakmem_lab.kinds.latency.verdict import of_blocks

    plan, simulations, plain, corrected = of_blocks(BLOCKS).seldom, 400, [], []
    for d in np.random.default_rng(48).normal(effect, 1, (simulations, BLOCKS)):
        for count, level, _ in plan.levels(ALPHA):
            if paired_interval(list(d[:count]), level).low > 0:
                break
        mean, sigma = d[:count].mean(), d[:count].std(ddof=1)
        plain.append(mean)
        corrected.append(corrected_at_look(mean, sigma, plan, 0.05, ALPHA) if count < BLOCKS else mean)
    error = 3 * np.std(plain) / simulations**0.5
    assert np.mean(plain) > 1.02 * effect
    assert abs(np.mean(corrected) - effect) < min(error, abs(np.mean(plain) - effect))
