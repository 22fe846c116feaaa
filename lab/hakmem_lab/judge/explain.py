"""A result in words. Terminal, page, JSON, comments and stored results all show these words.

Data: a result states facts. `verdict`; `comparisons`, each with its estimate, its interval and what held its verdict
back; `guardrails`; `withheld`, the reason for giving no verdict; and the parts of single kinds, which `findings` reads.
Output: `Explanation`. Pure.

Rules: if a verdict is withheld, only the reason is given. Otherwise each side has a clause in the grammar of `words`,
with its limits and costs behind it. Reasons say what keeps a verdict back. With GO and NEUTRAL, a caveat says what the
runs cannot have seen.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from hakmem_lab.judge import findings, words
from hakmem_lab.judge.conditions import sentences
from hakmem_lab.judge.digits import finite
from hakmem_lab.judge.unseen import unseen
from hakmem_lab.judge.warnings import Warn, ordered
from hakmem_lab.judge.words import Change, listed
from hakmem_lab.plan.schedule import of_figure
from hakmem_lab.store.results import Comparison, Estimate, GuardrailRow, Result

Said = tuple[list[str], list[str]]  # clauses, reasons

TONES = {"GO": "go", "NO-GO": "no-go", "NEUTRAL": "neutral", "INCONCLUSIVE": "inconclusive"}
_LAST_WORDS = {
    "go": "Better by more than chance explains",
    "no-go": "Worse by more than chance explains",
    "neutral": "Any difference is inside the margin",
    "inconclusive": "Undecided by the runs so far",
}


@dataclass(frozen=True)
class Explanation:
    """verdict: of the whole run, empty if it has none; word: the verdict, or a summary of the finding if the kind gives
    none; tone: go, no-go, neutral or inconclusive. clauses: the finding, one for each side, without a full stop;
    reasons: sentences on what keeps a verdict back; caveats: sentences on what the runs cannot have seen."""

    verdict: str
    word: str
    tone: str
    clauses: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        return "; ".join(self.clauses)

    @property
    def more(self) -> str:
        """Reasons and caveats as one text."""
        return " ".join((*self.reasons, *self.caveats))

    @property
    def words(self) -> str:
        return f"{self.headline}. {self.more}".rstrip()

    @property
    def line(self) -> str:
        return f"{self.verdict}: {self.words}" if self.verdict else self.words

    def record(self) -> Result:
        return {"headline": self.headline, "answer": self.words, "reasons": [*self.reasons], "caveats": [*self.caveats]}


def explained(analyse: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates `analyse`: adds the explanation in words to its results, and a sentence to each comparison."""

    @wraps(analyse)
    def complete(*args: Any) -> Result:
        result = analyse(*args)
        result["warnings"] = ordered(result.get("warnings") or [])
        for row in result.get("comparisons") or []:
            row.setdefault("schedule", of_figure(result.get("schedule"), row.get("metric", "")))
            row["sentence"] = sentence(result, row)
        return result | explain(result).record()

    return complete


def explain(result: Result) -> Explanation:
    if not result:
        return Explanation("", "NO RESULT YET", "inconclusive", ("The run has not been analysed",))
    (word, tone), withheld = _word(result), str(result.get("withheld") or "")
    clauses, reasons = ([withheld], result.get("so_far") or []) if withheld else _said(result)
    caveats = [Warn.BY_CHANCE.said(text=text) for text in result.get("by_chance") or []]
    caveats += [Warn.UNSEEN.said(text=text) for text in ([] if torn(result) else unseen(result))]
    caveats = [] if withheld else caveats
    clauses = [text.removesuffix(".") for text in clauses if text] or [_LAST_WORDS[tone]]
    reasons = [*reasons, *sentences(result), *(row["sentence"] for row in result.get("money") or [])]
    verdict = str(result.get("verdict") or "")
    return Explanation(verdict, word, tone, tuple(clauses), tuple(reasons), tuple(caveats))


