"""The page is well formed, self-contained, accessible in structure, safe against hostile text, and tolerates gaps."""

from __future__ import annotations

import copy
import functools
import json
import math
import re
from pathlib import Path

import pytest
from factories import MAKERS, ab, every_kind, soak
from report_html import Page

from hakmem_lab.judge.explain import explain
from hakmem_lab.show import numbers
from hakmem_lab.show.report import LoadedRun, write
from hakmem_lab.show.report.page import PICTURE_BUDGET, embedded_json, render
from hakmem_lab.show.report.svg import COLOURS

pytestmark = pytest.mark.xdist_group("pages")  # one worker draws the page of each kind
HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)> & \"'$\\frac{x}$ \x00\ud83d!"


def page_of(*runs: LoadedRun, links: dict[str, str] | None = None) -> Page:
    return Page(render(runs, links or {}))


@functools.cache
def page_of_kind(kind: str) -> Page:
    """The page of this kind's made-up run, with a link to its file; cached, since drawing it takes a second."""
    run = MAKERS[kind]()
    return page_of(run, links={run.id: f"runs/{run.id}.jsonl"})


@pytest.mark.parametrize("kind", MAKERS)
def test_a_page_of_one_run_of_each_kind_is_without_mistakes(kind: str) -> None:
    run = MAKERS[kind]()
    page = page_of_kind(kind)
    assert page.mistakes == []
    article = page.all("article")[0][0]
    assert article["data-run-id"] == run.id
    assert article["data-kind"] == kind
    assert page.all("a", href=f"runs/{run.id}.jsonl")
    assert page.all("html")[0][0]["lang"] == "en"
    assert len(page.all("main")) == 1
    assert len(page.all("figure")) >= 1
    assert len(page.all("figure")) == len(page.all("details")) == len(page.all("svg", role="img"))
    assert numbers.typeset(explain(run.result).headline) in page.all("article")[0][1]


def test_a_page_of_many_runs_lists_each_and_links_to_it() -> None:
    runs = every_kind()
    page = page_of(*runs)
    assert page.mistakes == []
    entries = page.all("li")[: len(runs)]
    for run, (_, text) in zip(runs, entries, strict=True):
        assert run.question in text
        assert run.id in text
    assert [a["data-run-id"] for a, _ in page.all("article")] == [run.id for run in runs]
    assert page.all("title")[0][1] == "9 runs – hakmem laboratory"


def test_a_page_of_one_run_has_no_list_and_a_title_with_the_verdict() -> None:
    page = page_of_kind("ab")
    assert page.all("nav") == []
    assert page.all("title")[0][1] == "hakmem 2.1\u202f% faster than glibc [1.4, 2.8] – hakmem laboratory"


def test_a_page_without_runs_is_still_a_page() -> None:
    assert page_of().mistakes == []


def test_the_heading_is_the_answer_and_beside_it_are_word_and_interval() -> None:
    page = page_of_kind("ab")
    assert page.all("h2")[0][1].replace("\u202f", " ") == "GO: hakmem 2.1 % faster than glibc [1.4, 2.8]"
    assert page.all("article")[0][0]["data-verdict"] == "GO"
    facts = page.all("dl")[0][1].replace("\u202f", " ")
    assert "2.1 % faster" in facts
    assert "[1.4, 2.8] %" in facts


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("compare", "2 GO, 1 NO-GO, 1 NEUTRAL"),
        ("matrix", "INCONCLUSIVE"),
        ("sweep", "NEUTRAL"),
        ("soak", "PASSED"),
        ("syscalls", "FAILED"),
        ("latency", "MEASURED"),
        ("aa", "FIT TO MEASURE"),
        ("suite", "MEASURED"),
    ],
)
def test_each_kind_says_its_word(kind: str, word: str) -> None:
    assert page_of_kind(kind).all("article")[0][0]["data-verdict"] == word


def test_only_an_unfinished_run_is_called_interim() -> None:
    unfinished, finished = MAKERS["matrix"](), ab()
    assert "Interim." in page_of(unfinished).all("article")[0][1]
    assert "Interim." not in page_of(finished).all("article")[0][1]


