"""Raw numbers of the documents that the project grew from (the seeds), and the verdicts that these numbers support.

In these documents, all runs of one configuration were made before those of the next. These tests pair the runs by
index, which is the best that such data allow. The runs were not interleaved, so even a "significant" result may be a
shift of the machine.
"""

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from hakmem_lab.judge.statistics.aa import coefficient_of_variation
from hakmem_lab.judge.statistics.drift import theil_sen
from hakmem_lab.judge.statistics.factorial import Interaction, classify_interaction, effects, simple_effects
from hakmem_lab.judge.statistics.paired import (
    as_log,
    as_ratio,
    block_log_ratio,
    hodges_lehmann,
    paired_interval,
    rate_interval,
    select_best,
    simultaneous_intervals,
)
from hakmem_lab.judge.statistics.verdict import Verdict, decide

SEEDS = tomllib.loads((Path(__file__).parent / "seed_data.toml").read_text(encoding="utf-8"))
NAMES = ["C4", "C5C6"]


def throughput_blocks(control, treatment):
    return [block_log_ratio([c], [t], higher_is_better=True) for c, t in zip(control, treatment, strict=True)]


def matrix():
    return np.log(np.column_stack([SEEDS["phase_76_2"][cell] for cell in "ABCD"]).astype(float))


def interaction_of(cells, **options):
    return effects(cells, NAMES, **options)[2].interval


def test_phase_76_2_both_classes_together_are_go():
    decision = decide(throughput_blocks(SEEDS["phase_76_2"]["A"], SEEDS["phase_76_2"]["D"]))
    assert decision.verdict is Verdict.GO
    assert as_ratio(decision.interval.estimate) == pytest.approx(0.0703, abs=2e-4)


def test_phase_76_2_simple_effects_are_the_published_deltas():
    found = {effect.name: as_ratio(effect.interval.estimate) for effect in simple_effects(matrix(), NAMES)}
    published = {"C4 while C5C6 is off": -0.0008, "C5C6 while C4 is off": 0.0563, "C4+C5C6": 0.0705}
    assert {name: found[name] for name in published} == pytest.approx(published, abs=5e-4)


def test_phase_76_2_c4_alone_is_no_regression_and_with_the_others_is_go():
    cells = SEEDS["phase_76_2"]
    alone, on_top = (decide(throughput_blocks(cells[off], cells[on])) for off, on in ("AB", "CD"))
    assert alone.verdict is Verdict.INCONCLUSIVE
    assert on_top.verdict is Verdict.GO
    assert as_ratio(on_top.interval.estimate) == pytest.approx(0.0126, abs=1e-4)


def test_phase_76_2_super_additive_is_not_shown():
    """Judged alone, the contrast is just shown at 95 %; as one of the three contrasts of the matrix, it is not."""
    alone = interaction_of(matrix())
    assert alone.excludes_zero()
    assert as_ratio(alone.low) < 1e-4
    together = interaction_of(matrix(), simultaneous=True)
    assert classify_interaction(together) is Interaction.NOT_SHOWN


def test_phase_76_2_super_additive_depends_on_an_arbitrary_pairing():
    """Runs that were not interleaved have no natural pairing, and other pairings change the answer."""
    rng = np.random.default_rng(121)
    answers = [classify_interaction(interaction_of(rng.permuted(matrix(), axis=0))) for _ in range(400)]
    share = answers.count(Interaction.SUPER_ADDITIVE) / len(answers)
    assert 0.2 < share < 0.8


def test_phase_75_3_averages_give_the_opposite_interaction():
    (interaction,) = (effects(np.log([[SEEDS["phase_75_3_m"][cell] for cell in "ABCD"]]), ["C5", "C6"])[2],)
    assert as_ratio(interaction.interval.estimate) == pytest.approx(-0.0183, abs=2e-4)
    assert classify_interaction(interaction.interval) is Interaction.NOT_SHOWN
    assert as_ratio(interaction_of(matrix()).estimate) > 0.01


