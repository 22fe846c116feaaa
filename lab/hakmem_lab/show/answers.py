"""The answer to a run's question, in one line with a direction: "hakmem is 2.1 % faster than glibc".

From the result alone: terminal, page, formats and the pages of experiments all begin with it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem_lab.judge import words
from hakmem_lab.judge.planning import RUNS_FOR_ONE
from hakmem_lab.judge.words import Change
from hakmem_lab.plan.metrics import PATTERN
from hakmem_lab.show import kinds, numbers
from hakmem_lab.show.numbers import finite

Record = dict[str, Any]

Writer = Callable[[Any, str], str]

_ARM_FIGURES = (("wall_s", "s"), ("cpu_s", "s"), ("rss_peak_kib", "KiB"), ("rss_mean_kib", "KiB"),
                ("minor_faults", ""))  # fmt: skip
_SIZES = ("B", "KiB", "MiB", "GiB")
NAMED = 4


@dataclass(frozen=True)
class Explanation:
    """What whoever shows a result says first. verdict: of the run as a whole, empty where it has none; word: the same,
    or, of kinds that give none, what they found; tone: go, no-go, neutral or inconclusive. answer: what was found;
    more: what is to be said besides."""

    verdict: str
    word: str
    tone: str
    answer: str
    more: str

    @property
    def words(self) -> str:
        """Answer and the rest as one text."""
        return f"{self.answer}{'' if self.answer.endswith('.') else '.'} {self.more}" if self.more else self.answer

    @property
    def line(self) -> str:
        return f"{self.verdict}: {self.words}" if self.verdict else self.words


def explain(result: Record) -> Explanation:
    """The one place in which a result is put into words: terminal, page, formats and JSON begin with it."""
    if not result:
        return Explanation("", "NO RESULT YET", "inconclusive", "The run has not been analysed.", "")
    word, tone = _word(result)
    found, more = answer(result), detail(result)
    first, rest = (found, more) if found else (more, "")
    return Explanation(str(result.get("verdict") or ""), word, tone, first or _LAST_WORDS[tone], rest)


TONES = {"GO": "go", "NO-GO": "no-go", "NEUTRAL": "neutral", "INCONCLUSIVE": "inconclusive"}

_LAST_WORDS = {
    "go": "Better by more than chance explains.",
    "no-go": "Worse by more than chance explains.",
    "neutral": "The difference, if there is one, is too small to matter.",
    "inconclusive": "Not decided: the runs so far do not tell.",
}


def _word(result: Record) -> tuple[str, str]:
    """(word, tone)"""
    word = str(result.get("verdict") or "")
    if word in TONES:
        return word, TONES[word]
    own = (say(result) for say in kinds.of(result, "word"))
    return next(filter(None, own), None) or _of_several(result)


def _of_several(result: Record) -> tuple[str, str]:
    """Of comparisons without one verdict for all: a winner, better and worse ones, or nothing decided."""
    words = {str(row.get("verdict") or "") for row in primary(result)} - {""}
    effects = [sure(row) for row in result.get("effects") or []]
    if "GO" in words:
        return ("CLEAR WINNER" if winner(result) else "BETTER ONES FOUND"), "go"
    if words == {"NEUTRAL"}:
        return "NO DIFFERENCE THAT MATTERS", "neutral"
    if words and words <= {"NO-GO", "NEUTRAL"}:
        return "NONE BETTER", "no-go"
    if words or result.get("final") is False:
        return "NOT DECIDED", "inconclusive"
    if effects:
        return ("EFFECTS FOUND", "go") if any(effects) else ("NO EFFECT FOUND", "neutral")
    return "MEASURED", "neutral"


def answer(result: Record) -> str:
    """What was found; empty where the result's own headline says all there is."""
    return _plain(_answer(result))


def _plain(text: str) -> str:
    """With the spaces that every terminal and every search knows."""
    return text.replace(numbers.THIN, " ").replace(numbers.JOIN, " ")


def _answer(result: Record) -> str:
    if _withheld(result):
        return "No verdict"
    for say in kinds.of(result, "answer"):
        return say(result)
    rows, first = primary(result), lead(result)
    if first is None:
        return ""
    return _several(result, rows) if _are_several(result, rows) else _one(result, first)


def _are_several(result: Record, rows: Sequence[Record]) -> bool:
    """Whether each has a verdict of its own, and none of them is the run's."""
    return len(rows) > 1 and bool(not result.get("verdict") or rows[1].get("verdict"))


