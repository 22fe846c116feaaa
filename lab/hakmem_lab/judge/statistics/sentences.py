"""What a verdict says in words: each claim only where its error rate is covered.

Duty: one plain sentence for a decision. May import `paired`.

| words | claimed | wrong with at most |
|---|---|---|
| surely better, surely worse | the sign of the effect | alpha (alpha / 2 for each) |
| surely at least the margin | the interval's lower end is beyond it | alpha / 2 |
| any difference is smaller than the margin | the equivalence interval is inside it | alpha |
| about x % | nothing but the estimate: x is not a bound | - |
| was faster, was slower | these runs, which are counted | - |
"""

import math

from hakmem_lab.judge.statistics.paired import as_log, as_ratio


def percent(log_ratio: float) -> str:
    """A log-ratio as a signed percentage for people: "+2.05 %"; "no limit" where unbounded."""
    if math.isinf(log_ratio):
        return "no limit"
    return f"{as_ratio(log_ratio) * 100:+.2f} %".replace("-", "−")


def size(log_ratio: float) -> str:
    """The same without its sign: a word says the direction."""
    return percent(log_ratio).lstrip("+−")


def reason(decision, least: int) -> str:
    """The sentence of a `verdict.Decision`; `least`: the fewest blocks with which any verdict is possible."""
    broken = "; ".join(
        f"{guardrail.name} got worse by more than was tolerated ({percent(guardrail.interval.estimate)})"
        for guardrail in decision.guardrails
        if guardrail.status == "failed"
    )
    matters = f"{decision.margin * 100:g} %"
    match str(decision.verdict):
        case "NO-GO" if decision.vetoed_by:
            return f"{_shown(decision, matters)} But {broken}."
        case "GO" | "NO-GO":
            return _shown(decision, matters)
        case "NEUTRAL":
            low, high = percent(decision.equivalence.low), percent(decision.equivalence.high)
            also = f"; but {broken}" if broken else ""
            return f"Any difference is smaller than the {matters} that matters (between {low} and {high}){also}."
        case _ if decision.torn:
            return _torn(decision)
        case _:
            return _open(decision, matters, least)


def at_least_margin(decision) -> bool:
    """Whether a direction is shown, and all of the interval is at least the margin away from 0."""
    return max(decision.interval.low, -decision.interval.high) >= as_log(decision.margin)


def _between(decision) -> str:
    return f"between {percent(decision.interval.low)} and {percent(decision.interval.high)}"


def _shown(decision, matters: str) -> str:
    """A direction that is shown, and whether the margin is."""
    interval = decision.interval
    side = "better" if interval.low > 0 else "worse"
    begin = f"The treatment is surely {side}, by about {size(interval.estimate)} ({_between(decision)})"
    if at_least_margin(decision):
        return f"{begin}, surely at least the {matters} that matters."
    return f"{begin}; that it is at least the {matters} that matters is not shown."


def _torn(decision) -> str:
    """The blocks and the means disagree: what these runs did, and no claim."""
    means, estimate = decision.means, decision.interval.estimate
    ratio, (better, worse) = means.ratio, means.words
    usually = "equal" if abs(estimate) < as_log(decision.margin) else better if estimate > 0 else worse
    lost, gained = means.far[1] > means.far[0], means.far[1] < means.far[0]
    rarely = f"rarely but badly {worse}" if lost else f"rarely but much {better}" if gained else "not on average"
    mean = f"by the mean of the runs it was {size(ratio.estimate)} {better if ratio.estimate > 0 else worse}"
    between = f"between {percent(ratio.low)} and {percent(ratio.high)}"
    counts = f"{means.far[1]} of its {means.runs[1]} runs and {means.far[0]} of the control's {means.runs[0]}"
    return (
        f"The treatment was usually {usually}, {rarely}: in the typical block by {percent(estimate)}, but {mean} "
        f"({between}); {counts} were more than twice as bad as the median. Which of the two matters is not for a rule."
    )


def _open(decision, matters: str, least: int) -> str:
    interval = decision.interval
    if not decision.consistent:
        return "The effect changed during the run: no single size explains its parts. Look at its blocks: hak report."
    if interval.n < least:
        return f"{interval.n} blocks are too few for a verdict: at least {least} are needed."
    if math.isinf(interval.low) and math.isinf(interval.high):
        return f"{interval.n} blocks are too few for a verdict at this early look."
    unclear = [guardrail.name for guardrail in decision.guardrails if guardrail.status == "open"]
    if interval.low > 0 and interval.estimate >= as_log(decision.margin) and unclear:
        return (
            f"The treatment is surely better ({_between(decision)}), but {', '.join(unclear)} may have got worse by "
            f"more than is tolerated."
        )
    if interval.excludes_zero():
        side = "better" if interval.low > 0 else "worse"
        return (
            f"The treatment is surely {side}, by about {size(interval.estimate)} ({_between(decision)}), but whether "
            f"by the {matters} that matters is open."
        )
    return f"The difference lies {_between(decision)}: better, equal and worse are all possible."
