"""Numbers as text, the spec as TOML, the command line that repeats a run, and the words of a verdict."""

from __future__ import annotations

import math
import tomllib

import pytest
from factories import aa, ab, matrix, suite
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.judge.explain import explain
from hakmem_lab.show import numbers
from hakmem_lab.show.kinds.aa import false_rates
from hakmem_lab.show.report import model
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.reproduce import command_line, specification
from hakmem_lab.show.report.tables import facts, findings


def spaced(text: str) -> str:
    return text.replace(numbers.THIN, " ").replace(numbers.JOIN, " ")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.0211, "2.1 %"),
        (-0.0046, "−0.5 %"),
        (0.0004, "0.04 %"),
        (0.0, "0 %"),
        (-1e-9, "0.00 %"),
        (0.38975, "39.0 %"),
        (1.5, "150 %"),
        (-1.0, "−100 %"),
        (math.inf, "–"),
        (-math.inf, "–"),
        (math.nan, "–"),
        (None, "–"),
        ("x", "–"),
    ],
)
def test_percent(ratio: object, text: str) -> None:
    assert spaced(numbers.percent(ratio)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1123, "112 ms"),
        (2.4, "2.40 s"),
        (59.99, "60.0 s"),
        (200, "3 min 20 s"),
        (3599.6, "60 min 0 s"),
        (7500, "2 h 5 min"),
        (3e-6, "3.00 µs"),
        (5e-8, "50.0 ns"),
        (0, "0 s"),
        (None, "–"),
    ],
)
def test_seconds(value: object, text: str) -> None:
    assert spaced(numbers.seconds(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(512, "512 KiB"), (41000, "40.0 MiB"), (3 * 1024**2, "3.00 GiB"), (0, "0 KiB"), (None, "–")],
)
def test_memory(value: object, text: str) -> None:
    assert spaced(numbers.memory(value)) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.11231, "s", "112.3 ms"),
        (3694.591, "µs", "3.695 ms"),
        (2048, "KiB", "2.00 MiB"),
        (71990424.0, "op/s", "71.99 Mop/s"),
        (12.5, "", "12.5"),
    ],
)
def test_measure(value: float, unit: str, text: str) -> None:
    assert spaced(numbers.measure(value, unit)) == text


def test_small_and_large_numbers() -> None:
    assert numbers.number(9e-8) == "9e−8"
    assert numbers.number(0.0021) == "0.0021"
    assert spaced(numbers.number(12345.6)) == "12 346"
    assert numbers.number(True) == "–"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_has_a_text(value: float) -> None:
    for text in (numbers.percent(value), numbers.seconds(value), numbers.memory(value), numbers.number(value)):
        assert text
        assert "nan" not in text
        assert "inf" not in text


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SCALARS = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.integers(-(2**60), 2**60)
    | st.booleans()
    | st.floats(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_toml_reads_back_as_it_was(table: dict) -> None:
    assert tomllib.loads(model.dumps(table)) == table


def test_toml_leaves_out_what_has_no_value() -> None:
    assert tomllib.loads(model.dumps({"a": None, "b": 1, "t": {"c": None}})) == {"b": 1, "t": {}}


def test_the_command_line_repeats_the_run_from_its_specification() -> None:
    assert command_line(ab()) == "hak compare spec.toml --seed 7"
    assert command_line(matrix()) == "hak matrix spec.toml --seed 7"
    assert command_line(LoadedRun({"kind": "aa"})) == "hak aa spec.toml"
    fleet = {"kind": "fleet", "spec": {"engine": "dask", "workers": 2, "scheduler": None}, "seed": 7}
    assert command_line(LoadedRun(fleet)) == "hak fleet spec.toml --seed 7 --engine dask --workers 2"


def test_the_specification_is_toml() -> None:
    assert tomllib.loads(specification(ab()) or "")["limits"] == {"rss": 0.05}
    assert specification(LoadedRun({})) is None


def test_a_measure_has_the_digits_that_its_interval_supports() -> None:
    assert spaced(numbers.between(11450.4, 11440, 11461, "")) == "11 450 [11 440, 11 461]"
    assert spaced(numbers.between(0.1123, 0.1118, 0.1129, "s")) == "112.3 ms [111.8, 112.9]"
    assert spaced(numbers.between(11450, 11450, 11450, "")) == "11 450 [11 450, 11 450]"
    assert spaced(numbers.between(41000, None, 41100, "KiB")) == "40.0 MiB"


def test_a_run_without_a_question_is_named_by_what_it_compares() -> None:
    run = ab(question="")
    assert run.question == "hakmem against glibc on larson"


@pytest.mark.parametrize(
    ("word", "tone"), [("GO", "go"), ("NO-GO", "no-go"), ("NEUTRAL", "neutral"), ("INCONCLUSIVE", "inconclusive")]
)
def test_a_verdict_without_a_headline_is_put_in_words(word: str, tone: str) -> None:
    run = ab()
    run.result["verdict"] = word
    said = explain(run.result)
    assert (said.word, said.tone) == (word, tone)
    assert said.headline
    assert said.more.endswith(".")


def test_false_verdicts_may_be_counts_or_shares() -> None:
    assert false_rates({"false_go": 5, "false_no_go": 0, "resamples": 200}) == {"False GO": 0.025, "False NO-GO": 0.0}
    assert false_rates({"false_go": 0.03, "resamples": 200}) == {"False GO": 0.03}


def table_of(run: LoadedRun, start: str) -> list[list[str]]:
    (found,) = [table for table in findings(run) if table.caption.startswith(start)]
    return [[spaced(str(cell)) for cell in row] for row in found.rows]


def test_what_a_guardrail_tolerates_is_in_the_words_of_its_change() -> None:
    rails = table_of(ab(), "Guardrails")
    assert [(row[0], row[1]) for row in rails] == [("peak memory", "5 % higher"), ("p99.9", "10 % higher")]


def test_the_noise_of_an_aa_is_that_of_single_runs() -> None:
    shown = dict(facts(aa()))
    assert spaced(shown["Noise of one run"]) == "1.9 %"


def test_means_stand_beside_the_ratios_of_a_suite() -> None:
    rows = table_of(suite(), "Geometric means")
    assert [row[:3] for row in rows] == [["all", "speed", "5"], ["servers", "memory", "2"]]
    assert rows[0][3] == "▲ 5 % faster [2, 8]"
    assert rows[1][3] == "≈ undecided [-1, +3] %"
