"""The pictures are complete, small and safe; where a number can be read back from one, it is right."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from factories import MAKERS, ab, compare, matrix, soak, suite, sweep, syscalls
from report_parts import runs

from hakmem_lab.judge import words
from hakmem_lab.show.report import LoadedRun, axis, picture, save_picture
from hakmem_lab.show.report.pictures import draw
from hakmem_lab.show.report.pictures import pictures as pictures_of
from hakmem_lab.show.report.series import (
    block_ratios,
    envelope,
    memory_curves,
    running_estimate,
    thin_sorted,
    values_by_arm,
)
from hakmem_lab.show.report.svg import COLOURS, label

SVG = "{http://www.w3.org/2000/svg}"

WANTED = {
    "ab": {"blocks", "forest", "distribution"},
    "compare": {"blocks", "forest", "distribution"},
    "matrix": {"effects", "interaction", "distribution"},
    "sweep": {"selection", "distribution"},
    "soak": {"resident", "throughput", "tails"},
    "syscalls": {"syscalls"},
    "latency": {"latency"},
    "aa": {"smallest-effect", "distribution"},
    "suite": {"scores"},
}


def drawn(run: LoadedRun) -> dict[str, object]:
    return {each.name: each for each in draw(run, "k")}


@pytest.mark.parametrize("kind", MAKERS)
def test_each_kind_has_its_pictures_with_title_caption_and_numbers(kind: str) -> None:
    pictures = drawn(MAKERS[kind]())
    assert set(pictures) == WANTED[kind]
    assert next(iter(pictures)) == next(iter(pictures_of(kind)))
    for each in pictures.values():
        assert each.title
        assert each.description
        assert each.caption
        assert each.table.rows
        assert {len(row) for row in each.table.rows} == {len(each.table.columns)}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_standalone_picture_is_valid_xml_with_its_own_colours(kind: str) -> None:
    run = MAKERS[kind]()
    text = picture(run.result, [run.header, *run.runs, *run.samples])
    root = ElementTree.fromstring(text.encode())
    assert root.tag == f"{SVG}svg"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text
    assert root[1].text
    style = root.find(f"{SVG}style").text
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    assert used <= set(re.findall(r"(--[a-z0-9-]+):", style))
    assert "prefers-color-scheme:dark" in style
    assert not re.search(r"(href=\"(?!#)|url\((?!#)|<script|<image)", text)


def test_an_axis_of_equal_values_has_no_length() -> None:
    run = MAKERS["aa"]()
    effects = run.result["aa"]["smallest_effect_percent"]
    effects.update(dict.fromkeys(effects, 0.0))  # an exact count, which is the same in every run
    assert "nan" not in drawn(run)["smallest-effect"].svg
    assert [axis.Axis(2.0, 2.0).share(value) for value in (1.0, 2.0)] == [0.0, 0.0]


def test_every_colour_of_a_picture_is_a_variable() -> None:
    for kind in MAKERS.values():
        for each in drawn(kind()).values():
            assert re.findall(r"(?:fill|stroke): ?#[0-9a-f]{3,6}", each.svg) == []


def test_drawing_twice_gives_the_same_bytes() -> None:
    assert picture(ab().result, ab().runs) == picture(ab().result, ab().runs)


def test_a_picture_is_saved_and_chosen_by_name(tmp_path: Path) -> None:
    run = ab()
    save_picture(run.result, run.runs, tmp_path / "p.svg", "forest")
    assert "How much better or worse?" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"no picture 'nonsense'.*forest"):
        picture(run.result, run.runs, "nonsense")
    with pytest.raises(ValueError, match="no data"):
        picture({"kind": "ab", "id": "x"}, [])


def test_dollar_signs_and_control_characters_of_a_name_stay_text() -> None:
    run = compare()
    for record in (*run.runs, *run.result["comparisons"], *run.result["arms"]):
        for key in ("arm", "name", "treatment"):
            if record.get(key) == "hakmem":
                record[key] = "a$\\frac{1}$\x07<b>"
    text = picture(run.result, run.runs, "distribution")
    shown = ["".join(each.itertext()) for each in ElementTree.fromstring(text.encode()).iter(f"{SVG}text")]
    assert "a$\\frac{1}$\ufffd<b>" in shown


def test_label_keeps_both_ends_of_a_long_name() -> None:
    short = label("hakmem,HAKMEM_PROFILE=lean,HAKMEM_CAPACITY=256,OTHER=12", 30)
    assert len(short) == 30
    assert short.startswith("hakmem,HAKMEM_PROF")
    assert short.endswith("OTHER=12")


def test_block_ratios_have_the_sign_of_better() -> None:
    run = ab()
    one = {"block": 1, "phase": "measure", "ok": True, "attempt": 0}
    run.runs = [one | {"arm": "glibc", "value": 2.0}, one | {"arm": "hakmem", "value": 1.0}]
    run = LoadedRun(run.header, run.runs, result=run.result)
    comparison = run.result["comparisons"][0]
    assert block_ratios(run, comparison).log_ratios == pytest.approx([math.log(2)])
    run.result["metric"]["higher_is_better"] = True
    assert block_ratios(run, comparison).log_ratios == pytest.approx([-math.log(2)])


def test_failed_blocks_warm_up_and_calibration_do_not_count() -> None:
    records = [
        {"type": "run", "block": block, "attempt": attempt, "phase": phase, "arm": "a", "value": 1.0, "ok": True}
        for block, attempt, phase in ((0, 0, "measure"), (0, 1, "measure"), (-1, 0, "calibrate"), (1, 0, "measure"))
    ]
    closing = [
        {"type": "block", "block": 0, "attempt": 0, "phase": "measure", "ok": False},
        {"type": "block", "block": 0, "attempt": 1, "phase": "measure", "ok": True},
    ]
    counted = LoadedRun.from_records([*records, *closing], {}).counted
    assert [(run["block"], run["attempt"]) for run in counted] == [(0, 1)]


def test_a_sweep_shows_the_ratios_of_the_confirmation_only() -> None:
    run = sweep()
    confirmation = run.result["selection"]["confirmation"]
    assert list(block_ratios(run, confirmation).blocks) == list(range(13, 25))


def test_the_running_estimate_ends_at_the_estimate_of_all_blocks() -> None:
    values = np.random.default_rng(3).normal(0.02, 0.01, 90)
    counts, running = running_estimate(values)
    pairs = [(a + b) / 2 for i, a in enumerate(values) for b in values[i:]]
    assert counts[-1] == 90
    assert len(counts) == 40
    assert running[-1] == pytest.approx(np.median(pairs))


def test_thinning_keeps_the_extremes_and_says_so() -> None:
    values = np.random.default_rng(4).normal(0, 1, 5000)
    thin, left_out = thin_sorted(values, 300)
    assert left_out
    assert len(thin) == 300
    assert (thin[0], thin[-1]) == (values.min(), values.max())
    assert thin_sorted(values[:300], 300)[1] is False


def test_the_envelope_holds_every_sample() -> None:
    samples = [{"t_s": float(t), "rss_kib": float(t % 97)} for t in range(10_000)]
    line = envelope(samples, "rss_kib")
    assert line.binned
    assert len(line.t_s) == 400
    assert (line.low.min(), line.high.max()) == (0, 96)
    assert envelope(samples, "pss_kib") is None


def test_many_runs_make_small_pictures_that_say_what_they_leave_out() -> None:
    run = ab()
    run = LoadedRun(run.header, runs(["glibc", "hakmem"], [0.1123, 0.11], 2500), result=run.result)
    assert len(run.runs) == 10_000
    pictures = drawn(run)
    assert sum(len(each.svg) for each in pictures.values()) < 600_000
    assert "Of 10000 runs 2000 are drawn" in pictures["distribution"].caption
    assert "Every 2th block" not in pictures["blocks"].caption
    assert "One block in 2 is drawn; the estimate uses all 2500." in pictures["blocks"].caption


def test_outliers_are_counted_in_the_caption() -> None:
    run = ab()
    for record in run.runs:
        if record["block"] == 9 and record["arm"] == "hakmem":
            record["value"] /= 5
    assert "1 of 60 blocks lie outside" in drawn(run)["blocks"].caption


def test_an_interval_without_ends_is_drawn() -> None:
    run = ab()
    run.result["comparisons"][0] |= {"ci_low": -math.inf, "ci_high": math.inf}
    run.result["looks"][0] |= {"ci_low": -1.0, "ci_high": None}
    assert set(drawn(run)) == WANTED["ab"]


def test_a_matrix_of_three_factors_has_no_interaction_plot() -> None:
    run = matrix()
    run.header["spec"]["factors"]["C7"] = "HAKMEM_C7=1"
    assert "interaction" not in drawn(run)


def test_a_call_that_an_arm_does_not_make_is_shown_as_zero() -> None:
    table = drawn(syscalls())["syscalls"].table
    row = next(row for row in table.rows if row[0] == "brk")
    assert row[2] == "0"
    assert row[1] == "3.1e−4"


def test_counts_of_a_whole_process_are_not_called_rates() -> None:
    run = syscalls()
    for arm in run.result["syscalls"]["arms"]:
        arm |= {"per_op": None, "per_call": {}, "whole": {"ops": None, "calls": 69, "per_call": {"mmap": 17}}}
    found = drawn(run)["syscalls"]
    assert found.title == "System calls of the whole process"
    assert found.table.rows == [["all calls", "69", "69", "69"], ["mmap", "17", "17", "17"]]


def test_a_forest_of_one_pair_names_the_metrics() -> None:
    run = ab()
    run.result["comparisons"].append(run.result["comparisons"][0] | {"metric": "rss", "verdict": None})
    found = drawn(run)["forest"]
    assert found.caption.startswith("hakmem against glibc. ")
    assert "peak memory: 2.1 % lower [1.4, 2.7]" in found.description


def test_a_soak_resumed_shows_the_restart() -> None:
    run = soak(600)
    for sample in run.samples:
        sample["segment"] = int(sample["t_s"] > 300)
    assert "Dotted: 1 restart" in drawn(run)["resident"].caption


def with_memory(run: LoadedRun) -> LoadedRun:
    for record in run.runs:
        top = 40_000 if record["arm"] == "glibc" else 60_000
        record["rss_series"] = [[10 * n, top * min(n, 8) // 8] for n in range(1, 12)]
    return run


def test_memory_over_time_has_mean_peak_and_area() -> None:
    run = with_memory(ab())
    run.result["arms"][0] |= {"rss_area_kib_s": 4000.0, "intervals": {"rss_area_kib_s": [3900.0, 4100.0]}}
    found = drawn(run)["memory-over-time"]
    assert found.table.columns == ["Side", "Mean", "Peak", "Area (mean × time)"]
    assert found.table.rows[0][3].replace("\u00a0", " ") == "3.91 MiB s [3.81, 4.00]"
    curves = memory_curves(run)
    assert list(curves) == ["glibc", "hakmem"]
    assert curves["glibc"].median[-1] == 40_000
    assert curves["hakmem"].median.max() == 60_000
    assert (np.diff(curves["hakmem"].median) >= -1e-9).all()


def test_memory_of_a_server_is_that_while_its_client_was_measured() -> None:
    run = ab()
    for record in run.runs:
        record["server"] = {"rss_series": [[0, 9], [100, 20], [200, 30], [900, 5]], "window_ms": [100, 300]}
    curve = memory_curves(run)["glibc"]
    assert (curve.median[0], curve.median[-1], float(curve.t_s[-1])) == (20, 30, 0.1)


def test_runs_that_kept_no_memory_over_time_have_no_such_picture() -> None:
    assert "memory-over-time" not in drawn(ab())


def test_rare_bad_runs_get_a_picture_only_where_the_averages_disagree() -> None:
    run = ab()
    assert "tail" not in drawn(run)
    run.result["comparisons"][0]["torn"] = True
    bad = [record for record in run.runs if record["arm"] == "hakmem"][::40]
    for record in bad:
        record["value"] *= 20
    found = drawn(run)["tail"]
    glibc, hakmem = found.table.rows
    assert found.table.columns[1:] == ["half", "1 in 10", "1 in 100", "Mean"]
    assert float(hakmem[1].split("\u00a0")[0]) < float(glibc[1].split("\u00a0")[0])
    assert hakmem[3].endswith("\u00a0s") and glibc[3].endswith("\u00a0ms")


def test_a_soak_shows_what_the_program_held_or_says_that_it_is_unknown() -> None:
    run = soak(60)
    assert "was not reported" in drawn(run)["resident"].caption
    for sample in run.samples:
        sample["live_kib"] = 100_000
    assert "Dotted: what the program held" in drawn(run)["resident"].caption


def test_a_sweeps_runs_are_those_of_its_medians() -> None:
    run = sweep()
    assert {len(values) for values in values_by_arm(run).values()} == {24}


def test_time_and_memory_have_no_common_axis() -> None:
    run = ab()
    run.result["comparisons"].append(run.result["comparisons"][0] | {"metric": "rss", "verdict": None})
    run.result["comparisons"].append(run.result["comparisons"][0] | {"metric": "rss-mean", "verdict": None})
    svg = drawn(run)["forest"].svg
    shown = "".join(ElementTree.fromstring(svg.encode()).itertext())
    assert all(text in shown for text in ("slower", "faster", "← higher", "lower →"))
    card = suite()
    card.result["suite"]["rows"][0]["unit"] = "KiB"
    shown = "".join(ElementTree.fromstring(drawn(card)["scores"].svg.encode()).itertext())
    assert "Memory" in shown and "Time" in shown


def test_every_ratio_of_a_suite_has_its_interval() -> None:
    table = drawn(suite())["scores"].table
    cells = [cell for row in table.rows for cell in row[1:] if cell != "–"]
    assert cells
    sure, open_ = r"[0-9.]+ % (faster|slower) \[[0-9.]+, [0-9.]+\]", r"undecided \[-[0-9.]+, \+[0-9.]+\] %"
    assert all(re.fullmatch(f"{sure}|{open_}", cell) for cell in cells)


def test_ticks_are_apart_and_say_the_amount_that_they_stand_for() -> None:
    memory = words.style_of("rss")
    found = axis.ticks(-0.3, 0.3, memory)
    assert [round(at, 3) for at, _ in found] == sorted(round(at, 3) for at, _ in found)
    for at, change in found:
        assert math.exp(-at) == pytest.approx(1 + change)
    assert (0.0, 0.0) in found
    assert axis.sides(memory) == ("higher", "lower")
    assert axis.tick_text(1.0) == "2 ×"


def test_the_palette_has_distinct_names() -> None:
    assert len({colour.name for colour in COLOURS}) == len(COLOURS)
