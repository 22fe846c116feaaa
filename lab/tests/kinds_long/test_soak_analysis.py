"""Made-up samples with known slopes and phases give these slopes and phases, and the right verdicts."""

import numpy as np
import pytest

MIB_PER_H = 1024 / 3600  # KiB a second
LEVELS = {"small": 20_000.0, "large": 90_000.0, "mixed": 50_000.0}


def make(n=900, slope_mib_h=0.0, noise_kib=40.0, phase_s=0, warm_up_s=0, seed=1, segment=0, t0=0.0, drift_per_s=0.0):
    """Samples of one process, one a second; phase_s: each phase's length, 0: no phases."""
    rng = np.random.default_rng(seed)
    names, rows = list(LEVELS), []
    for i in range(n):
        phase = names[i // phase_s % len(names)] if phase_s else None
        rss = LEVELS.get(phase, 50_000.0) + slope_mib_h * MIB_PER_H * i + rng.normal(0, noise_kib)
        if phase:  # a transient at the start of each phase
            rss += 8_000 * np.exp(-(i % phase_s) / 5)
        if i < warm_up_s:
            rss -= 30_000 * (1 - i / warm_up_s) + 2_000
        rows.append(
            {
                "type": "sample", "segment": segment, "t_s": t0 + i + 0.5, "rss_kib": rss, "pss_kib": rss,
                "exact": True, "threads": 5, "threads_started": 5 + i // 10, "cpu_s": i * 0.9, "minor_faults": i,
                "major_faults": 0,
                "operations": 1000 * i, "ops_per_s": 1000.0 * (1 + drift_per_s * i) + rng.normal(0, 5), "phase": phase,
                "line_phase": phase, "live_kib": 10_000.0, "p50_us": 1.0, "p99_us": 5.0, "p999_us": 40.0 + (i == 77),
            }
        )  # fmt: skip
    return rows


def ended(block=0, ok=True, why=None, **more):
    return {"type": "run", "block": block, "arm": "glibc", "ok": ok, "why": why, "wall_s": 900.0, "cpu_s": 800.0,
            "rss_peak_kib": 99_000, "minor_faults": 10, "major_faults": 0, "ended_by_itself": False} | more  # fmt: skip


@pytest.fixture
def analyse(soak_header):
    from hakmem_lab.kinds.soak import soak

    return lambda records, **keys: soak.analyse(soak_header(**keys), records)


def test_flat_memory_passes(analyse, shown):
    result = analyse([*make(), ended()])
    soak = result["soak"]
    assert result["verdict"] == "GO" and soak["passed"] is True
    assert soak["slope_low"] <= 0 <= soak["slope_high"] <= 1.0
    assert soak["duration_s"] == pytest.approx(899.5) and soak["warm_up_s"] == 0
    assert result["arms"][0]["rss_peak_kib"] == 99_000
    shown(result)


def test_a_leak_is_found_and_quantified(analyse):
    result = analyse([*make(slope_mib_h=12.0), ended()])
    soak = result["soak"]
    assert result["verdict"] == "NO-GO" and soak["passed"] is False
    assert soak["slope_low"] <= 12.0 <= soak["slope_high"]
    assert soak["slope_low"] > 11.0 and soak["slope_high"] < 13.0
    assert "more than the budget" in result["answer"]


@pytest.mark.parametrize("slope", [0.0, 12.0])
def test_phases_neither_hide_nor_feign_a_leak(analyse, slope):
    result = analyse([*make(n=1800, slope_mib_h=slope, phase_s=60), ended()], budget=4.0)
    soak = result["soak"]
    assert soak["slope_low"] <= slope <= soak["slope_high"]
    assert result["verdict"] == ("NO-GO" if slope else "GO")
    assert [phase["name"] for phase in soak["phases"]] == ["small", "large", "mixed"] * 10
    assert soak["phases"][1]["start_s"] == 60.5
    assert soak["change_points"] == []


def test_a_cycle_of_phases_that_never_came_back_says_nothing(analyse):
    result = analyse([*make(n=180, phase_s=60), ended()])
    assert result["verdict"] == "INCONCLUSIVE" and result["soak"]["rss_slope_mib_per_h"] is None
    assert "no phase came back" in result["answer"]


def test_a_phase_that_takes_most_of_the_time_is_judged_alone(analyse):
    samples = make(n=900, slope_mib_h=12.0)
    for i, sample in enumerate(samples):
        sample["phase"] = sample["line_phase"] = "load" if i < 100 else "serve"
        sample["rss_kib"] -= 30_000 if i < 100 else 0
    soak = analyse([*samples, ended()])["soak"]
    assert soak["warm_up_s"] == pytest.approx(100)
    assert soak["slope_low"] <= 12.0 <= soak["slope_high"]


def test_warm_up_is_found_and_left_out(analyse):
    soak = analyse([*make(warm_up_s=120), ended()])["soak"]
    assert 90 <= soak["warm_up_s"] <= 300
    assert soak["passed"] is True


def test_a_new_level_without_a_phase_is_a_change_point(analyse):
    samples = make()
    for sample in samples[600:]:
        sample["rss_kib"] += 3_000
    found = analyse([*samples, ended()])["soak"]["change_points"]
    assert any(abs(at - 600.5) <= 5 for at in found)


def test_throughput_that_sags_is_quantified(analyse):
    soak = analyse([*make(drift_per_s=-1e-5), ended()])["soak"]
    assert soak["drift_high"] < 0
    assert soak["throughput_drift_percent_per_h"] == pytest.approx(-3.6, abs=0.4)


def test_too_short_is_inconclusive_and_says_how_long_is_needed(analyse):
    result = analyse([*make(n=120), ended()])
    assert result["verdict"] == "INCONCLUSIVE" and result["soak"]["passed"] is None
    assert result["answer"].startswith("Too short to say") and "3 min 45 s" in result["answer"]


def test_too_noisy_is_inconclusive_and_says_how_long_would_do(analyse):
    result = analyse([*make(n=600, noise_kib=9_000), ended()])
    assert result["verdict"] == "INCONCLUSIVE"
    assert result["answer"].startswith("Too noisy to say") and "twice the time would likely narrow" in result["answer"]


def test_no_slope_across_a_restart(analyse):
    # Each process is flat, the second on a much higher level. A slope across both would look like a leak.
    high = make(n=400, segment=1, t0=500, seed=2)
    for sample in high:
        sample["rss_kib"] += 40_000
    result = analyse([*make(n=500), ended(ok=False, why="interrupted"), *high, ended(block=1)])
    soak = result["soak"]
    assert result["verdict"] == "GO" and abs(soak["rss_slope_mib_per_h"]) < 1
    assert [part["segment"] for part in soak["segments"]] == [0, 1]
    assert soak["segment"] == 0 and soak["duration_s"] == pytest.approx(899.5)
    assert any("2 processes" in text and "across a restart" in text for text in result["warnings"])
    assert not any("run again" in text for text in result["warnings"])


def test_one_leaking_process_fails_the_whole_soak(analyse):
    leak = make(n=400, segment=1, t0=500, slope_mib_h=30.0)
    result = analyse([*make(n=500), *leak, ended(block=1)])
    assert result["verdict"] == "NO-GO" and "another process" in result["answer"]


def test_a_crash_fails_the_soak_and_an_absent_allocator_decides_nothing(analyse):
    crash = analyse([*make(n=500), ended(ok=False, why="killed by SIGSEGV")])
    assert crash["verdict"] == "NO-GO" and "SIGSEGV" in crash["answer"]
    absent = analyse([*make(n=500), ended(ok=False, why="the allocator was not loaded: its library is not mapped")])
    assert absent["verdict"] == "INCONCLUSIVE" and absent["soak"]["passed"] is None


def test_epochs_and_threads(analyse):
    soak = analyse([*make(n=900, phase_s=60), ended()])["soak"]
    assert len(soak["epochs"]) == 15
    first = soak["epochs"][0]
    assert (first["start_s"], first["end_s"], first["phase"]) == (0.5, 60.5, "small")
    assert first["p999_us"] == 40.0 and first["live_mib"] == pytest.approx(10_000 / 1024)
    assert soak["service"]["p999_us"] == {"median": 40.0, "worst": 41.0}
    assert soak["threads"] == {"least": 5, "most": 5, "started": 94}


def test_without_operations_throughput_is_unknown(analyse):
    samples = make()
    for sample in samples:
        sample |= {"operations": None, "ops_per_s": None}
    result = analyse([*samples, ended()])
    assert result["verdict"] == "GO" and result["soak"]["throughput_drift_percent_per_h"] is None
    assert any("throughput is unknown" in text for text in result["warnings"])


def test_no_sample_no_verdict(analyse):
    assert analyse([])["verdict"] is None


def test_the_interval_of_the_slope_covers_it_despite_phases_and_autocorrelation():
    from hakmem_lab.judge.course import Series, drift

    rng = np.random.default_rng(7)
    t = np.arange(1200.0)
    phases = [f"p{int(at) // 40 % 4}" for at in t]
    levels = np.array([0.0, 60.0, -20.0, 15.0])[[int(at) // 40 % 4 for at in t]]
    held, runs = 0, 120
    for _ in range(runs):
        shocks, noise = rng.normal(size=t.size), np.zeros(t.size)
        for i in range(1, t.size):
            noise[i] = 0.6 * noise[i - 1] + shocks[i]
        found = drift(Series.of(t, levels + 20 * np.exp(-(t % 40) / 4) + 0.003 * t + noise, phases), 0.95)
        held += found.low <= 0.003 <= found.high
    # If intervals hold at 95 %, the probability that 108 or fewer of 120 do so is below 1 %.
    assert held > 108