def test_phase_77_1_plus_0_40_percent_is_not_no_go():
    decision = decide(throughput_blocks(SEEDS["phase_77_1"]["off"], SEEDS["phase_77_1"]["on"]))
    assert np.mean(SEEDS["phase_77_1"]["on"]) / np.mean(SEEDS["phase_77_1"]["off"]) - 1 == pytest.approx(
        0.0040, abs=1e-4
    )
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.interval.low < 0 < decision.interval.high


def test_phase_32_sign_says_which_arm_is_better():
    """The seed printed −0.46 %, but with the counter compiled in (treatment) the median was 0.46 % faster."""
    median_ratio = block_log_ratio(
        [np.median(SEEDS["phase_32"]["compiled_out"])],
        [np.median(SEEDS["phase_32"]["compiled_in"])],
        higher_is_better=True,
    )
    assert as_ratio(median_ratio) == pytest.approx(+0.0046, abs=5e-5)
    decision = decide(throughput_blocks(SEEDS["phase_32"]["compiled_out"], SEEDS["phase_32"]["compiled_in"]))
    assert decision.interval.estimate > 0
    assert decision.verdict is Verdict.INCONCLUSIVE
    seconds = decide(
        [
            block_log_ratio([1 / c], [1 / t], False)
            for c, t in zip(SEEDS["phase_32"]["compiled_out"], SEEDS["phase_32"]["compiled_in"], strict=True)
        ]
    )
    assert seconds.interval.estimate == pytest.approx(decision.interval.estimate)


@pytest.mark.parametrize("delta", [-0.0046, +0.0053, +0.0040, +0.0032, -0.0007, +0.0071])
@pytest.mark.parametrize("spread", [0.0001, 0.002, 0.02])
def test_less_than_the_margin_is_never_go_or_no_go(delta, spread):
    """Phase 32 called −0.46 % NEUTRAL, phase 60 NO-GO; phase 26B called +0.53 % GO, and 77-1 +0.40 % NO-GO."""
    half = np.random.default_rng(122).normal(0, spread, 15)
    decision = decide(np.concatenate([half, -half]) + as_log(delta))
    assert as_ratio(decision.interval.estimate) == pytest.approx(delta, abs=1e-9)
    assert decision.verdict in {Verdict.NEUTRAL, Verdict.INCONCLUSIVE}


def test_phase_23_winner_of_nine_is_a_selection_not_a_result():
    default = SEEDS["phase_23_averages_m"]["All_128"]
    columns = {
        name: [block_log_ratio([default], [value], higher_is_better=True)]
        for name, value in SEEDS["phase_23_averages_m"].items()
        if name != "All_128"
    }
    winner = select_best(columns)
    assert winner == "Hot_2048"
    assert as_ratio(hodges_lehmann(columns[winner])) == pytest.approx(0.062, abs=5e-4)
    assert np.mean(SEEDS["phase_23_repeated_m"]["Hot_2048"]) / default - 1 == pytest.approx(-0.041, abs=5e-4)
    repeated = [
        block_log_ratio([default], [value], higher_is_better=True) for value in SEEDS["phase_23_repeated_m"]["Hot_2048"]
    ]
    confirmation = decide(repeated)
    assert confirmation.interval.estimate < 0
    assert confirmation.verdict is Verdict.INCONCLUSIVE
    assert confirmation.interval.n < confirmation.least


def test_phase_23_three_runs_support_no_ranking():
    """With three blocks of each arm, no simultaneous interval can exclude 0, whatever the numbers are."""
    columns = {name: np.log([value, value, value]) for name, value in SEEDS["phase_23_averages_m"].items()}
    assert not any(interval.excludes_zero() for interval in simultaneous_intervals(columns).values())


