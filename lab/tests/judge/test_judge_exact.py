"""Figures without noise, benchmarks of one name with several parameters, and figures of which no ratio can be made."""

import json

import pytest

from hakmem_lab.judge.statistics import aa, drift, unpaired
from hakmem_lab.plan import foreign

EXACT = [(78.8, 115), (10, 8), (3, 7), (4096, 4104), (1_000_003, 1_000_000), (0.1, 0.3)]


def go(*rows: tuple[str, str]) -> str:
    """rows: a benchmark and a counter of it, like '16 B/op'."""
    found = []
    for name, figure in rows:
        value, unit = figure.split()
        times = {"real_time": 1.0, "cpu_time": 1.0, "time_unit": "ns", "iterations": 1000}
        found.append({"name": name, "run_name": f"Benchmark{name}-8", **times, unit: float(value)})
    return json.dumps({"benchmarks": found})


def hyperfine(*rows: tuple[str, dict, list[float]]) -> str:
    keys = ("command", "parameters", "times")
    return json.dumps({"results": [dict(zip(keys, row, strict=True)) for row in rows]})


@pytest.fixture
def judged(here, tmp_path):
    def call(*texts: str, flags=("--json", "-")):
        paths = [tmp_path / str(at) for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return here("judge", *paths, *flags)

    return call


@pytest.mark.parametrize("count", [4, 8, 10, 30])
@pytest.mark.parametrize("value", [0.1, 78.8, 115.0, 5.3, 1e-300, 1e300])
def test_a_constant_series_has_no_neighbours(value, count):
    values = [value] * count
    assert (aa.autocorrelation(values), unpaired.neighbours(values), unpaired.alike(values, values)) == (0, 0, 0)


@pytest.mark.parametrize("level", [0.1, 1234.1, 3.3])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1e-6])
def test_a_line_without_noise_has_an_exact_slope(level, slope):
    times = [0.1 * at for at in range(100)]
    found = drift.theil_sen(times, [level + slope * t for t in times])
    assert (found.low, found.high) == pytest.approx((slope, slope), abs=1e-9)


def test_a_machine_without_noise_is_fit():
    found = aa.aa_false_verdicts([[5.3] * 4] * 30, executed_abba=[True, False] * 15)
    assert (found.state, found.autocorrelation, found.advice) == (aa.FIT, 0, [])


@pytest.mark.parametrize("unit", ["ns/op", "B/op", "allocs/op", "syscalls", "instructions"])
@pytest.mark.parametrize("flags", [(), ("--interleaved",)])
def test_exact_figures_are_judged_by_their_size(judged, unit, flags):
    texts = [
        go(*[(str(at), f"{pair[side]} {unit}") for at, pair in enumerate(EXACT) for _ in range(12)]) for side in (0, 1)
    ]
    result = judged(*texts, flags=("--metric", unit, "--json", "-", *flags)).result()
    expected = ["NEUTRAL" if abs(old / new - 1) < 0.01 else "GO" if new < old else "NO-GO" for old, new in EXACT]
    assert [row["verdict"] for row in result["comparisons"]] == expected
    assert not any("resemble" in text for text in result["warnings"])


def test_a_small_drift_does_not_hide_a_large_difference(judged):
    """The figures of each side creep up by one in a thousand."""
    old, new = (go(*[("A", f"{base + at // 5} B/op") for at in range(10)]) for base in (1024, 512))
    assert judged(old, new, flags=("--metric", "B/op", "--json", "-")).result()["verdict"] == "GO"
    drifting = [go(*[("A", f"{100 + at + more} B/op") for at in range(10)]) for more in (0, 25)]
    assert "No verdict" in judged(*drifting, flags=("--metric", "B/op", "--json", "-")).result()["answer"]


STEPS = [1.0, 1.004, 0.998, 1.002, 0.996, 1.001, 0.999, 1.003]


def rows(name: str, **means: float) -> list[tuple]:
    return [(name, {"n": n[1:]}, [mean * step for step in STEPS]) for n, mean in means.items()]


def test_runs_of_one_command_with_other_parameters_are_other_benchmarks(judged):
    old, new = hyperfine(*rows("GO", n1=1.0, n9=1.0)), hyperfine(*rows("GO", n1=1.0, n9=0.5))
    result = judged(old, new).result()
    assert {row["treatment"]: row["verdict"] for row in result["comparisons"]} == {
        "GO (n=1)": "NEUTRAL", "GO (n=9)": "GO"}  # fmt: skip
    one, other = (hyperfine(*rows("GO", **{n: 1.0})) for n in ("n1", "n9"))
    assert any("'GO (n=1)'" in text and "different names" in text for text in judged(one, other).result()["warnings"])


def test_a_value_that_the_command_shows_is_not_repeated(tmp_path):
    (tmp_path / "x").write_text(hyperfine(("sort 10", {"n": "10"}, [1.0]), ("sort 100", {"n": "10"}, [1.0])))
    assert list(foreign.read(str(tmp_path / "x"), "wall").benchmarks) == ["sort 10", "sort 100 (n=10)"]


def test_one_command_twice_is_pooled_with_a_warning(judged):
    same = rows("a", n1=1.0)
    said = "'a (n=1)' is more than once"
    assert any(said in text for text in judged(hyperfine(*same, *same), hyperfine(*same)).result()["warnings"])
    assert not any(said in text for text in judged(hyperfine(*same), hyperfine(*same)).result()["warnings"])


def allocating(**figures: str) -> str:
    return go(*[(name, each) for name, each in figures.items() for _ in range(8)])


def test_a_benchmark_without_a_ratio_is_left_out_alone(judged):
    flags = ("--metric", "B/op", "--json", "-")
    old, new = allocating(A="16 B/op", B="8 B/op"), allocating(A="8 B/op", B="0 B/op")
    result = judged(old, new, flags=flags).result()
    assert [row["verdict"] for row in result["comparisons"]] == ["GO"]
    assert result["verdict"] == "INCONCLUSIVE" and "BenchmarkB-8: B/op is 0 in" in result["answer"]
    lacking = judged(old, allocating(A="8 B/op", B="9 ns/op"), flags=flags).result()
    assert "no figure 'B/op'" in lacking["answer"] and len(lacking["comparisons"]) == 1


def test_what_allocates_nothing_on_both_sides_leaves_the_verdict(judged):
    flags = ("--metric", "B/op", "--json", "-")
    old, new = allocating(A="16 B/op", B="0 B/op"), allocating(A="8 B/op", B="0 B/op")
    result = judged(old, new, flags=flags).result()
    assert result["verdict"] == "GO" and any("0 on both sides" in text for text in result["warnings"])
    only = judged(allocating(B="0 B/op"), allocating(B="0 B/op"), flags=flags)
    assert only.status == 2 and "above 0" in only.message()
