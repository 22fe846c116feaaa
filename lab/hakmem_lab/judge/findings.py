"""In words: the findings of single kinds besides, or instead of, comparisons of arms. `explain` puts them first. Pure.

`finding`: the headline, empty if that of the comparisons is kept, then the sentences that follow it. `word`:
(word, tone) in place of a verdict, or None.
"""

from collections.abc import Callable
from typing import Any

from hakmem_lab.judge import limits, words
from hakmem_lab.judge.digits import finite
from hakmem_lab.plan.kind import Kind
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.store.results import EffectRow, Estimate, Predicted, Prediction, Result

SHOWN = 3
SHOWN_MISSES = 4


def of(result: Result, what: str) -> Callable[[Result], Any] | None:
    """The function `finding` or `word` for the result's kind; None if the kind has none."""
    return next((found[what] for part, found in _PARTS.items() if result.get(part) and what in found), None)


def _named(result: Result, row: Estimate) -> str:
    found = words.change(row, words.described(result, row.get("metric")))
    return found.named() if found else "unknown"


# No verdict on time
LITTLE_DISTURBED = ("cpu", "tree-cpu", "rss", "pss", "tree-memory")  # metrics that a busy machine hardly changes


def decided_beside(result: Result) -> list[str]:
    """For a result without a verdict on its metric: the changes in processor time and memory whose intervals contain
    no 0, a sentence for every treatment, and how to get a verdict on them."""
    found: dict[str, list[str]] = {}
    for row in result.get("comparisons") or []:
        if row.get("metric") in LITTLE_DISTURBED and not row.get("verdict") and words.sure(row):
            found.setdefault(f"{row.get('treatment')} against {row.get('control')}", []).append(_named(result, row))
    said = [f"{pair}: {', '.join(changes)}." for pair, changes in found.items()]
    asked = KINDS.get(str(result.get("kind")), Kind("")).called == "compare"
    return [*said, *(["--metric cpu and --metric rss give a verdict on processor time and memory."] if asked else [])]


# One arm against itself
def _aa(result: Result) -> list[str]:
    """Whether a bias is inside half the margin, and how often resampled A/As gave a false verdict."""
    machine, margin = result["aa"], finite(result.get("margin"))
    half = f"half the margin of {100 * margin:g} %" if margin is not None else "half the margin"
    bias: Estimate = {"estimate": 0.0, "ci_low": machine.get("bias_low"), "ci_high": machine.get("bias_high")}
    ends = words.change(bias, words.described(result))
    between = f"two equal sides differ by {ends.interval if ends and ends.ends else 'an unknown size'}"
    state = machine.get("state") or ("fit" if machine.get("fit") else "unfit")
    headline = {
        "fit": f"This machine is fit to measure: {between}, inside {half}",
        "open": f"This machine may be unfit: {between}, which may be more than {half}",
        "unfit": f"This machine is NOT fit to measure: {between}",
    }[state]
    if machine.get("busy") and machine.get("fit"):
        headline = "Other programs were at work, so this says nothing about the machine alone; run it again when quiet"
    rate, bound = (finite(machine.get(key)) for key in ("rate", "bound"))
    if rate is None or bound is None:
        return [headline]
    count, most = machine.get("resamples"), f"at most {100 * bound:.1f} % are allowed"
    return [headline, f"{100 * rate:.1f} % of {count} resampled A/As gave a false verdict; {most}."]


def _aa_word(result: Result) -> tuple[str, str] | None:
    machine = result["aa"]
    if machine.get("fit") is None:
        return None
    if machine.get("state") == "open":
        return "FITNESS UNDECIDED", "inconclusive"
    return ("FIT TO MEASURE", "go") if machine["fit"] else ("NOT FIT TO MEASURE", "no-go")


# Settings that act together
def _matrix(result: Result) -> list[str]:
    """Simple effects if the settings depend on each other, else main effects: those are valid on their own."""
    rows = [row for row in result["effects"] if finite(row.get("estimate")) is not None and not row.get("failed")]
    depend = any(row.get("kind") == "interaction" and words.sure(row) for row in rows)
    kind = "simple" if depend else "main"
    shown = [row for row in rows if row.get("kind") == kind and words.sure(row)][:SHOWN]
    headline = "; ".join(f"{row.get('name')}: {_named(result, row)}" for row in shown)
    headline = headline or ("No setting has an effect beyond chance" if rows else "No reading")
    return [("The settings depend on each other. " if depend else "") + headline, *_effects(result, rows, shown)]


