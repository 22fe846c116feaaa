"""What a matrix is asked, and what is decided of it after so many blocks. Pure.

Questions are the simple effects, the cells against none, the interactions and the main effects: they share alpha, so
that all of them together are wrong in direction in at most alpha of the runs, after whatever block one looks. Main
effects follow from the simple ones: no run goes on for them.
"""

import math

from hakmem_lab.judge.analysis import metric_of, values
from hakmem_lab.judge.statistics import factorial, verdict
from hakmem_lab.judge.statistics.factorial import Question
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.store.blocks import Blocks


def logs(header: dict, blocks: Blocks) -> tuple[list[list[float]], list[list[int]]]:
    """Of every block a row of cells, higher is better, and a row of their places."""
    metric = metric_of(header)
    sign = 1.0 if metric.higher_is_better else -1.0
    names = [arm["name"] for arm in header["arms"]]
    rows = [
        [sign * math.log(value) for name in names for value in values(block[name], metric.name) or ()]
        for block in blocks
    ]
    return rows, [[block[name][0]["position"] for name in names] for block in blocks]


def questions(header: dict, blocks: Blocks) -> tuple[list[Question], float]:
    """(all questions, what the place in the block does, from place to place)."""
    freed, change = factorial.freed_as_known(*logs(header, blocks))
    return factorial.questions(freed.tolist(), list(header["spec"]["factors"])), change


def goes_on_for(question: Question) -> bool:
    return question.kind != "main"


def shared_alpha(spec: dict) -> float:
    """Of each question."""
    return spec["alpha"] / factorial.question_count(len(spec["factors"]))


def decide(question: Question, spec: dict, plan: Plan) -> verdict.Decision:
    return verdict.decide(question.d.tolist(), spec["margin"], shared_alpha(spec), plan)


def settled(header: dict, blocks: Blocks, plan: Plan) -> bool:
    """Whether every question has its answer: better, worse, or a difference smaller than the margin."""
    asked = filter(goes_on_for, questions(header, blocks)[0])
    return all(decide(q, header["spec"], plan).verdict is not verdict.Verdict.INCONCLUSIVE for q in asked)
