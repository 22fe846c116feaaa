"""The first estimate of a comparison, a run that ends with it, and several allocators in one flag."""

import random

import pytest

from hakmem_lab.cli.measure import separated
from hakmem_lab.judge import early
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.run.endings import Progress

RATE = r"regex:ops (\d+)"
FIXED = ("--metric", RATE, "--higher-is-better", "--repeat", "1", "--seed", "3")


@pytest.fixture
def program(counted):
    return ("--", counted)


def test_a_first_estimate_is_said_and_the_run_goes_on(here, program):
    arms = ("--control", "glibc", "--treatment", "glibc,RATE=1100")
    answer = here("ab", *arms, *FIXED, "--max-blocks", "20", *program)
    (at,) = [n for n, line in enumerate(answer.err.splitlines()) if line.startswith("first estimate after 5 blocks")]
    title, said = answer.err.splitlines()[at : at + 2]
    assert title == "first estimate after 5 blocks, still undecided:"
    assert "10.0 % higher" in said and "RATE=1100" in said
    assert answer.out.startswith("GO ")


@pytest.mark.parametrize("kind", ["ab", "compare"])
def test_a_quick_run_ends_with_it_without_a_verdict_and_goes_on_when_asked(here, program, records, kind):
    own = ("--control", "glibc", "--treatment", "glibc,RATE=1100")
    arms = {"ab": own, "compare": ("--allocators", "glibc,glibc,RATE=1100", "--baseline", "glibc")}[kind]
    found = here(kind, *arms, *FIXED, "--quick", "--json", "-", *program).result()
    assert found["blocks"] == 5 and not found["final"]
    assert found["headline"] == "First estimate after 5 blocks, still undecided"
    assert "10.0 % higher" in found["reasons"][0] and "hak runs resume" in found["reasons"][-1]
    assert {row["verdict"] for row in found["comparisons"]} <= {"INCONCLUSIVE", None}
    assert not records("run", phase="warm-up")
    more = here("resume", "--json", "-", "--quiet").result()
    assert more["blocks"] > 5 and more["verdict"] == "GO" and "First" not in more["headline"]


def test_a_quick_run_begins_no_block_that_ends_after_its_time(here, program, monkeypatch):
    monkeypatch.setattr(early, "QUICK_S", 0.0)
    arms = ("--control", "glibc", "--treatment", "glibc,RATE=1100")
    found = here("ab", *arms, *FIXED, "--quick", "--json", "-", *program).result()
    assert found["blocks"] == 1 and found["headline"] == "2 runs each: no estimate yet"
    assert not found["comparisons"] and not any("%" in text or "×" in text for text in found["reasons"])
    shown = here("show", "last").out
    assert not any(word in shown for word in ("% faster", "% slower", "% higher", "% lower", "×"))


def test_a_quick_run_without_time_for_all_sides_runs_the_first_ones_and_resume_the_others(here, program, monkeypatch):
    monkeypatch.setattr(early, "QUICK_S", 0.0)
    sides = ("glibc", "glibc,RATE=1100", "glibc,RATE=900")
    words = ("--allocators", *sides, "--baseline", "glibc", *FIXED, "--max-blocks", "12", "--quick", "--json", "-")
    found = here("compare", *words, *program).result()
    assert found["headline"] == "2 runs each: no estimate yet"
    assert "glibc,RATE=900" in found["reasons"][0] and found["reasons"][0].startswith("Not run yet")
    monkeypatch.setattr(early, "QUICK_S", 30.0)
    more = here("resume", "--json", "-", "--quiet").result()
    judged = {row["treatment"]: row["verdict"] for row in more["comparisons"] if row["verdict"]}
    assert judged == {"glibc,RATE=1100": "GO", "glibc,RATE=900": "NO-GO"}


@pytest.mark.parametrize("kind", ["ab", "compare"])
def test_a_server_needs_no_spec(here, fakes, kind):
    arms = {"ab": ("--control", "glibc", "--treatment", "default"), "compare": ("--allocators", "glibc,default")}[kind]
    words = (*arms, "--server", f"{fakes.server} {{port}} serve", "--quick", "--json", "-")
    found = here(kind, *words, "--", fakes.server, "{port}", "client").result()
    assert found["blocks"] == 5 and not found["failures"]
    assert all(arm["rss_peak_kib"] for arm in found["arms"])


def _header(*names):
    spec = {"metric": "wall", "higher-is-better": False, "margin": 0.01}
    return {"arms": [{"name": name} for name in names], "spec": spec}


def _run(wall_s, rss):
    return {"wall_s": wall_s, "rss_peak_kib": rss, "metrics": {"wall": wall_s}}