@pytest.mark.parametrize(("peer", "percent"), [("mimalloc", 48.88), ("system", 69.51), ("jemalloc", 61.58)])
def test_phase_48_ratios_of_one_session(peer, percent):
    decision = decide(throughput_blocks(SEEDS["phase_48"][peer], SEEDS["phase_48"]["hakmem"]))
    assert decision.verdict is Verdict.NO_GO
    assert 100 * math.exp(decision.interval.estimate) == pytest.approx(percent, abs=0.2)
    assert decision.interval.low < math.log(percent / 100) < decision.interval.high


def test_phase_48_jemalloc_beats_the_system_s_malloc():
    assert decide(throughput_blocks(SEEDS["phase_48"]["system"], SEEDS["phase_48"]["jemalloc"])).verdict is Verdict.GO


def test_phase_48_another_day_s_baseline_moves_the_milestone():
    """These runs reach 50 % of mimalloc as measured on another day, but clearly not of mimalloc on the same day."""
    same_day = paired_interval(throughput_blocks(SEEDS["phase_48"]["mimalloc"], SEEDS["phase_48"]["hakmem"]))
    assert same_day.high < math.log(0.50)
    other_day = [
        block_log_ratio([1e6 * SEEDS["phase_47_m"]["mimalloc"]], [run], True) for run in SEEDS["phase_48"]["hakmem"]
    ]
    assert paired_interval(other_day).estimate > math.log(0.50)


def test_phase_77_1_ratio_of_89_percent_came_from_another_baseline():
    """The seed gave the Phase 76-2 build "89.2 % of mimalloc", but it has 43.8 % of mimalloc's rate in Phase 48."""
    ratio = np.mean(SEEDS["phase_76_2"]["D"]) / np.mean(SEEDS["phase_48"]["mimalloc"])
    assert ratio == pytest.approx(0.438, abs=0.001)
    shift = {
        name: block_log_ratio([SEEDS["phase_47_m"][name]], [np.mean(SEEDS["phase_48"][name]) / 1e6], True)
        for name in ("hakmem", "mimalloc", "system")
    }
    assert as_ratio(shift["mimalloc"] - shift["hakmem"]) > 0.03
    assert as_ratio(shift["system"] - shift["hakmem"]) > 0.05


def test_phase_48_syscall_budget_was_missed():
    """The seed called 18 calls in 200 million operations a pass, although the budget was 1e-8 per operation."""
    syscalls = SEEDS["phase_48_syscalls"]
    rate = rate_interval(syscalls["calls"], syscalls["operations"])
    assert rate.estimate == pytest.approx(9e-8)
    assert rate.low > 5 * syscalls["budget_per_operation"]


def test_phase_59_stability_is_not_a_property_of_an_allocator():
    """Phase 59 called hakmem 2.68 times steadier than mimalloc, but in the runs of Phase 48 it is less steady."""
    assert SEEDS["phase_59_variation"]["mimalloc"] / SEEDS["phase_59_variation"]["hakmem"] == pytest.approx(
        2.67, abs=0.01
    )
    hakmem, mimalloc = (coefficient_of_variation(SEEDS["phase_48"][name]) for name in ("hakmem", "mimalloc"))
    assert (hakmem, mimalloc) == pytest.approx((0.0122, 0.0111), abs=1e-4)
    assert hakmem > mimalloc


def test_phase_57_short_processes_cannot_show_a_leak():
    """36 processes of 8.5 s do not show a leak of 12 MiB/h; a single process of the same total time does."""
    rng = np.random.default_rng(123)
    leak_mib_per_s = 12 / 3600
    noise = lfilter([1], [1, -0.7], rng.normal(0, 0.02, 400))
    one_process_s = np.arange(306.0)
    one = theil_sen(one_process_s, 33 + leak_mib_per_s * one_process_s + noise[:306])
    assert one.low > 0 and one.low <= leak_mib_per_s <= one.high
    final_rss_mib = 33 + leak_mib_per_s * 8.5 + noise[-36:]
    many = theil_sen(100.0 * np.arange(36), final_rss_mib)
    assert many.low <= 0 <= many.high
    assert many.high < leak_mib_per_s