def _effects(result: Result, rows: list[EffectRow], said: list[EffectRow]) -> list[str]:
    """For two factors, the effects that the headline leaves out, and the interaction; for more, interactions."""
    simple = [row for row in rows if row.get("kind") == "simple"]
    both = [row for row in rows if row.get("kind") == "interaction"]
    few = len(simple) <= len("AABB")
    shown = [*(simple if few else []), *(row for row in both if few or words.sure(row))]
    texts = []
    for row in (row for row in shown if row not in said):
        reading = row.get("reading") if row.get("kind") == "interaction" and words.sure(row) else ""
        texts.append(f"{row.get('name')}: {_named(result, row)}{reading and f' ({reading})'}.")
    texts += [f"{row.get('name')}: {row.get('reading')}." for row in result["effects"] if row.get("failed")]
    return texts + ([f"Undecided: {', '.join(result['open'])}."] if result.get("open") else [])


# The best of several, confirmed
def _selection(result: Result) -> list[str]:
    chosen = result["selection"]
    row = next((row for row in chosen.get("candidates") or [] if row.get("arm") == chosen.get("chosen")), None)
    if row is None or not chosen.get("confirmation"):
        return [""]
    count = len(chosen["candidates"])
    return [
        "",
        f"The choice among {count} favours luck: {chosen['chosen']} {_named(result, row)} in the runs that chose.",
    ]


def _tune(result: Result) -> list[str]:
    """The recommendation, and the reason for it."""
    tune, selection = result["tune"], result.get("selection") or {}
    default, chosen = tune["default"], selection.get("chosen")
    confirmation, verdict = selection.get("confirmation"), result.get("verdict")
    if tune.get("broke") and not result.get("final"):
        return [f"Not confirmed, stay with {default}: {tune['broke']}"]
    if not confirmation or chosen is None:
        return [""]
    found = words.change(confirmation, words.described(result))
    said = words.sentence(chosen, default, found) if found else f"{chosen} was confirmed"
    stay, broken = f"Stay with {default}", ""
    if result.get("vetoed_by"):
        broken = " and ".join(words.metric_name(result, name) for name in result["vetoed_by"])
    best = f"the best of {tune['candidates']} candidates, {chosen},"
    said_of = {
        "GO": f"Use {chosen}: {said}",
        "INCONCLUSIVE": f"{stay} for now: {best} is undecided",
        "NEUTRAL": f"{stay}: {best} is within the margin",
    }
    return [said_of.get(str(verdict), f"{stay}: {said}" + (f", but breaks the limit on {broken}" if broken else ""))]


# Predictions of a replay
def replay(result: Result) -> list[str]:
    """Findings on the whole program, in the metric of the run."""
    found, metric = result["replay"], (result.get("metric") or {}).get("name")
    quantity = next((each for each in found.get("quantities") or [] if each["name"] == metric), None)
    if quantity is None:
        return [f"The replay predicts no {words.metric_name(result)} of the program itself"]
    changes = [(row["arm"], predicted(quantity, row)) for row in quantity["rows"]]
    parts = [words.sentence(arm, str(found["base"]), change) for arm, change in changes if change]
    return [f"Prediction for the whole program: {'; '.join(parts)}"]


def predicted(quantity: Predicted, row: Prediction) -> words.Change | None:
    """By how much the program is predicted to change on this arm; None for the base."""
    base = next(each["predicted"] for each in quantity["rows"] if each["base"])
    values = row["predicted"], row["high"], row["low"]
    estimate, low, high = (base / value - 1 if value > 0 else None for value in values)
    ends: Estimate = {"estimate": estimate, "ci_low": low, "ci_high": high}
    return None if row["base"] else words.change(ends, quantity["name"])


# Budgets
def passed(found: object) -> tuple[str, str]:
    """(word, tone) for whether a budget is kept."""
    if found is None:
        return "NOT JUDGED", "inconclusive"
    return ("PASSED", "go") if found else ("FAILED", "no-go")


def _syscalls(result: Result) -> list[str]:
    part = result["syscalls"]
    arms = [arm | {"name": str(arm.get("name"))} for arm in part.get("arms") or []]
    budget = part.get("budget")
    counted = [arm for arm in arms if finite(arm.get("per_op")) is not None]
    if not counted:
        wholes = [(arm["name"], finite((arm.get("whole") or {}).get("calls"))) for arm in arms]
        parts = [f"{name} {calls:,.0f}" for name, calls in wholes if calls is not None]
        return [
            f"System calls of the whole process, not per operation: {', '.join(parts)}"
            if parts
            else "Nothing was counted yet"
        ]
    rates = [f"{arm['name']} {rate_text(arm['per_op'] or 0.0)}" for arm in counted]
    headline = f"System calls: {words.listed(rates)}"
    if budget is None:
        return [headline]
    if part.get("passed"):
        seldom = f"one in {part.get('unseen_one_in') or 0:,.0f} operations"
        unseen = f"These runs may have missed bursts of calls rarer than {seldom}."
        return [headline, f"All are within the budget of {budget:g}.", unseen]
    if over := [arm["name"] for arm in counted if arm.get("passed") is False]:
        return [headline, f"Above the budget of {budget:g}: {', '.join(over)}."]
    if missing := [arm["name"] for arm in arms if arm not in counted]:
        return [headline, f"Not counted yet: {', '.join(missing)}."]
    unclear = ", ".join(arm["name"] for arm in counted if arm.get("passed") is None)
    tell = "Longer runs decide it, or {seed} in the command, which shows whether calls come in bursts."
    return [headline, f"Whether {unclear} keeps the budget of {budget:g} is undecided.", tell]


