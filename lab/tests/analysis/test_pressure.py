"""What two arms at once do to each other, in a sentence that fits the kind of run."""

import pytest

from hakmem_lab.judge.failing import shared

ARMS = [{"name": "A"}, {"name": "B"}]


def header(kind: str, duet: bool = True) -> dict:
    return {"kind": kind, "arms": ARMS, "spec": {"duet": duet, "higher-is-better": False}}


def records(alone: float, company: float) -> list[dict]:
    return [
        {"type": "run", "arm": arm["name"], "phase": phase, "ok": True, "value": value}
        for arm in ARMS
        for phase, value in (("solo", alone), ("solo", alone), ("measure", company), ("measure", company))
    ]


def test_of_two_arms_each_has_its_figure() -> None:
    text = shared(header("ab"), records(1.0, 1.25))
    assert "(A 25 %, B 25 %)" in text and "the difference is one under that pressure" in text


def test_an_aa_has_no_arms_to_tell_apart() -> None:
    text = shared(header("aa"), records(1.0, 1.25))
    assert text.startswith("two runs at once need 25 % more than one alone: ")
    assert "the difference" not in text and "without --duet" not in text


@pytest.mark.parametrize("kind", ["ab", "aa"])
def test_where_they_do_not_nothing_is_said(kind: str) -> None:
    assert shared(header(kind), records(1.0, 1.05)) is None
    assert shared(header(kind, duet=False), records(1.0, 1.5)) is None