def _withheld(result: Record) -> bool:
    """Whether the laboratory refuses a verdict, and its headline says why."""
    return str(result.get("headline") or "").startswith(("No verdict", "No reading", "No GO"))


def change_of(result: Record, row: Record) -> Change | None:
    """The change of a comparison in the result's metric, or its own; `mean of …`: the primary one's other average."""
    return words.change(row, words.described(result, row.get("metric")))


def metric(result: Record, row: Record | None = None) -> str:
    """The metric of a comparison or a guardrail as a reader would call it, or the primary one."""
    return words.metric_name(result, (row or {}).get("metric"))


def told(result: Record, row: Record) -> str:
    """A comparison, an effect or a guardrail in one piece: 2.1 % faster [1.4, 2.8]."""
    found = change_of(result, row)
    return _plain(found.told()) if found else "unknown"


def cells(result: Record, row: Record) -> list[str]:
    """The same in two: the change, its interval."""
    found = change_of(result, row)
    return [found.short, found.between or numbers.UNKNOWN] if found else [numbers.UNKNOWN] * 2


def arms_table(result: Record) -> tuple[list[str], list[Record]]:
    """(the columns of the arms' figures after their names, the arms that have some); a figure of the program's own,
    where that is judged, comes first."""
    rows = [arm for arm in result.get("arms") or [] if arm.get("n") and arm.get("wall_s") is not None]
    own = [metric(result)] if _own_figure(result) else []
    return [*own, "wall", "CPU", "peak RSS", "mean RSS", "faults", "runs"], rows


def arm_figures(result: Record, arm: Record, written: Writer, written_own: Writer) -> list[str]:
    """An arm's cells in that table. written, written_own: a number with its unit, the latter of the program's own."""
    own = [written_own(arm.get("median"), result["metric"]["unit"])] if _own_figure(result) else []
    return [*own, *(written(arm[name], unit) for name, unit in _ARM_FIGURES), str(arm["n"])]


def _own_figure(result: Record) -> bool:
    return str(result["metric"]["name"]).startswith(PATTERN)


def standing(record: Record, memory: bool) -> Change | None:
    """A ratio of a suite, above 1 where it is better: 13 % faster, or of memory 17 % less; None where there is none."""
    ends = {"estimate": "ratio", "ci_low": "ci_low", "ci_high": "ci_high"}
    found = {name: finite(record.get(key)) for name, key in ends.items()}
    return words.change({name: value and value - 1 for name, value in found.items()}, "rss" if memory else "wall")


def is_memory(row: Record) -> bool:
    """Whether a row, or a mean, of a suite is about memory: all others are about speed."""
    return row.get("what") == "memory" or str(row.get("unit") or "").partition(" ")[0] in _SIZES


def sure(row: Record) -> int:
    """1 better, -1 worse, 0 where the interval does not say."""
    low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
    return 1 if low is not None and low > 0 else -1 if high is not None and high < 0 else 0


def lead(result: Record) -> Record | None:
    """The comparison that the verdict is about: the confirmation of a sweep, else the first of the primary metric."""
    confirmation = (result.get("selection") or {}).get("confirmation")
    return confirmation or next(iter(primary(result)), None)


def comparison_name(comparison: Record) -> str:
    """What a comparison compares: its own name, else treatment against control."""
    name = comparison.get("name")
    return str(name) if name else f"{comparison.get('treatment', '?')} against {comparison.get('control', '?')}"


def primary(result: Record) -> list[Record]:
    """The comparisons of the primary metric."""
    name = (result.get("metric") or {}).get("name")
    rows = result.get("comparisons") or []
    return [row for row in rows if name is None or row.get("metric") in (None, name)]


def winner(result: Record) -> str | None:
    """The arm that is better than the baseline and than every other arm as far as their intervals do not overlap."""
    rows = sorted(primary(result), key=lambda row: -(finite(row.get("estimate")) or -math.inf))
    if not rows or rows[0].get("verdict") != "GO":
        return None
    low = finite(rows[0].get("ci_low"))
    others = [finite(row.get("ci_high")) for row in rows[1:]]
    return str(rows[0].get("treatment")) if low is not None and all(e is not None and e < low for e in others) else None


def _names(result: Record, row: Record) -> tuple[str, str]:
    treatment, control = str(row.get("treatment") or "the treatment"), str(row.get("control") or "the control")
    arms = [str(arm.get("name")) for arm in result.get("arms") or []]
    short = words.short_names(arms) if treatment in arms and control in arms else {}
    return short.get(treatment, treatment), short.get(control, control)


