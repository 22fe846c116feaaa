"""`hak matrix`: a 2^k design. What each factor does at each level of the others, a contrast inside every block."""

import itertools

from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics import power
from hakmem_lab.kinds.matrix.result import analyse
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import NO_FACTOR, MatrixSpec
from hakmem_lab.run.conduct import conduct
from hakmem_lab.run.session import Session, parse_arms

__all__ = ["Spec", "analyse", "run"]

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
    factors = len(spec.factors)
    effects = factors * 2 ** (factors - 1) + 2**factors - 1 - factors  # at each level of the others, and combined
    least = power.least_blocks(spec.alpha / effects)
    if spec.max_blocks < least:
        raise LabError(
            f"{context.source}: max-blocks: {spec.max_blocks} blocks are too few for an interval: at least {least}"
        )
    total = 2 ** len(spec.factors) * (spec.max_blocks + spec.warm_up)
    return conduct(spec, context, arms(spec), lambda _: (total, total), measure, analyse)


def measure(session: Session) -> None:
    session.check_fitness()
    session.run_blocks("measure", list(session.arms), session.spec.max_blocks)