def _said(result: Result) -> Said:
    rows, first = primary(result), lead(result)
    found: Said = [*map(str, (result.get("failed") or {}).values())], []
    if first is not None:
        found = _several(result, rows) if _are_several(result, rows) else _pair(result, first)
    if own := findings.of(result, "finding"):
        headline, *reasons = own(result)
        return [headline] if headline else found[0], [*found[1], *reasons]
    return found


def _word(result: Result) -> tuple[str, str]:
    """(word, tone). Sides with verdicts of their own are counted: 1 GO, 2 NEUTRAL."""
    word = str(result.get("verdict") or "")
    if word in TONES:
        return word, TONES[word]
    if (own := findings.of(result, "word")) and (found := own(result)):
        return found
    counts = Counter(str(row["verdict"]) for row in primary(result) if row.get("verdict"))
    if counts:
        best = next((word for word in ("GO", "INCONCLUSIVE", "NO-GO") if word in counts), "NEUTRAL")
        return ", ".join(f"{counts[word]} {word}" for word in TONES if word in counts), TONES[best]
    return ("NO VERDICT YET", "inconclusive") if result.get("final") is False else ("MEASURED", "neutral")


# Which comparisons a verdict is about
def lead(result: Result) -> Comparison | None:
    """The comparison that the verdict is about: the confirmation of a sweep, else the first of the primary metric."""
    confirmation = (result.get("selection") or {}).get("confirmation")
    return confirmation or next(iter(primary(result)), None)


def primary(result: Result) -> list[Comparison]:
    name = (result.get("metric") or {}).get("name")
    rows = result.get("comparisons") or []
    return [row for row in rows if name is None or row.get("metric") in (None, name)]


def _are_several(result: Result, rows: Sequence[Comparison]) -> bool:
    """Whether each arm has its own verdict, rather than the run having one."""
    several = len(rows) + len(result.get("failed") or {}) > 1
    return several and bool(not result.get("verdict") or (len(rows) > 1 and rows[1].get("verdict")))


def change_of(result: Result, row: Estimate) -> Change | None:
    """The change of a comparison, in its own metric or else the result's. `mean of …`: the primary metric's mean.
    With NEUTRAL, the narrower interval by which it was decided."""
    ends: Estimate = {"ci_low": row.get("equivalence_low"), "ci_high": row.get("equivalence_high")}
    narrow = row.get("verdict") == "NEUTRAL" and None not in ends.values()
    return words.change(row | ends if narrow else row, words.described(result, row.get("metric")))


def within(result: Result, row: Estimate) -> str:
    """The margin, if all of the change is inside it; else empty."""
    return margin_text(result) if row.get("verdict") == "NEUTRAL" else ""


def margin_text(result: Result) -> str:
    margin, base = finite(result.get("margin")), words.described(result).get("base")
    if margin is None:
        return words.UNKNOWN
    return words.amount(margin * base, words.described(result)["unit"]) if base else f"{margin * 100:g} %"


def torn(result: Result) -> bool:
    """Whether the typical run and the mean of all runs point in opposite directions."""
    row = lead(result) or {}
    return bool(row.get("torn") or result.get("torn"))


# The clause of one side
def _names(result: Result, row: Comparison) -> tuple[str, str]:
    treatment, control = str(row.get("treatment") or "the treatment"), str(row.get("control") or "the control")
    arms = [str(arm.get("name")) for arm in result.get("arms") or []]
    short = words.short_names(arms) if treatment in arms and control in arms else {}
    return short.get(treatment, treatment), short.get(control, control)


def sentence(result: Result, row: Comparison) -> str:
    """The comparison in the grammar of verdicts; empty without an estimate."""
    found = change_of(result, row)
    return words.sentence(*_names(result, row), found, within(result, row)) if found else ""


