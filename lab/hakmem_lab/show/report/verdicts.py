"""The verdict as a reader meets it first: a word, a shape, a tone and one plain sentence.

May import: answers, model, numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from hakmem_lab.show import answers
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun, Record
from hakmem_lab.show.report.numbers import finite

EARLIER_NAMED = 5


@dataclass(frozen=True)
class Verdict:
    """`tone` is one of go, no-go, neutral, inconclusive, and chooses colour and shape. answer: what was found, as the
    headline; sentence: what is to be said besides."""

    word: str
    tone: str
    answer: str
    sentence: str


_TONES = {"GO": "go", "NO-GO": "no-go", "NEUTRAL": "neutral", "INCONCLUSIVE": "inconclusive"}


def verdict(run: LoadedRun) -> Verdict:
    """The verdict of a run, and its answer in words."""
    result = run.result
    if not result:
        return Verdict("NO RESULT YET", "inconclusive", "The run has not been analysed.", "")
    word, tone = _word(result)
    first, more = answers.said(result)
    return Verdict(word, tone, first or _LAST_WORDS[tone], more)


_LAST_WORDS = {
    "go": "Better by more than chance explains.",
    "no-go": "Worse by more than chance explains.",
    "neutral": "The difference, if there is one, is too small to matter.",
    "inconclusive": "Not decided: the runs so far do not tell.",
}


def _word(result: Record) -> tuple[str, str]:
    """(word, tone): the verdict; of kinds that give none, what they found."""
    word = str(result.get("verdict") or "")
    if word in _TONES:
        return word, _TONES[word]
    machine = result.get("aa") or {}
    if machine.get("fit") is not None:
        if machine.get("state") == "open":
            return "NOT SHOWN TO BE FIT", "inconclusive"
        return ("FIT TO MEASURE", "go") if machine["fit"] else ("NOT FIT TO MEASURE", "no-go")
    for kind in ("soak", "syscalls"):
        if kind in result:
            return _passed((result[kind] or {}).get("passed"))
    milestones = (result.get("suite") or {}).get("milestones") or []
    if milestones:
        met = sum(bool(milestone.get("met")) for milestone in milestones)
        plural = "" if len(milestones) == 1 else "S"
        tone = "go" if met == len(milestones) else "inconclusive"
        return f"{met} OF {len(milestones)} MILESTONE{plural} MET", tone
    return _of_several(result)


def _of_several(result: Record) -> tuple[str, str]:
    """Of comparisons without one verdict for all: a winner, better and worse ones, or nothing decided."""
    words = {str(row.get("verdict") or "") for row in answers.primary(result)} - {""}
    effects = [answers.sure(row) for row in result.get("effects") or []]
    if "GO" in words:
        return ("CLEAR WINNER" if answers.winner(result) else "BETTER ONES FOUND"), "go"
    if words == {"NEUTRAL"}:
        return "NO DIFFERENCE THAT MATTERS", "neutral"
    if words and words <= {"NO-GO", "NEUTRAL"}:
        return "NONE BETTER", "no-go"
    if words or result.get("final") is False:
        return "NOT DECIDED", "inconclusive"
    if effects:
        return ("EFFECTS FOUND", "go") if any(effects) else ("NO EFFECT FOUND", "neutral")
    return "MEASURED", "neutral"


def _passed(passed: object) -> tuple[str, str]:
    if passed is None:
        return "NOT JUDGED", "inconclusive"
    return ("PASSED", "go") if passed else ("FAILED", "no-go")


def facts(run: LoadedRun) -> list[tuple[str, str]]:
    """The few numbers that stand beside the verdict, as (name, text)."""
    result = run.result
    shown: list[tuple[str, str]] = []
    comparison = answers.lead(result)
    single = len(result.get("comparisons") or []) == 1 or result.get("verdict") or "selection" in result
    if comparison and single and finite(comparison.get("estimate")) is not None:
        level = finite(comparison.get("level"))
        name = "Interval" if level is None else f"{level * 100:.3g}{numbers.THIN}% interval"
        found = answers.change_of(result, comparison)
        shown.append(("Change", found.text))
        shown.append((name, found.between or "open: too few blocks for one"))
    shown += _own_facts(result)
    if finite(result.get("margin")) is not None and (result.get("comparisons") or result.get("effects")):
        shown.append(("Margin that matters", f"±{answers.margin_text(result)}"))
    metric = result.get("metric") or {}
    if metric.get("name"):
        better = "higher is better" if metric.get("higher_is_better") else "lower is better"
        shown.append(("Metric", f"{run.metric_name} ({better})"))
    if (finite(result.get("blocks")) or 0) > 1:
        most = finite(result.get("max_blocks"))
        shown.append(("Blocks", numbers.number(result["blocks"]) + (f" of {numbers.number(most)}" if most else "")))
    return shown


def earlier(run: LoadedRun) -> str:
    """What a reader should know of earlier runs of the same question: each is another chance for a false verdict."""
    header = run.header
    before = header.get("earlier") or header.get("earlier_runs")
    count = len(before) if isinstance(before, (list, tuple)) else finite(before)
    if not count:
        return ""
    named = ", ".join(map(_try, before[:EARLIER_NAMED])) if isinstance(before, (list, tuple)) else ""
    more = f" and {len(before) - EARLIER_NAMED} more" if named and len(before) > EARLIER_NAMED else ""
    times = f"{count:.0f} earlier run{'s' if count > 1 else ''} of the same question"
    return f"{times}{f' ({named}{more})' if named else ''}: of many tries one looks good by chance."


def _try(each: object) -> str:
    """An earlier run: its id, with the verdict where it is known."""
    if not isinstance(each, dict):
        return str(each)
    return f"{each.get('id')}: {each.get('verdict') or 'no verdict'}"


def false_rates(machine: Record) -> dict[str, float]:
    """Shares of false GO and NO-GO in an A/A test, which gives counts of its resamples or the shares themselves."""
    resamples = finite(machine.get("resamples"))
    rates = {}
    for name, key in (("False GO", "false_go"), ("False NO-GO", "false_no_go")):
        value = finite(machine.get(key))
        if value is not None:
            rates[name] = value / resamples if isinstance(machine[key], int) and resamples else value
    return rates


def _own_facts(result: Record) -> list[tuple[str, str]]:
    """Facts of a soak and of an A/A test."""
    shown = []
    soak, machine = result.get("soak") or {}, result.get("aa") or {}
    if finite(soak.get("rss_slope_mib_per_h")) is not None:
        ends = f"[{numbers.number(soak.get('slope_low'))}, {numbers.number(soak.get('slope_high'))}]"
        shown.append(("Memory slope", f"{numbers.number(soak['rss_slope_mib_per_h'])} {ends} MiB/h"))
        shown.append(("Duration", numbers.seconds(soak.get("duration_s"))))
    if machine:
        rates = [numbers.percent(rate) for rate in (*false_rates(machine).values(), machine.get("bound"))]
        shown.append(("False GO, false NO-GO", ", ".join(rates[:2])))
        shown.append(("False verdicts allowed", f"at most {rates[-1]}"))
        if finite(machine.get("noise_percent")) is not None:
            shown.append(("Noise of one run", f"{numbers.number(machine['noise_percent'])} %"))
    return shown
