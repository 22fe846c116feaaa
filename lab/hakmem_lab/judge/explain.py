"""A result in words. Terminal, page, JSON, comments and stored results all show these words.

Data: a result states facts. `verdict`; `comparisons`, each with its estimate, its interval and what held its verdict
back; `guardrails`; `withheld`, the reason for giving no verdict; and the parts of single kinds, which `findings` reads.
Output: `Explanation`. Pure.

Rules: if a verdict is withheld, only the reason is given. For two arms: the difference, its cost, and how sure it is.
For several arms: which are better, worse, level, open. With GO and NEUTRAL, what the runs cannot have seen.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from hakmem_lab.judge import findings, words
from hakmem_lab.judge.conditions import sentences
from hakmem_lab.judge.unseen import unseen
from hakmem_lab.judge.words import Change, finite, listed

Record = dict[str, Any]
Said = tuple[str, list[str]]  # headline, reasons

TONES = {"GO": "go", "NO-GO": "no-go", "NEUTRAL": "neutral", "INCONCLUSIVE": "inconclusive"}
_LAST_WORDS = {
    "go": "Better by more than chance explains",
    "no-go": "Worse by more than chance explains",
    "neutral": "The difference, if there is one, is too small to matter",
    "inconclusive": "Not decided: the runs so far do not tell",
}


@dataclass(frozen=True)
class Explanation:
    """verdict: of the whole run, empty if it has none; word: the verdict, or a summary of the finding if the kind gives
    none; tone: go, no-go, neutral or inconclusive. headline: the finding, without a full stop; reasons: sentences on
    how sure it is and what would settle it; caveats: sentences on what the runs cannot have seen."""

    verdict: str
    word: str
    tone: str
    headline: str
    reasons: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

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

    def record(self) -> Record:
        return {"headline": self.headline, "answer": self.words, "reasons": [*self.reasons], "caveats": [*self.caveats]}


def explained(analyse: Callable[..., Record]) -> Callable[..., Record]:
    """Decorates `analyse`: adds the explanation in words to its results."""

    @wraps(analyse)
    def complete(*args: Any) -> Record:
        result = analyse(*args)
        for row in result.get("comparisons") or []:
            row.setdefault("schedule", result.get("schedule"))
        return result | explain(result).record()

    return complete


def explain(result: Record) -> Explanation:
    if not result:
        return Explanation("", "NO RESULT YET", "inconclusive", "The run has not been analysed")
    (word, tone), withheld = _word(result), str(result.get("withheld") or "")
    headline, reasons = (withheld, result.get("so_far") or []) if withheld else _said(result)
    reasons = [*reasons, *sentences(result)]
    caveats = [*(result.get("by_chance") or []), *([] if torn(result) else unseen(result))] if not withheld else []
    headline = headline.removesuffix(".") or _LAST_WORDS[tone]
    return Explanation(str(result.get("verdict") or ""), word, tone, headline, tuple(reasons), tuple(caveats))


def _said(result: Record) -> Said:
    rows, first = primary(result), lead(result)
    found: Said = ("; ".join(map(str, (result.get("failed") or {}).values())), [])
    if first is not None:
        found = _several(result, rows) if _are_several(result, rows) else _pair(result, first)
    if own := findings.of(result, "finding"):
        headline, *reasons = own(result)
        return headline or found[0], [*found[1], *reasons]
    return found


def _word(result: Record) -> tuple[str, str]:
    """(word, tone)"""
    word = str(result.get("verdict") or "")
    if word in TONES:
        return word, TONES[word]
    own = findings.of(result, "word")
    return (own and own(result)) or _of_several(result)


def _of_several(result: Record) -> tuple[str, str]:
    """Headline of comparisons without a common verdict: a winner, better and worse arms, or nothing decided."""
    found = {str(row.get("verdict") or "") for row in primary(result)} - {""}
    effects = [words.sure(row) for row in result.get("effects") or []]
    if "GO" in found:
        return ("CLEAR WINNER" if winner(result) else "BETTER ONES FOUND"), "go"
    if found == {"NEUTRAL"}:
        return "NO DIFFERENCE THAT MATTERS", "neutral"
    if found and found <= {"NO-GO", "NEUTRAL"}:
        return "NONE BETTER", "no-go"
    if found or result.get("final") is False:
        return "NOT DECIDED", "inconclusive"
    if effects:
        return ("EFFECTS FOUND", "go") if any(effects) else ("NO EFFECT FOUND", "neutral")
    return "MEASURED", "neutral"


# Which comparisons a verdict is about
def lead(result: Record) -> Record | None:
    """The comparison that the verdict is about: the confirmation of a sweep, else the first of the primary metric."""
    confirmation = (result.get("selection") or {}).get("confirmation")
    return confirmation or next(iter(primary(result)), None)


def primary(result: Record) -> list[Record]:
    name = (result.get("metric") or {}).get("name")
    rows = result.get("comparisons") or []
    return [row for row in rows if name is None or row.get("metric") in (None, name)]


def winner(result: Record) -> str | None:
    """The arm that is better than the baseline, with an interval above that of every other arm; None without one."""
    rows = _best_first(primary(result))
    if not rows or rows[0].get("verdict") != "GO":
        return None
    low = finite(rows[0].get("ci_low"))
    others = [finite(row.get("ci_high")) for row in rows[1:]]
    return str(rows[0].get("treatment")) if low is not None and all(e is not None and e < low for e in others) else None


def _best_first(rows: Sequence[Record]) -> list[Record]:
    return sorted(rows, key=lambda row: -(finite(row.get("estimate")) or -math.inf))


def _are_several(result: Record, rows: Sequence[Record]) -> bool:
    """Whether each arm has its own verdict, rather than the run having one."""
    several = len(rows) + len(result.get("failed") or {}) > 1
    return several and bool(not result.get("verdict") or (len(rows) > 1 and rows[1].get("verdict")))


def change_of(result: Record, row: Record) -> Change | None:
    """The change of a comparison, in its own metric or else the result's. `mean of …`: the primary metric's mean."""
    return words.change(row, words.described(result, row.get("metric")))


def margin_text(result: Record) -> str:
    margin = finite(result.get("margin"))
    return words.UNKNOWN if margin is None else f"{margin * 100:g} %"


def torn(result: Record) -> bool:
    """Whether the typical run and the mean of all runs point in opposite directions."""
    row = lead(result) or {}
    return bool(row.get("torn") or result.get("torn"))


# Two arms
def _names(result: Record, row: Record) -> tuple[str, str]:
    treatment, control = str(row.get("treatment") or "the treatment"), str(row.get("control") or "the control")
    arms = [str(arm.get("name")) for arm in result.get("arms") or []]
    short = words.short_names(arms) if treatment in arms and control in arms else {}
    return short.get(treatment, treatment), short.get(control, control)


def _pair(result: Record, row: Record) -> Said:
    found, names = change_of(result, row), _names(result, row)
    if found is None:
        return "", []
    if torn(result):
        return _usually(result, row, found, *names), _both_averages(result, row, found)
    verdict = str(result.get("verdict") or row.get("verdict"))
    headline, parts = _BY_VERDICT.get(verdict, _shown)(result, row, found, *names)
    return headline, [f"{'; '.join(parts)}."] if parts else []


def _shown(result: Record, row: Record, found: Change, treatment: str, control: str) -> Said:
    """A direction, its price, and whether it exceeds the margin."""
    failed, said = _rails(result, row, "failed"), words.sentence(treatment, control, found)
    costs = [cost.text for rail in failed if (cost := change_of(result, rail)) is not None]
    if costs and found.sure > 0:
        said += f", but at the price of {' and '.join(costs)}"
    elif found.sure:
        said = words.but(said, beside(result, row, -found.sure))
    sure_of = words.at_level(row.get("level"))
    parts = [f"{'Surely' if found.sure else 'Perhaps'} {found.between}{sure_of}"] if found.between else []
    if finite(result.get("margin")) is not None and found.sure:
        matters = f"at least the {margin_text(result)} that matters"
        parts.append(f"surely {matters}" if _beyond(result, row) else f"whether it is {matters} is not shown")
    parts += [
        f"of {words.metric_name(result, rail.get('metric'))} no more than {tolerated(result, rail)} is tolerated"
        for rail in failed
    ]
    return said, parts + _by_the_mean(result, row)


def _beyond(result: Record, row: Record) -> bool:
    """Whether all of the interval is at least the margin away from no change."""
    if row.get("at_least_margin") is not None:
        return bool(row["at_least_margin"])
    ends = [abs(end) for name in ("ci_low", "ci_high") if (end := finite(row.get(name))) is not None]
    return min(ends, default=0.0) >= result["margin"]


def _alike(result: Record, row: Record, found: Change, treatment: str, control: str) -> Said:
    """NEUTRAL. It has the same error rate as other verdicts, although it rests on a narrower interval than shown."""
    like = f"as fast as {control}" if found.style.speed else f"level with {control} in {found.style.noun}"
    parts = [f"Any difference is smaller than the {margin_text(result)} that matters{words.at_level(row.get('level'))}"]
    parts += [f"but {name} got worse by more than is tolerated" for name in _rail_names(result, row, "failed")]
    parts += _by_the_mean(result, row)
    return words.but(f"{treatment} is {like}, within {margin_text(result)}", beside(result, row), "surely "), parts


def _open(result: Record, row: Record, found: Change, treatment: str, control: str) -> Said:
    """INCONCLUSIVE: what is known nevertheless, and what prevents a verdict."""
    unclear = [f"{name} may have got worse by more than is tolerated" for name in _rail_names(result, row, "open")]
    if found.sure:
        enough = unclear and _as_much_as_matters(result, row)
        doubt = "" if enough else f"; whether by the {margin_text(result)} that matters is open"
        said = f"Not fully decided: {words.sentence(treatment, control, found)}"
        return said, [f"Surely {found.between}{doubt}", *unclear]
    said = "Not decided"
    if found.between:
        how = f"{treatment} is {found.between} against {control}"
        other = f"{found.style.noun} is {found.between} with {treatment} than with {control}"
        said += f": {how if found.style.speed else other}"
    return words.but(said, beside(result, row), "surely "), [_why_open(result, row, found), *unclear]


def _why_open(result: Record, row: Record, found: Change) -> str:
    count, least = finite(row.get("blocks")), finite(row.get("least_blocks"))
    unit = result.get("counted", "blocks")
    if row.get("consistent") is False:
        return (
            "The effect changed during the run, and no single size explains its parts: hak runs report shows its blocks"
        )
    if count is not None and least is not None and count < least:
        return f"{count:.0f} {unit} are too few for a verdict: at least {least:.0f} are needed"
    if count is not None and not found.between:
        return f"{count:.0f} {unit} are too few for a verdict at this early look"
    return "Better, equal and worse are all still possible"


def _as_much_as_matters(result: Record, row: Record) -> bool:
    estimate, margin = finite(row.get("estimate")), finite(result.get("margin"))
    return estimate is not None and margin is not None and estimate >= margin


_BY_VERDICT = {"NEUTRAL": _alike, "INCONCLUSIVE": _open}


def _rails(result: Record, row: Record, status: str) -> list[Record]:
    """The guardrails of the row's arm that have this status."""
    rails = [rail for rail in result.get("guardrails") or [] if rail.get("status") == status]
    return [rail for rail in rails if rail.get("arm") in (None, row.get("treatment"))]