def _clause(result: Result, row: Comparison) -> str:
    """The sentence, then the limits that are broken, the other average if it contradicts, and other metrics."""
    said, found = sentence(result, row), change_of(result, row)
    if found is None:
        return said
    if row.get("torn") and (mean := _mean_of(result, row)):
        return f"{said}, but by the mean of all runs {mean.told()}"
    failed = _rails(result, row, "failed")
    if failed and (found.sure > 0 or row.get("verdict") == "NEUTRAL"):
        return f"{said}, but {' and '.join(_broken(result, rail) for rail in failed)}"
    decided = found.sure if row.get("verdict") != "NEUTRAL" else 0
    return ", ".join([said, *beside(result, row, -decided)])


def _broken(result: Result, rail: GuardrailRow) -> str:
    """peak memory 13 % higher [12, 15] breaks the limit of 5 % higher"""
    change = change_of(result, rail)
    name = change.named() if change else words.metric_name(result, rail.get("metric"))
    return f"{name} breaks the limit of {tolerated(result, rail)}"


def _doubts(result: Result, row: Comparison) -> list[str]:
    """Sentences on what keeps a verdict back, or what it does not claim."""
    found, verdict = change_of(result, row), row.get("verdict")
    if found is None:
        return []
    if torn(result) or row.get("torn"):
        return _both_averages(result, row)
    texts = []
    if row.get("mean_open"):
        mean = _mean_of(result, row)
        texts.append(f"Mean of all runs: {mean.told()}." if mean else "The mean of all runs does not show it.")
    if found.sure and verdict != "NEUTRAL" and finite(result.get("margin")) is not None and not _beyond(result, row):
        texts.append(f"Whether the difference reaches the margin of {margin_text(result)} is undecided.")
    if verdict == "INCONCLUSIVE":
        texts += _why_open(result, row, found)
        texts += [
            f"Whether {words.metric_name(result, rail.get('metric'))} keeps the limit of {tolerated(result, rail)} is "
            "undecided."
            for rail in _rails(result, row, "open")
        ]
    return texts


def _why_open(result: Result, row: Comparison, found: Change) -> list[str]:
    count, least = finite(row.get("blocks")), finite(row.get("least_blocks"))
    unit = result.get("counted", "blocks")
    if row.get("consistent") is False:
        return ["The effect changed during the run, so no single size describes it: hak runs report shows its blocks."]
    if found.sure:
        return []
    if count is not None and least is not None and count < least:
        return [f"{count:.0f} {unit} are too few for a verdict: at least {least:.0f} are needed."]
    if count is not None and not found.ends:
        return [f"{count:.0f} {unit} are too few for a verdict at this early look."]
    return ["Better, equal and worse are all still possible."]


def _beyond(result: Result, row: Comparison) -> bool:
    """Whether all of the interval is at least the margin away from no change."""
    if row.get("at_least_margin") is not None:
        return bool(row["at_least_margin"])
    ends = [abs(end) for name in ("ci_low", "ci_high") if (end := finite(row.get(name))) is not None]
    return min(ends, default=0.0) >= (finite(result["margin"]) or 0.0)


def _rails(result: Result, row: Comparison, status: str) -> list[GuardrailRow]:
    """The guardrails of the row's arm that have this status."""
    rails = [rail for rail in result.get("guardrails") or [] if rail.get("status") == status]
    return [rail for rail in rails if rail.get("arm") in (None, row.get("treatment"))]


def tolerated(result: Result, guardrail: GuardrailRow) -> str:
    """The change that a guardrail tolerates: 5 % higher."""
    limit, described = finite(guardrail.get("limit")), words.described(result, guardrail.get("metric"))
    return "" if limit is None else words.tolerated(limit, described)


