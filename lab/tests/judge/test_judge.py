"""hak judge: reads measurements of other tools and gives verdicts on them."""

import json
import math

import numpy as np
import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics import unpaired
from hakmem_lab.judge.statistics.paired import as_log
from hakmem_lab.kinds import judge
from hakmem_lab.plan import foreign

STEPS = (1.0, 1.004, 0.998, 1.002, 0.996, 1.001, 0.999, 1.003)


def google(**means) -> str:
    rows = [
        {"name": f"{name}/repeats:8", "run_name": name, "run_type": "iteration", "iterations": 10, "time_unit": "us",
         "real_time": mean * step, "cpu_time": mean * step / 2, "items_per_second": 1e6 / mean / step}
        for name, mean in means.items() for step in STEPS
    ]  # fmt: skip
    rows += [{"name": "A_mean", "run_name": "A", "run_type": "aggregate", "real_time": 9e9, "time_unit": "us"}]
    return json.dumps({"context": {"num_cpus": 2}, "benchmarks": rows})


def go(mean: float, allocated: int = 16) -> str:
    """A single benchmark in nanoseconds, with counters."""
    rows = [
        {"name": "A", "run_name": "BenchmarkA", "iterations": 1000, "time_unit": "ns", "real_time": mean * step,
         "cpu_time": mean * step, "B/op": allocated, "allocs/op": 2} for step in STEPS
    ]  # fmt: skip
    return json.dumps({"benchmarks": rows})


def hyperfine(codes=(), **means) -> str:
    rows = [
        {"command": name, "times": [mean * s for s in STEPS], "exit_codes": [0] * 8} for name, mean in means.items()
    ]
    rows[-1]["exit_codes"] = [*codes, *[0] * (8 - len(codes))]
    return json.dumps({"results": rows})


@pytest.fixture
def judged(here, tmp_path):
    """judged(old, new, flags…): the answer of hak judge for files with these texts."""

    def call(*texts: str, flags=("--json", "-")):
        for name, text in zip(("old", "new"), texts, strict=False):
            (tmp_path / name).write_text(text)
        return here("judge", *[tmp_path / name for name in ("old", "new")][: len(texts)], *flags)

    return call


@pytest.mark.parametrize(
    ("old", "new"),
    [(google(A=100), google(A=80)), (go(100), go(80)),
     (hyperfine(a=1), hyperfine(a=0.8)), (google(A=100), go(80_000))],
)  # fmt: skip
def test_every_tool_gets_the_same_verdict(judged, old, new):
    result = judged(old, new).result()
    assert result["verdict"] == "GO"
    assert result["estimate"] == pytest.approx(0.25, abs=0.01)
    assert any("order the runs were made is not known" in text for text in result["warnings"])
    assert ("share one process" in str(result["warnings"])) == ("results" not in new)


def test_the_runs_are_kept_as_others_are(judged, here, records):
    judged(go(100), go(80))
    assert len(records("run")) == 16 and records("header")[0]["tools"] == ["Google Benchmark"]
    shown = here("show").out
    assert any(line.startswith("GO  ") for line in shown.splitlines()) and "% faster than" in shown
    assert "judge" in here("list").out
    assert len(here("export", "last", "--format", "json").out) > 100
    assert here("resume", "last").status == 2


@pytest.mark.parametrize(
    ("means", "verdict"),
    [((80, 100), "INCONCLUSIVE"), ((80, 130), "NO-GO"), ((80, 80), "GO"), ((100, 100), "INCONCLUSIVE")],
)
def test_several_benchmarks_share_alpha_and_the_worst_is_the_verdict(judged, means, verdict):
    result = judged(google(A=100, B=100), google(A=means[0], B=means[1]), flags=("--margin", "0.2%", "--json", "-"))
    result = result.result()
    assert result["verdict"] == verdict
    assert [row["level"] for row in result["comparisons"]] == [0.975, 0.975]
    level = judged(google(A=100, B=100), google(A=100, B=100), flags=("--margin", "5%", "--require", "NEUTRAL"))
    assert level.status == 0