def _rail_names(result: Record, row: Record, status: str) -> list[str]:
    return [words.metric_name(result, rail.get("metric")) for rail in _rails(result, row, status)]


def tolerated(result: Record, guardrail: Record) -> str:
    """The change that a guardrail tolerates: 5 % more."""
    limit, described = finite(guardrail.get("limit")), words.described(result, guardrail.get("metric"))
    return "" if limit is None else words.tolerated(limit, words.style_of(described))


def beside(result: Record, row: Record, side: int = 0) -> list[str]:
    """Sure changes of other metrics by at least the margin: 83 % more peak memory. side: 1 gains, -1 losses, 0 both."""
    margin, found = finite(result.get("margin")) or 0.0, []
    for other in result.get("comparisons") or []:
        own = other.get("treatment") == row.get("treatment") and not other.get("verdict")
        way, estimate = words.sure(other), finite(other.get("estimate"))
        if not own or not way or estimate is None or other.get("metric") not in words.BESIDE or side not in (0, way):
            continue
        if max(estimate, 1 / (1 + estimate) - 1) >= margin and (change := words.change(other, other["metric"])):
            found.append((-way, change.text))
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]


def _usually(result: Record, row: Record, found: Change, treatment: str, control: str) -> str:
    """A description, not a claim: the typical block, and the few runs that were far off."""
    good, bad = ("faster", "slower") if found.style.speed else ("better", "worse")
    estimate, mean = finite(row.get("estimate")) or 0.0, _mean_row(result, row) or {}
    theirs, ours = mean.get("far_off") or ((0, 1) if estimate > 0 else (1, 0))
    apart = abs(estimate) >= (finite(result.get("margin")) or 0)
    usual = f"{good if estimate > 0 else bad} than" if apart else "level with"
    badly, much = ours > theirs, ours < theirs
    rare = f"rarely but badly {bad}" if badly else f"rarely but much {good}" if much else "not on average"
    return f"{treatment} is usually {usual} {control}, {rare}"


