"""The verdict as a reader meets it first: a word, a shape, a tone and one plain sentence.

May import: model, numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from hakmem_lab.report import numbers
from hakmem_lab.report.model import LoadedRun, Record
from hakmem_lab.report.numbers import finite


@dataclass(frozen=True)
class Verdict:
    """`tone` is one of go, no-go, neutral, inconclusive, and chooses colour and shape."""

    word: str
    tone: str
    sentence: str


_OF_WORD = {
    "GO": ("go", "The treatment is surely better than the control."),
    "NO-GO": ("no-go", "The treatment is surely worse than the control, or breaks what was to be kept."),
    "NEUTRAL": ("neutral", "The difference, if there is one, is too small to matter."),
    "INCONCLUSIVE": ("inconclusive", "The runs so far do not tell; more blocks are needed."),
}


def verdict(run: LoadedRun) -> Verdict:
    """The verdict of a run; for kinds that give none, what they found: passed, fit, milestones met, measured."""
    result = run.result
    headline = str(result.get("headline") or "")
    word = str(result.get("verdict") or "")
    if word in _OF_WORD:
        tone, sentence = _OF_WORD[word]
        return Verdict(word, tone, headline or sentence)
    other = _other(result)
    return Verdict(other.word, other.tone, headline or other.sentence)


def _other(result: Record) -> Verdict:
    if "aa" in result:
        fit = (result["aa"] or {}).get("fit")
        if fit is not None:
            return (
                Verdict("FIT TO MEASURE", "go", "This machine can be trusted to tell programs apart.")
                if fit
                else Verdict("NOT FIT TO MEASURE", "no-go", "Verdicts of this machine cannot be trusted yet.")
            )
    for kind in ("soak", "syscalls"):
        if kind in result:
            return _passed((result[kind] or {}).get("passed"))
    milestones = (result.get("scorecard") or {}).get("milestones") or []
    if milestones:
        met = sum(bool(milestone.get("met")) for milestone in milestones)
        tone = "go" if met == len(milestones) else "inconclusive"
        plural = "" if len(milestones) == 1 else "S"
        return Verdict(f"{met} OF {len(milestones)} MILESTONE{plural} MET", tone, "See each milestone below.")
    if not result:
        return Verdict("NO RESULT YET", "inconclusive", "The run has not been analysed.")
    return Verdict("MEASURED", "neutral", "Measured; no verdict was asked for.")


def _passed(passed: object) -> Verdict:
    if passed is None:
        return Verdict("MEASURED", "neutral", "Measured; there was no budget to hold, or not enough data to tell.")
    if passed:
        return Verdict("PASSED", "go", "The run stayed within its budget.")
    return Verdict("FAILED", "no-go", "The run did not stay within its budget.")


def lead(result: Record) -> Record | None:
    """The comparison that the verdict is about: the confirmation of a sweep, else the first of the primary metric."""
    confirmation = (result.get("selection") or {}).get("confirmation")
    if confirmation:
        return confirmation
    primary = (result.get("metric") or {}).get("name")
    comparisons = result.get("comparisons") or []
    return next((c for c in comparisons if primary is None or c.get("metric") in (None, primary)), None)


def facts(run: LoadedRun) -> list[tuple[str, str]]:
    """The few numbers that stand beside the verdict, as (name, text)."""
    result = run.result
    shown: list[tuple[str, str]] = []
    comparison = lead(result)
    single = len(result.get("comparisons") or []) == 1 or result.get("verdict") or "selection" in result
    if comparison and single and finite(comparison.get("estimate")) is not None:
        level = finite(comparison.get("level"))
        name = "Interval" if level is None else f"{level * 100:.3g}{numbers.THIN}% interval"
        shown.append(("Change", numbers.percent(comparison.get("estimate"))))
        shown.append((name, numbers.interval(comparison.get("ci_low"), comparison.get("ci_high"))))
    shown += _own_facts(result)
    if finite(result.get("margin")) is not None and (result.get("comparisons") or result.get("effects")):
        shown.append(("Margin that matters", f"±{numbers.percent(result['margin'], signed=False)}"))
    metric = result.get("metric") or {}
    if metric.get("name"):
        better = "higher is better" if metric.get("higher_is_better") else "lower is better"
        shown.append(("Metric", f"{run.metric_name} ({better})"))
    if (finite(result.get("blocks")) or 0) > 1:
        most = finite(result.get("max_blocks"))
        shown.append(("Blocks", numbers.number(result["blocks"]) + (f" of {numbers.number(most)}" if most else "")))
    if finite(result.get("more_blocks")):
        shown.append(("Would settle it", f"about {numbers.number(result['more_blocks'])} more blocks"))
    return shown


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
        rates = [numbers.percent(rate, signed=False) for rate in (*false_rates(machine).values(), machine.get("bound"))]
        shown.append(("False GO, false NO-GO", ", ".join(rates[:2])))
        shown.append(("False verdicts allowed", f"at most {rates[-1]}"))
        if finite(machine.get("noise_percent")) is not None:
            shown.append(("Noise of one run", f"{numbers.number(machine['noise_percent'])} %"))
    return shown
