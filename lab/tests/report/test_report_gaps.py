"""A run in which something is missing still gives a valid page."""

from __future__ import annotations

import pytest
from factories import MAKERS, compare
from report_html import Page

from hakmem_lab.judge.explain import explain
from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.page import render


def mistakes(*runs: LoadedRun) -> list[str]:
    return Page(render(runs, {})).mistakes


def _without(value: object, key: str) -> object:
    if isinstance(value, dict):
        return {name: _without(each, key) for name, each in value.items() if name != key}
    return [_without(each, key) for each in value] if isinstance(value, list) else value


def _keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in _keys(each)}
    return {key for each in value for key in _keys(each)} if isinstance(value, list) else set()


def _nulled(value: object, key: str) -> object:
    if isinstance(value, dict):
        return {name: None if name == key else _nulled(each, key) for name, each in value.items()}
    return [_nulled(each, key) for each in value] if isinstance(value, list) else value


def _smaller(kind: str) -> LoadedRun:
    run = MAKERS[kind]()
    return LoadedRun(run.header, run.runs[:24], run.samples[:30], result=run.result)


@pytest.mark.parametrize(
    "kind", [kind if kind == "ab" else pytest.param(kind, marks=pytest.mark.long) for kind in MAKERS]
)
def test_any_single_key_may_be_missing_or_null(kind: str) -> None:
    run = _smaller(kind)
    variants = [
        LoadedRun(run.header, run.runs, run.samples, result=change(run.result, key))
        for key in sorted(_keys(run.result))
        for change in (_without, _nulled)
    ]
    # Few runs on each page, so that the limit on pictures leaves none out.
    for start in range(0, len(variants), 8):
        assert mistakes(*variants[start : start + 8]) == []
    headers = [change(run.header, key) for key in sorted(_keys(run.header)) for change in (_without, _nulled)]
    assert mistakes(*(LoadedRun(header, run.runs, run.samples, result=run.result) for header in headers)) == []


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_found_is_told_without_any_single_key(kind: str) -> None:
    result = _smaller(kind).result
    for key in sorted(_keys(result)):
        for change in (_without, _nulled):
            assert explain(change(result, key)).headline, (key, change.__name__)


@pytest.mark.parametrize("key", ["value", "block", "arm", "started", "phase", "ok", "attempt"])
def test_any_key_of_a_run_record_may_be_missing(key: str) -> None:
    run = compare()
    for record in run.runs:
        record.pop(key)
    assert mistakes(run) == []