def test_each_benchmark_is_a_case_of_a_report_with_its_own_verdict(judged, here):
    few = google(C=1)
    rows = json.loads(few)["benchmarks"][:2]
    old, new = (json.loads(google(A=100, B=100)), json.loads(google(A=80, B=130)))
    for one in (old, new):
        one["benchmarks"] += rows
    judged(json.dumps(old), json.dumps(new), flags=())
    said = here("show", "--format", "github").out
    assert [line.partition("%3A")[0] for line in said.splitlines() if "against" in line.partition("::")[2][:60]] == [
        "::notice title=GO", "::error title=NO-GO", "::warning title=INCONCLUSIVE"]  # fmt: skip
    assert 'tests="3" errors="0" failures="1" skipped="1"' in here("show", "--format", "junit").out


def test_of_one_file_the_first_is_what_the_others_are_held_against(judged):
    answer = judged(hyperfine(slow=1.0, fast=0.5, other=1.5), flags=())
    assert "fast 2.000 × as fast" in answer.out and "other" in answer.out
    assert "only the benchmark 'a'" in judged(hyperfine(a=1)).message()


def test_what_failed_more_often_is_praised_by_nobody(judged):
    result = judged(hyperfine(slow=1.0, fast=0.5, codes=(0, 1))).result()
    assert (result["verdict"], len(result["failures"])) == ("GO", 1)
    assert "fast failed once, slow never: chance may explain it." in result["answer"]
    old, new = _failing("x", [1.0] * 30), _failing("x", [0.5] * 30, range(10))
    result = judged(old, new, flags=("--json", "-")).result()
    assert (result["verdict"], len(result["failures"])) == ("INCONCLUSIVE", 10)
    assert "failed 10 times" in result["answer"]


def test_another_figure_and_another_direction(judged):
    flags = ("--metric", "B/op", "--json", "-")
    assert judged(go(100, 16), go(80, 24), flags=flags).result()["verdict"] == "NO-GO"
    rate = ("--metric", "items_per_second", "--higher-is-better", "--json", "-")
    assert judged(google(A=100), google(A=80), flags=rate).result()["verdict"] == "GO"
    assert "did you mean 'B/op'" in judged(go(1), go(1), flags=("--metric", "b/o")).message()


def test_too_few_runs_have_no_verdict(judged):
    three = json.dumps({"benchmarks": json.loads(go(100))["benchmarks"][:3]})
    answer = judged(three, go(50), flags=())
    assert "INCONCLUSIVE  No verdict" in answer.out
    assert "at least 4 of each" in " ".join(answer.out.split())  # the sentence has file names, so it may wrap anywhere