def rate_text(per_op: float) -> str:
    """Calls per operation in words: 3.1 an operation, one in 11 million operations."""
    if per_op <= 0:
        return "none"
    if per_op >= 0.1:
        return f"{per_op:.2g} an operation"
    each = 1 / per_op
    for factor, name in ((1e9, " billion"), (1e6, " million")):
        if each >= factor:
            return f"one in {each / factor:.{1 if each < 10 * factor else 0}f}{name} operations"
    return f"one in {float(f'{each:.2g}'):,.0f} operations"


# A fleet of hosts
def _fleet(result: Result) -> list[str]:
    """The number of hosts that the verdict rests on, and the prediction for a further host."""
    fleet, rows = result["fleet"], result.get("comparisons") or [{}]
    count = f"{len(fleet.get('hosts') or [])} hosts, {result.get('blocks')} blocks"
    if together := fleet.get("together"):
        alone = f"On these hosts alone: {_named(result, together)}."
        return ["", f"{count} are too few hosts to speak of a fleet.", alone]
    ends: Estimate = {"ci_low": fleet.get("prediction_low"), "ci_high": fleet.get("prediction_high")}
    further = words.change(ends | {"estimate": rows[0].get("estimate")}, words.described(result))
    known = further is not None and further.ends and len(fleet.get("hosts") or []) > 2
    more = [f"Prediction for a further host: {further.named()}."] if further and known else []
    return ["", f"The interval is that of the average over the fleet ({count}).", *more]


# A suite of workloads
def _suite(result: Result) -> list[str]:
    """How many bars are reached; without bars, on how many measures the subject is better, and on how many worse."""
    card = result["suite"]
    rows = card.get("rows") or []
    judged, standing = [row for row in rows if row.get("verdict")], _standing(result)
    if not judged:
        return [standing]
    missed = [row for row in judged if row["verdict"] == "miss"]
    met = sum(row["verdict"] == "pass" for row in judged)
    text = f"{card.get('subject') or 'hakmem'} reaches {met} of {len(judged)} bars"
    text += f", {unclear} undecided" if (unclear := len(judged) - met - len(missed)) else ""
    if missed:
        names = [f"{row['workload']} ({row['metric']} {row['measured']})" for row in missed[:SHOWN_MISSES]]
        more = f" and {len(missed) - SHOWN_MISSES} more" if len(missed) > SHOWN_MISSES else ""
        text += f", missed {', '.join(names)}{more}"
        text += f"; chance may miss one of {len(judged)} bars" if result.get("verdict") == "INCONCLUSIVE" else ""
    return [text, f"{standing}."] if standing else [text]


def _standing(result: Result) -> str:
    """On how many measures the subject is better and worse than each arm, or each arm than the reference."""
    card, found = result["suite"], dict[str, list[int]]()
    for row in card.get("rows") or []:
        for arm, figure in (row.get("arms") or {}).items():
            word = (figure or {}).get("word")
            found.setdefault(str(arm), [0, 0, 0])[0 if word in words.BETTER else 1 if word in words.WORSE else 2] += 1
    parts = [f"{arm} {better} and {worse} of {better + worse + other}" for arm, (better, worse, other) in found.items()]
    if not parts:
        return ""
    if card.get("table") == "reference":
        return f"Measures better and worse than {card.get('reference')}: {words.listed(parts)}"
    return f"Measures on which {card.get('subject') or 'hakmem'} is better and worse: {words.listed(parts)}"


_PARTS: dict[str, dict[str, Callable[[Result], Any]]] = {
    "aa": {"finding": _aa, "word": _aa_word},
    "effects": {"finding": _matrix},
    "limits": {"finding": limits.finding},
    "tune": {"finding": _tune},
    "selection": {"finding": _selection},
    "replay": {"finding": replay},
    "soak": {"finding": lambda result: [str(result["soak"].get("finding") or "")],
             "word": lambda result: passed(result["soak"].get("passed"))},
    "syscalls": {"finding": _syscalls, "word": lambda result: passed(result["syscalls"].get("passed"))},
    "suite": {"finding": _suite},
    "fleet": {"finding": _fleet},
}  # fmt: skip
