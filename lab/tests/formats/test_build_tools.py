"""JUnit and GitHub's annotations: the name and verdict of each comparison, and the counts that fail a build."""

import re
import urllib.parse
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_results import NASTY, made, row

from hakmem_lab.errors import one_line
from hakmem_lab.judge import explain
from hakmem_lab.show import formats
from hakmem_lab.show.formats import VERDICTS, judgements

COMMAND = re.compile(r"^::(notice|warning|error) title=([^:,]*)::(.*)$")
RAIL = {"metric": "rss", "limit": 0.05, "estimate": -0.2, "ci_low": -0.3, "ci_high": -0.1, "status": "failed"}


def cases(result):
    (suite,) = ET.fromstring(formats.text("junit", [result]).encode())
    return suite, suite.findall("testcase")


def annotations(result):
    found = [COMMAND.fullmatch(line) for line in formats.text("github", [result]).splitlines()]
    assert all(found)
    return [(level, urllib.parse.unquote(title), urllib.parse.unquote(words)) for level, title, words in map(
        re.Match.groups, found)]  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "tag", "level"),
    [("GO", None, "notice"), ("NEUTRAL", None, "notice"), ("NO-GO", "failure", "error"),
     ("INCONCLUSIVE", "skipped", "warning"), (None, "skipped", "warning")],
)  # fmt: skip
def test_a_verdict(verdict, tag, level):
    result = made(verdict)
    suite, (case,) = cases(result)
    assert (suite.get("failures"), suite.get("skipped")) == (str(int(tag == "failure")), str(int(tag == "skipped")))
    assert [child.tag for child in case if child.tag != "system-out"] == ([tag] if tag else [])
    ((found, title, words),) = annotations(result)
    assert found == level
    assert title.startswith(verdict or "INCONCLUSIVE")
    assert words == f"{explain.explain(result).words} (run {result['id']})"


def test_a_guardrail_that_failed_is_a_case_of_its_own():
    suite, found = cases(made("NO-GO", guardrails=[RAIL]))
    assert [case.get("name") for case in found] == ["t against c: time", "guardrail: peak memory"]
    assert suite.get("failures") == "2"


def test_what_a_suite_could_not_finish_is_an_error():
    """A build tool that reads only this file must not see a success."""
    whole = made() | {"incomplete": ["workload 'one': glibc failed too often in block 0 (exit status 3)"]}
    (suite,) = ET.fromstring(formats.text("junit", [whole]).encode())
    assert (suite.get("tests"), suite.get("errors")) == (str(len(suite.findall("testcase"))), "1")
    (case,) = (case for case in suite.iter("testcase") if case.find("error") is not None)
    assert case.get("name") == "workload 'one'" and "exit status 3" in case.find("error").get("message")


def test_several_arms_have_a_verdict_each():
    rows = [row("GO"), row("NO-GO", name="u against c"), row(None, metric="rss")]
    found = judgements(made(None, comparisons=rows))
    assert [(case.name, case.verdict) for case in found] == [
        ("t against c: time", "GO"), ("u against c: time", "NO-GO")]  # fmt: skip


@pytest.mark.parametrize(("verdict", "wanted"), [("pass", "GO"), ("miss", "NO-GO"), ("pass ~", "INCONCLUSIVE"),
                                                 ("open", "INCONCLUSIVE")])  # fmt: skip
def test_a_bar_that_the_interval_holds_is_undecided(verdict, wanted):
    bar = {"workload": "w", "metric": "rate", "verdict": verdict, "measured": "1.1", "to_reach": ">= 1 x best"}
    found = judgements(made(None, comparisons=[], suite={"rows": [bar, bar | {"verdict": None}]}))
    assert [(case.name, case.verdict) for case in found] == [("w: rate >= 1 x best", wanted)]


@given(st.text(max_size=60))
def test_any_text_comes_back(words):
    result = made("NO-GO", withheld=words, comparisons=[])
    _, (case,) = cases(result)
    said = explain.explain(result).words
    assert words.removesuffix(".") in said
    assert case.find("failure").get("message") == one_line(said)
    assert annotations(result)[0][2] == one_line(f"{said} (run {result['id']})")


@pytest.mark.xdist_group("published")
def test_every_published_experiment(published):
    for name, result in published.items():
        found = judgements(result)
        assert found and all(case.verdict in VERDICTS for case in found), name
        assert len({case.name for case in found}) == len(found), name
        if result["verdict"]:
            assert found[0].verdict == result["verdict"]
        assert len(cases(result)[1]) == len(found)
        assert len(annotations(result)) == len(found) + len(result["warnings"])


def test_text_full_of_traps():
    result = made(withheld=NASTY, warnings=[NASTY])
    assert annotations(result)[0] == ("warning", "hak", NASTY)