def _mean_row(result: Record, row: Record) -> Record | None:
    """The comparison of the same arm by its mean."""
    others = (other for other in result.get("comparisons") or [] if other.get("treatment") == row.get("treatment"))
    return next((other for other in others if re.match(r"(service-)?mean( of|$)", str(other.get("metric")))), None)


def _by_the_mean(result: Record, row: Record) -> list[str]:
    """The change by the mean of all runs, if the mean does not support the verdict."""
    if not row.get("mean_open"):
        return []
    mean = _mean_row(result, row)
    change = change_of(result, mean) if mean else None
    return [f"by the mean of all runs {change.told()}" if change else "the mean of all runs does not show it"]


def _both_averages(result: Record, row: Record, typical: Change) -> list[str]:
    """The change in the typical block and by the mean of all runs, and how many runs were far off."""
    mean = _mean_row(result, row)
    change = change_of(result, mean) if mean else None
    if mean is None or change is None:
        return ["The typical run and the mean of all runs point in opposite directions."]
    text = f"In the typical block {typical.told()}, by the mean of the runs {change.told()}"
    if mean.get("far_off"):
        treatment, control = _names(result, row)
        (theirs, ours), (of_control, of_treatment) = mean["far_off"], mean["runs"]
        text += (
            f"; {ours} of the {of_treatment} runs of {treatment} and {theirs} of the {of_control} of {control} were "
            "more than twice as bad as the median"
        )
    return [f"{text}.", "Which of the two matters is not for a rule."]


