"""`hak matrix`: a 2^k design. Main effects and interactions, each a contrast inside every block."""

import itertools
import math

from ..analysis import base_result, measured, metric_of, unfinished, values
from ..arms import Arm
from ..conduct import conduct
from ..errors import LabError
from ..session import Session, parse_arms
from ..spec import NO_FACTOR, MatrixSpec
from ..statistics import factorial, power
from ..statistics.verdict import percent

Spec = MatrixSpec


def cells(spec: MatrixSpec) -> dict[str, str]:
    """Name -> arm of every cell, in standard order: the first factor changes fastest."""
    found = {}
    for levels in itertools.product((False, True), repeat=len(spec.factors)):
        on = [name for name, level in zip(spec.factors, reversed(levels), strict=True) if level]
        settings = [spec.factors[name] for name in on]
        found["+".join(on) or NO_FACTOR] = ",".join([spec.base, *settings])
    return found


def arms(spec: MatrixSpec) -> list[Arm]:
    texts = cells(spec)
    found = parse_arms(texts, {name: "base" if name == NO_FACTOR else "factors" for name in texts})
    builds = {(arm.library.path, tuple(sorted(arm.environment({}).items()))): arm.name for arm in found}
    if len(builds) != len(found):
        raise LabError("factors: two cells of the design are the same arm; every factor must change something")
    return found


def run(spec: MatrixSpec, context) -> dict:
    least = power.least_blocks(spec.alpha / (2 ** len(spec.factors) - 1))
    if spec.max_blocks < least:
        raise LabError(
            f"{context.source}: max-blocks: {spec.max_blocks} blocks are too few for an interval: at least {least}"
        )
    total = 2 ** len(spec.factors) * (spec.max_blocks + spec.warm_up)
    return conduct(spec, context, arms(spec), lambda _: (total, total), measure, analyse)


def measure(session: Session) -> None:
    session.check_fitness()
    session.run_blocks("measure", list(session.arms), session.spec.max_blocks)


def _row(effect: factorial.Effect) -> dict:
    ratio = effect.interval.ratio()
    reading = str(factorial.classify_interaction(effect.interval)) if effect.kind == "interaction" else None
    return {"name": effect.name, "kind": effect.kind, "estimate": ratio.estimate, "ci_low": ratio.low,
            "ci_high": ratio.high, "p": effect.interval.p, "reading": reading}  # fmt: skip


def analyse(header: dict, records: list[dict]) -> dict:
    """Two families, each with intervals that hold together: main effects and interactions; the cells against none."""
    spec, blocks = header["spec"], measured(records)
    metric = metric_of(header)
    result = base_result(header, records, blocks) | {"effects": [], "comparisons": []}
    if len(blocks) < spec["max-blocks"]:
        result["headline"] = unfinished(blocks, spec)
        return result
    sign = 1.0 if metric.higher_is_better else -1.0
    names = [arm["name"] for arm in header["arms"]]
    logs = [[sign * math.log(values(block[name], metric.name)[0]) for name in names] for block in blocks]
    level = 1 - spec["alpha"]
    found = factorial.effects(logs, list(spec["factors"]), level, simultaneous=True)
    single = factorial.simple_effects(logs, list(spec["factors"]), level, simultaneous=True)
    result["effects"] = [_row(effect) for effect in found] + [_row(effect) for effect in single]
    result["final"] = True
    result["headline"] = _headline(found, level)
    for reason in (r["text"] for r in records if r["type"] == "event" and r["what"] == "fitness"):
        result["headline"] = f"No reading on this machine: {reason}"
        for row in result["effects"]:
            row["reading"] = None
    return result


def _headline(effects: list[factorial.Effect], level: float) -> str:
    parts = []
    for effect in effects:
        low, high = percent(effect.interval.low), percent(effect.interval.high)
        size = f"{percent(effect.interval.estimate)} [{low}, {high}]"
        if effect.kind == "main":
            parts.append(f"{effect.name} {size}")
        else:
            parts.append(f"{effect.name} {size}: {factorial.classify_interaction(effect.interval)}")
    return "; ".join(parts) + f" ({level * 100:g} % intervals)."