def test_it_names_what_every_block_agrees_on_and_the_range_of_single_blocks():
    blocks = [{"a": [_run(1.0, 1000)], "b": [_run(wall, rss)]} for wall, rss in ((0.8, 700), (1.1, 690), (0.9, 710))]
    (text,) = early.estimate(_header("a", "b"), blocks)
    assert text == "b undecided against a in single blocks [-10, +25] %, in every block peak memory 30.0 % lower"
    blocks[1]["b"] = [_run(1.1, 1001)]
    (text,) = early.estimate(_header("a", "b"), blocks)
    assert "every block" not in text


def _rounds(*walls):
    return [_run(wall, 1000) | {"schedule": "together"} for wall in walls]


def test_sides_that_share_a_processor_are_estimated_from_their_rounds():
    blocks = [{"a": _rounds(1.0, 1.0), "b": _rounds(*walls)} for walls in ((0.8, 0.7), (0.9, 0.8))]
    (text,) = early.estimate(_header("a", "b"), blocks)
    assert "in single rounds" in text and text.endswith("[11, 43]")
    assert early.title(blocks) == "First estimate after 2 blocks, still undecided"
    assert early.estimate(_header("a", "b"), blocks[:1]) == []
    assert early.title(blocks[:1]) == "2 runs each: no estimate yet"


@pytest.mark.parametrize("sides", [2, 6])
def test_the_executions_before_the_first_estimate(here, modelled, monkeypatch, sides):
    """Of a program of half a second: one trial of each side, and four rounds."""
    at, say = [], Progress.say
    monkeypatch.setattr(Progress, "say", lambda self, text: at.append((text, len(modelled.calls))) or say(self, text))
    burn = modelled(lambda _: {"wall_s": 0.5, "user_s": 0.5, "system_s": 0.0}, "burn")
    names = ["glibc", "default", *(f"glibc,A={number}" for number in range(sides - 2))]
    here("compare", "--allocators", *names, "--margin", "10%", "--", burn)
    (executions,) = [calls for text, calls in at if text.startswith("first estimate after 2 blocks")]
    assert executions == sides + 4 * sides


@pytest.mark.parametrize("slower", [1.0, 1.03])
def test_the_executions_up_to_a_verdict_at_a_margin_of_one_percent(here, modelled, slower):
    """Of a program of half a second whose runs spread by 0.5 %: some 25 s on two processors, wall time included."""
    noise = random.Random(3)

    def model(execution):
        used_s = noise.gauss(0.5, 0.0025) * (slower if "A" in execution.env else 1)
        return {"wall_s": used_s, "user_s": used_s, "system_s": 0.0}

    sides = ("--control", "glibc", "--treatment", "glibc,A=1")
    result = here("ab", *sides, "--margin", "1%", "--quiet", "--json", "-", "--", modelled(model, "burn")).result()
    assert result["verdict"] == ("NEUTRAL" if slower == 1 else "NO-GO")
    assert len(modelled.calls) == 2 + 4 * result["blocks"] + 2 * 8 <= 66


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_blocks_give_no_estimate(count):
    blocks = [{"a": [_run(4.1, 1000)], "b": [_run(1.0, 700)]}] * count
    assert not early.estimate(_header("a", "b"), blocks)
    assert early.title(blocks) == f"{count} run{'s' * (count > 1)} each: no estimate yet"


def test_the_best_arm_comes_first_and_one_without_a_figure_is_left_out():
    block = {"a": [_run(1.0, 10)], "b": [_run(1.2, 10)], "c": [_run(0.5, 10)]}
    texts = early.estimate(_header("a", "b", "c", "d"), [block] * 3)
    assert [text.split()[0] for text in texts] == ["c", "b"]
    assert "2.0 × as fast" in texts[0] and as_ratio(0.0) == 0


@pytest.mark.parametrize(
    ("text", "arms"),
    [
        ("glibc,hakmem", ["glibc", "hakmem"]),
        ("glibc, hakmem,", ["glibc", "hakmem"]),
        ("hakmem,A=1,B=2", ["hakmem,A=1,B=2"]),
        ("a,b,jemalloc,MALLOC_CONF=x:1,y:2", ["a", "b", "jemalloc,MALLOC_CONF=x:1,y:2"]),
        ("./lib.so", ["./lib.so"]),
    ],
)
def test_commas_separate_allocators(text, arms):
    assert separated(text) == arms


@pytest.mark.parametrize("word", ["pdf", "wsl", "hakmen2"])
def test_names_are_suggested_only_where_they_are_close(word):
    from hakmem_lab.errors import nearest

    hint = nearest(word, ["glibc", "hakmem", "wall"])
    assert hint.startswith("did you mean" if word == "hakmen2" else "there are ")