# Several arms
def _several(result: Record, rows: Sequence[Record]) -> Said:
    """Several arms against a baseline: which are better, worse, level, open."""
    control, first = str(rows[0].get("control") or "the baseline"), change_of(result, rows[0])
    about = f"against {control}: "
    if first is not None and not first.style.speed:
        about = f"{first.style.noun} {about}"
    if first is None or first.style.family != "latency":  # p99 stays in lower case
        about = about[:1].upper() + about[1:]
    failed, parts = result.get("failed") or {}, list[str]()
    kept = [row for row in _best_first(rows) if row.get("treatment") not in failed]
    for wanted in ("GO", "NO-GO"):
        if sizes := [_sized(result, row) for row in kept if row.get("verdict") == wanted]:
            parts.append(listed(sizes))
    level = [(str(row.get("treatment")), beside(result, row)) for row in kept if row.get("verdict") == "NEUTRAL"]
    plain = [name for name, besides in level if not besides]
    parts += [f"{listed(plain)} level"] if plain else []
    parts += [words.but(f"{name} level", besides, "surely ") for name, besides in level if besides]
    undecided = _undecided(result, kept)
    if undecided:  # the reasons name them
        parts.append(f"{len(undecided)} not decided" if parts or failed else f"none of {len(undecided)} sides decided")
    parts += map(str, failed.values())
    means = [f"{row.get('treatment')}: {text}." for row in kept for text in _by_the_mean(result, row)]
    open_ones = [f"Not decided: {'; '.join(undecided)}."] if undecided else []
    return (about + "; ".join(parts) if parts else ""), [*means, *open_ones]


def _sized(result: Record, row: Record) -> str:
    """hakmem 20 % faster, but 83 % more peak memory"""
    found, broken = change_of(result, row), _rail_names(result, row, "failed")
    text = f"{row.get('treatment')} {found.short if found else words.UNKNOWN}"
    if broken and row.get("vetoed_by"):
        return f"{text}, but {' and '.join(broken)} got worse, beyond what is tolerated"
    return words.but(text, beside(result, row, -words.sure(row)) if words.sure(row) else [])


def _undecided(result: Record, rows: Sequence[Record]) -> list[str]:
    """For every undecided arm: what its interval leaves possible, what prevents a decision, and what is sure beside."""
    parts = []
    for row in rows:
        found = change_of(result, row) if row.get("verdict") == "INCONCLUSIVE" else None
        if found is not None:
            doubts = _doubts(result, row, found)
            told = words.but(found.told(), doubts) if found.between else _why_open(result, row, found)
            besides = " and ".join(beside(result, row))
            sure = f", {'and' if doubts else 'but'} surely {besides}" if besides else ""
            parts.append(f"{row.get('treatment')} ({told}{sure})")
    return parts


def _doubts(result: Record, row: Record, found: Change) -> list[str]:
    unclear = [f"{name} may have got worse" for name in _rail_names(result, row, "open")]
    if row.get("torn"):
        return [text.removesuffix(".") for text in _both_averages(result, row, found)[:1]]
    if found.sure and not (unclear and _as_much_as_matters(result, row)):
        return [f"whether by the {margin_text(result)} that matters is open", *unclear]
    return unclear if found.sure else []
