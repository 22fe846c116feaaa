"""The result of a matrix. Pure: header and records in.

What a factor does at each level of the others comes first; its average over them is shown only where it answers a
question.
"""

import math
from collections.abc import Sequence

from hakmem_lab.judge import rails
from hakmem_lab.judge.analysis import base_result, measured, metric_of, unfinished, values
from hakmem_lab.judge.statistics import factorial
from hakmem_lab.judge.statistics.factorial import Effect
from hakmem_lab.judge.statistics.paired import as_log, as_ratio
from hakmem_lab.judge.statistics.verdict import percent
from hakmem_lab.store.blocks import Blocks


def analyse(header: dict, records: list[dict]) -> dict:
    """Two families, each with intervals that hold together: simple effects and cells against none; main effects and
    interactions."""
    spec, blocks = header["spec"], measured(records)
    result = base_result(header, records, blocks) | {"effects": [], "hidden": [], "comparisons": [], "guardrails": []}
    if len(blocks) < spec["max-blocks"]:
        result["headline"] = unfinished(blocks, spec)
        return result
    logs, change = _logs(header, blocks)
    level, factors = 1 - spec["alpha"], list(spec["factors"])
    single = factorial.simple_effects(logs, factors, level, simultaneous=True)
    averaged = factorial.effects(logs, factors, level, simultaneous=True)
    hidden = factorial.misleading(averaged, as_log(spec["margin"]))
    kept = [effect for effect in averaged if effect.name not in hidden]
    kept.sort(key=lambda effect: effect.kind == "main")
    result["effects"] = [_row(effect) for effect in (*single, *kept)]
    result["hidden"] = [{"name": name, "by": by.name} for name, by in hidden.items()]
    result["warnings"] += _why(hidden) + _drift(change, spec, len(logs[0]))
    result["guardrails"] = rails.rows(rails.judged(header, blocks))
    result["final"] = True
    result["headline"] = _headline(single, kept, level)
    for reason in (r["text"] for r in records if r["type"] == "event" and r["what"] == "fitness"):
        result["headline"] = f"No reading on this machine: {reason}"
        for row in result["effects"]:
            row["reading"] = None
    return result


def _logs(header: dict, blocks: Blocks) -> tuple[list[list[float]], float]:
    """(a row of cells a block, higher is better, freed of what the place in the block does; that, from place to
    place)."""
    metric = metric_of(header)
    sign = 1.0 if metric.higher_is_better else -1.0
    names = [arm["name"] for arm in header["arms"]]
    logs = [
        [sign * math.log(value) for name in names for value in values(block[name], metric.name) or ()]
        for block in blocks
    ]
    places = [[block[name][0]["position"] for name in names] for block in blocks]
    freed, change = factorial.without_drift(logs, places)
    return freed.tolist(), change


def _row(effect: Effect) -> dict:
    ratio = effect.interval.ratio()
    return {"name": effect.name, "kind": effect.kind, "estimate": ratio.estimate, "ci_low": ratio.low,
            "ci_high": ratio.high, "p": effect.interval.p, "reading": _reading(effect)}  # fmt: skip


def _reading(effect: Effect) -> str:
    if effect.kind == "interaction":
        return str(factorial.classify_interaction(effect.interval))
    if not effect.interval.excludes_zero():
        return "no difference shown"
    return "better" if effect.interval.low > 0 else "worse"


def _why(hidden: dict[str, Effect]) -> list[str]:
    """A sentence for each interaction that hides main effects."""
    texts = []
    for by in dict.fromkeys(hidden.values()):
        names = [name for name, reason in hidden.items() if reason == by]
        effects, are = ("effects", "are") if len(names) > 1 else ("effect", "is")
        texts.append(
            f"the main {effects} of {' and '.join(names)} {are} not shown: what one of {' and '.join(by.factors)} does "
            f"depends on the other{'s' if len(by.factors) > 2 else ''} ({by.name} {percent(by.interval.estimate)}); an "
            "average over both levels says what nobody runs"
        )
    return texts


def _drift(change: float, spec: dict, cells: int) -> list[str]:
    """Said where it would have mattered, had the order not been random and the change not been taken out."""
    across = as_ratio(change * (cells - 1))
    if abs(across) < spec["margin"]:
        return []
    side = "better" if across > 0 else "worse"
    return [
        f"within a block the last run was {abs(across) * 100:.2g} % {side} than the first, whatever the arm: taken out"
    ]


def _headline(single: Sequence[Effect], averaged: Sequence[Effect], level: float) -> str:
    """Of two factors each one's effect at both levels of the other, then how they interact; of more, what interacts."""
    interactions = [effect for effect in averaged if effect.kind == "interaction"]
    simple = [effect for effect in single if effect.kind == "simple"]
    if len(simple) > len("AABB"):
        shown = [effect for effect in interactions if effect.interval.excludes_zero()]
        parts = [f"{_size(effect)}: {factorial.classify_interaction(effect.interval)}" for effect in shown]
        mains = [_size(effect) for effect in averaged if effect.kind == "main"]
        parts = (parts or ["no interaction shown"]) + ([f"on average {', '.join(mains)}"] if mains else [])
    else:
        parts = [_size(effect) for effect in simple]
        parts += [f"{_size(effect)}: {factorial.classify_interaction(effect.interval)}" for effect in interactions]
    return "; ".join(parts) + f" ({level * 100:g} % intervals)."


def _size(effect: Effect) -> str:
    return (
        f"{effect.name} {percent(effect.interval.estimate)} "
        f"[{percent(effect.interval.low)}, {percent(effect.interval.high)}]"
    )