def _one(result: Record, row: Record) -> str:
    found, (treatment, control) = change_of(result, row), _names(result, row)
    if found is None:
        return ""
    if torn(result):
        return _usually(result, row, treatment, control)
    verdict = result.get("verdict") or row.get("verdict")
    if verdict == "NEUTRAL":
        alike = f"as fast as {control}" if found.style.speed else f"level with {control} in {found.style.noun}"
        return f"{treatment} is {alike}, within {margin_text(result)}"
    said = words.sentence(treatment, control, found)
    if verdict == "INCONCLUSIVE":
        if found.sure:
            return f"Not fully decided: {said}"
        return f"Not decided: {_open_change(found, treatment, control)}" if found.between else "Not decided"
    worse = [guardrail for guardrail in result.get("guardrails") or [] if guardrail.get("status") == "failed"]
    costs = [change.text for guardrail in worse if (change := change_of(result, guardrail)) is not None]
    said += f", but at the price of {' and '.join(costs)}" if costs and found.sure > 0 else ""
    return said if costs or found.sure <= 0 else words.costly(result, row.get("treatment"), said)


def _open_change(found: Change, treatment: str, control: str) -> str:
    if found.style.speed:
        return f"{treatment} is {found.between} against {control}"
    return f"{found.style.noun} is {found.between} with {treatment} than with {control}"


def tolerated(result: Record, guardrail: Record) -> str:
    """What a guardrail allows: 5 % more."""
    limit, described = finite(guardrail.get("limit")), words.described(result, guardrail.get("metric"))
    return "" if limit is None else words.tolerated(limit, words.style_of(described))


def margin_text(result: Record) -> str:
    """The smallest difference that matters: 1 %."""
    margin = finite(result.get("margin"))
    return numbers.UNKNOWN if margin is None else f"{margin * 100:g} %"


def detail(result: Record) -> str:
    """How sure the answer is, and what would settle it; of what the laboratory withholds, why."""
    said, seen = _detail(result), "" if _withheld(result) or torn(result) else unseen(result)
    return _plain(f"{said} {seen}" if said and seen else said or seen)


def _detail(result: Record) -> str:
    rows = primary(result)
    row = lead(result)
    found = change_of(result, row) if row else None
    if _withheld(result) or row is None or found is None or _are_several(result, rows):
        return str(result.get("headline") or "")
    if torn(result):
        return _both_averages(result, found) or str(result.get("headline") or "")
    by_verdict = _DETAILS.get(str(result.get("verdict") or row.get("verdict")), _shown)
    return next(kinds.of(result, "detail"), by_verdict)(result, row, found)


def _shown(result: Record, row: Record, found: Change) -> str:
    level, margin = finite(row.get("level")), finite(result.get("margin"))
    sure_of = f", {words.confidence(level)}" if level is not None else ""
    parts = [f"{'Surely' if found.sure else 'Perhaps'} {found.between}{sure_of}"] if found.between else []
    if margin is not None and found.sure:
        near = min(abs(finite(row.get(end)) or 0.0) for end in ("ci_low", "ci_high") if row.get(end) is not None)
        matters = f"at least the {margin_text(result)} that matters"
        shown = row.get("at_least_margin")
        beyond = near >= margin if shown is None else bool(shown)
        parts.append(f"surely {matters}" if beyond else f"whether it is {matters} is not shown")
    failed = [guardrail for guardrail in result.get("guardrails") or [] if guardrail.get("status") == "failed"]
    limits = [
        f"of {metric(result, guardrail)} no more than {tolerated(result, guardrail)} is tolerated"
        for guardrail in failed
    ]
    return "; ".join(parts + limits) + "." if parts or limits else ""


def _alike(result: Record, row: Record, found: Change) -> str:
    narrow = change_of(result, row | {"ci_low": row.get("equivalence_low"), "ci_high": row.get("equivalence_high")})
    level = finite(row.get("level"))  # twice as far from 1 is that of the interval that NEUTRAL rests on
    sure_of = f", {words.confidence(2 * level - 1)}" if level is not None else ""
    between = f": {narrow.between}{sure_of}" if narrow and narrow.between else ""
    return f"Any difference is smaller than the {margin_text(result)} that matters{between}."