def test_runs_that_took_turns_are_judged_in_pairs(judged):
    """If runs took turns, a drift in both files neither looks like a difference nor hides one."""
    drift = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4]
    old, new = (json.dumps({"results": [{"command": "x", "times": [k * d for d in drift]}]}) for k in (1.0, 0.95))
    assert judged(old, new).result()["verdict"] == "INCONCLUSIVE"
    result = judged(old, new, flags=("--interleaved", "--json", "-")).result()
    assert result["verdict"] == "GO" and not any("is not known" in text for text in result["warnings"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "hak cannot read it"), ("{}", "hak cannot read it"), ("[1]", "hak cannot read it"),
        ('{"benchmarks": []}', "no runs in it"), ('{"results": [{"command": "x"}]}', "no figure 'wall'"),
        ('{"benchmarks": [{"name": "a", "stats": {"mean": 1}}]}', "hak cannot read it"),
        ('{"results": [{"command": "x", "times": [1, 0]}]}', "above 0"),
        ('{"results": [{"command": "x", "times": [1, true]}]}', "above 0"),
        ('{"results": [{"command": "x", "times": 5}]}', "hak cannot read it"),
        ('{"results": "x"}', "hak cannot read it"), ("BenchmarkA 10 5 ns/op\n", "hak cannot read it"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(judged, store, text, said):
    answer = judged(text, go(1))
    assert answer.status == 2 and said in answer.message()
    assert not store.exists()


def test_a_missing_file_and_the_same_one_twice(here, tmp_path):
    (tmp_path / "a").write_text(go(1))
    assert "cannot be read" in here("judge", tmp_path / "missing", tmp_path / "a").message()
    assert "twice" in here("judge", tmp_path / "a", tmp_path / "a").message()
    assert "have no benchmark in common" in here("judge", *_two(tmp_path, google(A=1, B=1), google(C=1, D=1))).message()


def _two(folder, *texts):
    for name, text in zip("xy", texts, strict=True):
        (folder / name).write_text(text)
        yield folder / name


def test_an_erring_benchmark_of_google_is_a_failure(tmp_path):
    row = {"name": "A", "run_name": "A", "error_occurred": True, "error_message": "no device"}
    (tmp_path / "x").write_text(json.dumps({"benchmarks": [row]}))
    assert foreign.read(str(tmp_path / "x"), "wall").benchmarks["A"].runs == ["no device"]
    with pytest.raises(LabError, match="cannot be read"):
        foreign.read(str(tmp_path), "wall")


@pytest.mark.parametrize(("n", "m"), [(4, 4), (5, 9), (10, 10), (60, 60)])
def test_the_ranks_are_those_of_the_exact_distribution(n, m):
    """Counts how often the interval misses the true shift: by exact ranks for few values, approximate ones for many."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(3000, n)), rng.normal(0.5, 1, size=(3000, m))
    ends = [unpaired.shift(a, b, 0.95) for a, b in zip(x, y, strict=True)]
    missed = sum(not interval.low <= 0.5 <= interval.high for interval in ends)
    assert 0.01 * 3000 <= missed <= 0.05 * 3000 + 3 * math.sqrt(0.05 * 0.95 * 3000)


def test_fewer_than_four_values_bound_nothing():
    assert unpaired.shift([1, 2, 3], [4, 5, 6], 0.95).low == -math.inf
    assert unpaired.shift([1, 2, 3, 4], [5, 6, 7, 8], 0.95).low == 1


@pytest.mark.parametrize(("kind", "share"), [("normal", 0.05), ("heavy", 0.05), ("neighbours", 0.10)])
def test_equal_samples_are_called_better_or_worse_in_at_most_alpha(kind, share):
    """With autocorrelated values (0.5), 20 values are too few for exact intervals, so twice alpha is allowed."""
    rng = np.random.default_rng(3)
    noise = rng.standard_t(2, (3000, 2, 20)) if kind == "heavy" else rng.normal(size=(3000, 2, 20))
    if kind == "neighbours":
        for at in range(1, 20):
            noise[..., at] = 0.5 * noise[..., at - 1] + math.sqrt(0.75) * noise[..., at]
    spec = {"higher-is-better": False, "interleaved": False}
    wrong = 0
    for control, treatment in np.exp(0.02 * noise):
        interval, equivalence = judge.intervals(spec, control, treatment, 0.05)
        wrong += judge.verdict.judge(interval, equivalence, as_log(0.01)) in ("GO", "NO-GO")
    assert wrong <= share * 3000 + 3 * math.sqrt(share * (1 - share) * 3000)


def _failing(command, values, failed=()):
    codes = [int(at in failed) for at in range(len(values))]
    return json.dumps({"results": [{"command": command, "times": values, "exit_codes": codes}]})


def test_a_failed_run_keeps_its_number_so_that_the_other_pairs_stay_as_they_are(judged):
    """Runs drift by 3 % each, more than the true difference of 1.5 %, so a shifted pairing would change the verdict."""
    old = [1.03**at for at in range(20)]
    new = [value * 1.015 * step for value, step in zip(old, (STEPS * 3)[:20], strict=True)]
    result = judged(_failing("x", old, {0}), _failing("x", new, {19}), flags=("--interleaved", "--json", "-")).result()
    assert (result["verdict"], round(result["estimate"], 3)) == ("NO-GO", -0.015)
    assert any("left out" in text and "1 of" in text for text in result["warnings"])


def test_runs_without_a_partner_are_said(judged):
    times = [1.0 + at / 1000 for at in range(20)]
    flags = ("--interleaved", "--json", "-")
    result = judged(_failing("x", times), _failing("x", times[:12]), flags=flags).result()
    assert any("missing: 8 of" in text for text in result["warnings"])
    answer = judged(_failing("x", times), _failing("x", times[:3]), flags=("--interleaved",))
    assert "3 pairs of runs that ended well" in " ".join(answer.out.split())


@pytest.mark.filterwarnings("error")
def test_figures_at_the_ends_of_what_a_number_holds_have_a_verdict(judged):
    steps = [1.02, 1.0, 1.04, 1.01, 1.05, 1.03]
    little, much = ([value * step for step in steps] for value in (1e-300, 1e307))
    answer = judged(_failing("x", little), _failing("x", much), flags=())
    assert "over 1e9 × as long" in answer.out and "inf" not in answer.out
    assert judged(_failing("x", much), _failing("x", little)).result()["verdict"] == "GO"


def test_one_benchmark_each_of_another_name_or_tool_is_compared_and_said(judged):
    assert not any("different" in text for text in judged(google(A=100), google(A=80)).result()["warnings"])
    said = judged(google(A=100), google(B=80)).result()["warnings"]
    assert any("'A' of" in text and "'B' of" in text for text in said)
    assert any("of hyperfine" in text for text in judged(google(A=100), hyperfine(A=1)).result()["warnings"])


def test_what_is_nested_too_deeply_is_damaged_wherever_it_is_read(here, tmp_path, store, judged):
    assert "hak cannot read it" in judged(go(1), "[" * 100_000).message()
    (tmp_path / "deep.toml").write_text("a=" + "[" * 100_000)
    assert "nested too deeply" in here("ab", tmp_path / "deep.toml").message()
    judged(go(100), go(80))
    (store / "20260101-000000-ab-0000.jsonl").write_text("[" * 100_000)
    assert here("list").status == 0


HOSTILE = "A\x1b[31m\nB\x9b2J"


@pytest.mark.parametrize(
    ("old", "new"),
    [(google(**{HOSTILE: 100, "C": 1}), google(**{HOSTILE: 80, "C": 1})),
     (hyperfine(**{HOSTILE: 1, "C": 1}), hyperfine(**{HOSTILE: 0.8, "C": 1}))],
)  # fmt: skip
def test_no_terminal_obeys_the_name_of_a_benchmark(judged, here, old, new):
    for said in (judged(old, new, flags=()).out, here("show").out, here("list").out):
        assert not {"\x1b", "\x9b"} & set(said)
    assert r"A\x1b[31m\nB\x9b2J" in here("show").out


def test_nor_does_it_why_a_benchmark_failed(judged):
    rows = [{"name": "A", "run_name": "A", "error_occurred": True, "error_message": "no\x1b[2J\ndevice"}]
    old, new = json.loads(google(A=100)), json.loads(google(A=80))
    new["benchmarks"] += rows
    said = judged(json.dumps(old), json.dumps(new), flags=()).out
    assert r"no\x1b[2J device" in said and "\x1b" not in said


def test_a_benchmark_that_the_new_file_lacks_leaves_no_verdict(judged):
    """A missing benchmark counts like a failed one, since it might be worse."""
    old, new = google(A=100, B=100), google(A=80)
    answer = judged(old, new, flags=("--require", "GO"))
    assert answer.status == 1 and "INCONCLUSIVE  No verdict" in answer.out
    assert "B: it is not in" in " ".join(answer.out.split())
    assert judged(google(A=100, B=100, C=1), google(A=130, C=1)).result()["verdict"] == "NO-GO"
    added = judged(google(A=100, C=100), google(A=80, B=1, C=80)).result()
    assert added["verdict"] == "GO" and any("only in one of the files: B" in text for text in added["warnings"])


def test_a_level_interval_says_how_sure_it_is(judged):
    said = judged(hyperfine(a=1), hyperfine(a=1.001), flags=("--margin", "2%")).out
    assert "within 2 % of" in said and "effect [95 % interval]" in said