def beside(result: Result, row: Comparison, side: int = 0) -> list[str]:
    """Changes of other metrics by at least the margin, each with an interval without 0: peak memory 83 % higher
    [80, 86]. side: 1 gains, -1 losses, 0 both."""
    margin, found = finite(result.get("margin")) or 0.0, []
    for other in result.get("comparisons") or []:
        own = other.get("treatment") == row.get("treatment") and not other.get("verdict")
        way, estimate = words.sure(other), finite(other.get("estimate"))
        if not own or not way or estimate is None or other.get("metric") not in words.BESIDE or side not in (0, way):
            continue
        if max(estimate, 1 / (1 + estimate) - 1) >= margin and (change := words.change(other, other["metric"])):
            found.append((-way, f"{'whole run ' * change.style.speed}{change.named()}"))
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]


def _mean_row(result: Result, row: Comparison) -> Comparison | None:
    """The comparison of the same arm by its mean."""
    others = (other for other in result.get("comparisons") or [] if other.get("treatment") == row.get("treatment"))
    return next((other for other in others if re.match(r"(service-)?mean( of|$)", str(other.get("metric")))), None)


def _mean_of(result: Result, row: Comparison) -> Change | None:
    mean = _mean_row(result, row)
    return change_of(result, mean) if mean else None


def _both_averages(result: Result, row: Comparison) -> list[str]:
    """How many runs were far off, where the typical block and the mean of all runs point in opposite directions."""
    mean = _mean_row(result, row)
    if mean is None or not mean.get("far_off"):
        return ["The typical block and the mean of all runs point in opposite directions."]
    treatment, control = _names(result, row)
    (theirs, ours), (of_control, of_treatment) = mean["far_off"], mean["runs"]
    return [
        f"{ours} of the {of_treatment} runs of {treatment} and {theirs} of the {of_control} of {control} were more "
        "than twice as bad as the median.",
        "No rule decides which of the two averages matters.",
    ]


# Whole results
def _pair(result: Result, row: Comparison) -> Said:
    row = row | {"verdict": result.get("verdict") or row.get("verdict"), "torn": torn(result)}
    return [_clause(result, row)], _doubts(result, row)


def _several(result: Result, rows: Sequence[Comparison]) -> Said:
    """Several arms against a baseline, the best first. Undecided and equal arms share a clause."""
    failed, clauses = result.get("failed") or {}, list[str]()
    ranked = sorted(rows, key=lambda row: finite(row.get("estimate")) or 0.0, reverse=True)
    kept = [row for row in ranked if row.get("treatment") not in failed and change_of(result, row)]
    by = {word: [row for row in kept if row.get("verdict") == word] for word in TONES}
    for word in ("GO", "NO-GO"):
        clauses += [_clause(result, row) for row in by[word][: words.NAMED]]
        clauses += [f"{more} more {word}"] if (more := len(by[word]) - words.NAMED) > 0 else []
    alike = [row for row in by["NEUTRAL"] if not beside(result, row) and not _rails(result, row, "failed")]
    clauses += _shared(result, alike, f"within {margin_text(result)} of")
    clauses += [_clause(result, row) for row in by["NEUTRAL"] if row not in alike]
    clauses += [_clause(result, row) for row in by["INCONCLUSIVE"] if words.sure(row)]
    unclear = [row for row in by["INCONCLUSIVE"] if not words.sure(row)]
    clauses += _shared(result, unclear, f"{words.UNDECIDED} against")
    reasons = [f"{_clause(result, row)}." for row in unclear if len(unclear) > 1]
    doubts: dict[str, list[str]] = {}
    for row in kept:
        for text in _doubts(result, row):
            doubts.setdefault(text, []).append(_names(result, row)[0])
    doubts.pop("Better, equal and worse are all still possible.", None)
    reasons += [f"{listed(names)}: {text}" for text, names in doubts.items()]
    return [*clauses, *map(str, failed.values())], reasons


def _shared(result: Result, rows: Sequence[Comparison], said: str) -> list[str]:
    """One clause for all of these arms; a single one has its interval there."""
    if len(rows) < 2:
        return [_clause(result, row) for row in rows]
    found, names = change_of(result, rows[0]), [_names(result, row)[0] for row in rows]
    return [f"{listed(names)} {found.noun if found else ''}{said} {_names(result, rows[0])[1]}"]