def _open(result: Record, row: Record, found: Change) -> str:
    unclear = [guardrail for guardrail in result.get("guardrails") or [] if guardrail.get("status") == "open"]
    if found.sure:
        parts = [f"Surely {found.between}; whether by the {margin_text(result)} that matters is open"]
    else:
        parts = ["Better, equal and worse are all still possible"]
    parts += [f"{metric(result, guardrail)} may have got worse by more than is tolerated" for guardrail in unclear]
    return "; ".join(parts) + "."


_DETAILS = {"NEUTRAL": _alike, "INCONCLUSIVE": _open}


def torn(result: Record) -> bool:
    """Whether the typical run and the mean of all runs point in opposite directions."""
    row = lead(result) or {}
    return bool(row.get("torn") or result.get("torn"))


def _usually(result: Record, row: Record, treatment: str, control: str) -> str:
    found = change_of(result, row)
    usual = "better" if (finite(row.get("estimate")) or 0) > 0 else "worse"
    if found is not None and found.style.speed:
        usual = {"better": "faster", "worse": "slower"}[usual]
    rare = {"faster": "slower", "slower": "faster", "better": "worse", "worse": "better"}[usual]
    how = "badly" if rare in ("slower", "worse") else "much"
    return f"{treatment} is usually {usual} than {control}, rarely but {how} {rare}"


def _both_averages(result: Record, typical: Change) -> str:
    """What the typical block and the mean of all runs say, and how many runs were far off; empty where runs were not
    counted."""
    row = next((row for row in result.get("comparisons") or [] if row.get("far_off")), None)
    if row is None:
        return ""
    (treatment, control), (theirs, ours), (of_control, of_treatment) = _names(result, row), row["far_off"], row["runs"]
    return (
        f"In the typical block {typical.told()}, by the mean of the runs {told(result, row)}; {ours} of the "
        f"{of_treatment} runs of {treatment} and {theirs} of the {of_control} of {control} were more than twice as bad "
        "as the median. Which of the two matters is not for a rule."
    )


def listed(parts: Sequence[str]) -> str:
    shown = list(parts[:NAMED]) + ([f"{len(parts) - NAMED} more"] if len(parts) > NAMED else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _several(result: Record, rows: Sequence[Record]) -> str:
    """Several arms against a baseline: who is better, who is worse, who is level, who is open."""
    control = str(rows[0].get("control") or "the baseline")
    parts: list[str] = []
    first = change_of(result, rows[0])
    about = f"against {control}: "
    if first is not None and not first.style.speed:
        about = f"{first.style.noun} {about}"
    if first is None or first.style.family != "latency":  # p99 is no word
        about = about[:1].upper() + about[1:]
    order = sorted(rows, key=lambda row: -(finite(row.get("estimate")) or -math.inf))
    for wanted in ("GO", "NO-GO"):
        chosen = [(row, found) for row in order if row.get("verdict") == wanted and (found := change_of(result, row))]
        if chosen:
            sizes = [(name := row.get("treatment"), f"{name} {found.short}") for row, found in chosen]
            parts.append(listed([words.costly(result, name if wanted == "GO" else None, size) for name, size in sizes]))
    for wanted, text in (("NEUTRAL", "level"), ("INCONCLUSIVE", "not decided")):
        names = [str(row.get("treatment")) for row in order if row.get("verdict") == wanted]
        names = [name for name in names if name not in (result.get("failed") or {})]
        if names:
            parts.append(f"{listed(names)} {text}")
    parts += (result.get("failed") or {}).values()
    return about + "; ".join(parts) if parts else ""


def one_in(result: dict) -> int | None:
    """Slow runs that are rarer than this would not have been seen; None where nothing is called better, or reached."""
    rows = [row for row in result.get("comparisons") or [] if row.get("verdict") == "GO"]
    if rows:
        names = {name for row in rows for name in (row.get("control"), row.get("treatment"))}
        counts = [row["runs_each"] for row in rows if row.get("runs_each")]
        counts = counts or [arm["n"] for arm in result.get("arms") or [] if arm.get("name") in names and arm.get("n")]
    else:
        reached = [row for row in (result.get("suite") or {}).get("rows") or [] if row.get("verdict") == "pass"]
        counts = [row["blocks"] for row in reached if row.get("blocks")]
    return max(1, min(counts) // RUNS_FOR_ONE) if counts else None


def unseen(result: dict) -> str:
    """What a GO cannot have seen: what happens to fewer than 3 in n runs leaves no trace in n of them with 5 %."""
    found = one_in(result)
    return f"Slow runs rarer than 1 in {found:,} would not have been seen." if found else ""