def test_the_policy_of_the_page_forbids_the_network_and_scripts() -> None:
    policy = page_of_kind("ab").all("meta", http_equiv="Content-Security-Policy")[0][0]["content"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert "script-src" not in directives
    assert directives["img-src"] == "data:"


def _hostile(value: object) -> object:
    """Replaces every text by hostile text, except texts that the laboratory itself chooses."""
    kept = {"type", "kind", "phase", "verdict", "status", "created"}
    if isinstance(value, dict):
        return {key: each if key in kept else _hostile(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_hostile(each) for each in value]
    return f"{HOSTILE}{len(value)}" if isinstance(value, str) else value


@pytest.mark.parametrize("kind", MAKERS)
def test_hostile_text_is_shown_and_never_runs(kind: str) -> None:
    run = MAKERS[kind]()
    records = [run.header, *run.runs[:40], *run.samples[:40], *run.events, *run.decisions]
    loaded = LoadedRun.from_records([_hostile(record) for record in records], _hostile(run.result))
    text = render([loaded], {loaded.id: "javascript:alert(3)"})
    page = Page(text)
    assert page.mistakes == []
    assert "<script>" not in text
    assert "<img" not in text
    assert not [a for a, _ in page.all("a") if not a["href"].startswith("#")]
    assert "alert(1)" in page.all("p", **{"class": "question"})[0][1]


def test_the_embedded_result_reads_back_and_infinite_ends_are_null() -> None:
    run = ab()
    run.result["comparisons"][0] |= {"ci_low": -math.inf, "ci_high": math.inf}
    run.result["question"] = HOSTILE
    page = page_of(run)
    assert page.mistakes == []
    (attributes, text) = page.all("script")[0]
    assert attributes["data-run-id"] == run.id
    read = json.loads(text)
    assert read["comparisons"][0]["ci_low"] is None
    assert read["comparisons"][0]["estimate"] == 0.0211
    assert read["question"] == HOSTILE


def test_embedded_json_can_not_close_its_element() -> None:
    text = embedded_json({"a": "</script><!--", "b": [math.nan, (1, 2)]})
    assert not set(text) & set("<>&")
    assert json.loads(text) == {"a": "</script><!--", "b": [None, [1, 2]]}


def test_an_open_end_is_said() -> None:
    run = ab()
    run.result["comparisons"][0]["ci_high"] = None
    assert "[1.4, open] %" in page_of(run).all("dl")[0][1].replace("\u202f", " ")


def test_a_run_with_nothing_but_a_header_is_reported() -> None:
    run = ab()
    page = page_of(LoadedRun(run.header))
    assert page.mistakes == []
    assert page.all("article")[0][0]["data-verdict"] == "NO RESULT YET"


def test_a_page_of_very_many_runs_says_which_pictures_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = PICTURE_BUDGET // 4
    monkeypatch.setattr("hakmem_lab.show.report.page.PICTURE_BUDGET", budget)
    runs = [ab(4, seed=n) for n in range(20)]
    page = page_of(*runs)
    assert page.mistakes == []
    assert len(page.all("svg", role="img")) == 2 * budget
    texts = [text for _, text in page.all("article")]
    assert "only the leading picture is drawn" not in texts[0]
    assert "only the leading picture is drawn" in texts[budget // 3]
    assert "the pictures are left out" in texts[-1]
    assert "hak runs report" in texts[-1]


def test_failures_warnings_decisions_and_environment_are_on_the_page() -> None:
    run = ab()
    text = page_of(run).all("article")[0][1]
    for wanted in (
        "killed by signal 11",
        "The load average was 2.4 at block 31.",
        "by the user",
        "Adopt it.",
        "a person",
        "6.1.0",
        run.header["arms"][1]["sha256"],
        "libhakmem.so",
        "0123456789abcdef with changes",
    ):
        assert wanted in text


def test_a_suite_calls_better_only_what_its_interval_shows() -> None:
    run = MAKERS["suite"]()
    row = run.result["suite"]["rows"][0]
    row["arms"] = {
        "glibc": {"word": "faster", "ratio": 1.2, "ci_low": 1.1, "ci_high": 1.3},
        "mimalloc": {"word": "open", "ratio": 1.2, "ci_low": None, "ci_high": None},
        "jemalloc": {"word": "slower", "ratio": 0.97, "ci_low": 0.95, "ci_high": 0.99},
        "tcmalloc": {"word": "open", "ratio": 1.02, "ci_low": 0.98, "ci_high": 1.06},
    }
    row |= {"verdict": "miss ~", "to_reach": ">= 0.909 x leanest", "measured": "0.9 [open, open]"}
    chips = {text: a["class"] for a, text in page_of(run).all("span") if "chip" in a.get("class", "")}
    assert chips["▲ 20 % faster [10, 30]"] == "chip go strong"
    assert chips["? 20.0 % faster [open]"] == "chip inconclusive"
    assert chips["▼ 3 % slower [1, 5]"] == "chip no-go"
    assert chips["≈ undecided [-2, +6] %"] == "chip neutral"
    assert chips["✕ miss ~"] == "chip inconclusive"


def test_many_failures_are_counted_and_cut() -> None:
    run = ab()
    run.result["failures"] = [{"block": n, "arm": "hakmem", "why": f"reason {n}"} for n in range(500)]
    text = page_of(run).all("article")[0][1]
    assert "Failed runs: 500" in text
    assert "the first 200 are shown" in text
    assert "reason 199" in text
    assert "reason 200" not in text.split("application/json")[0].partition('"failures"')[0]


def test_raw_data_without_a_link_are_named_by_the_command_that_gives_them() -> None:
    run = soak(60)
    page = page_of(run)
    assert not [a for a, _ in page.all("a") if not a["href"].startswith("#")]
    assert f"hak runs export {run.id}" in page.all("article")[0][1]


def test_write_makes_one_file_of_utf8(tmp_path: Path) -> None:
    run = ab()
    before = copy.deepcopy(run.result)
    write([run], tmp_path / "report.html", {run.id: "a b.jsonl"})
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).mistakes == []
    assert run.result == before


def _luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


TEXT_PAIRS = [
    *((text, ground) for text in ("ink", "muted", "link") for ground in ("paper", "panel")),
    *((tone, ground) for tone in ("go", "no-go", "neutral", "inconclusive") for ground in (f"{tone}-tint", "paper")),
    *(("ink", f"{tone}-tint") for tone in ("go", "no-go", "neutral", "inconclusive")),
    *(("muted", "band"), ("ink", "band")),
    *((f"arm-{n}", "paper") for n in range(1, 9)),
]


@pytest.mark.parametrize(("text", "ground"), TEXT_PAIRS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrast_is_at_least_4_5(text: str, ground: str, scheme: str) -> None:
    colours = {colour.name: getattr(colour, scheme) for colour in COLOURS}
    assert _contrast(colours[text], colours[ground]) >= 4.5


def test_the_style_sheet_names_only_colours_of_the_palette() -> None:
    style = page_of_kind("ab").all("style")[0][1]
    known = {f"--{colour.name}" for colour in COLOURS} | {"--sans", "--serif", "--mono", "--tone", "--tint"}
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", style)) <= known
