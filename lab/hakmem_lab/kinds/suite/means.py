"""Geometric means of a suite's ratios, of each group and of all workloads. Pure.

A round is a block of every workload. The mean over the workloads of their log-ratios in a round is one figure, and the
rounds make the interval, as the blocks of one workload do for its own.
"""

import statistics
from collections.abc import Sequence

from hakmem_lab.judge.statistics.paired import least_count
from hakmem_lab.kinds.suite.sheet import FASTER, LEANER, Sheet, ratios

LEAST_WORKLOADS = 2
WHAT = {FASTER: "speed", LEANER: "memory"}


def group_means(sheets: Sequence[Sheet]) -> list[dict]:
    """A row for speed and one for memory, of every group and, where there is not just one, of all; two workloads at
    least make a mean."""
    timed = [sheet for sheet in sheets if sheet.row.ops is None and sheet.blocks]
    groups = list(dict.fromkeys(sheet.row.group for sheet in timed if sheet.row.group))
    parts: list[tuple[str | None, list[Sheet]]] = [
        (name, [sheet for sheet in timed if sheet.row.group == name]) for name in groups
    ]
    if len({sheet.row.group for sheet in timed}) != 1 or not groups:
        parts.append((None, timed))
    return [row for name, part in parts for words in WHAT if (row := _mean(name, part, words)) is not None]


def _mean(group: str | None, sheets: Sequence[Sheet], words: tuple[str, str]) -> dict | None:
    """The primary metric of a workload counts for what it measures; its memory, where that has a row, for memory."""
    taken = []
    for sheet in sheets:
        names = dict.fromkeys([sheet.row.metric, *([sheet.row.memory_metric()] if sheet.row.memory else [])])
        taken += [(sheet, name) for name in names if sheet.words(name) == words][:1]
    taken = _long_enough(taken)
    if len(taken) < LEAST_WORKLOADS:
        return None
    rounds = min(len(sheet.blocks) for sheet, _ in taken)
    columns = [sheet.shown_logs(name) for sheet, name in taken]
    arms = [arm for arm in columns[0] if all(arm in each for each in columns)]
    logs = {arm: [statistics.fmean(each[arm][index] for each in columns) for index in range(rounds)] for arm in arms}
    spec, unfit = taken[0][0].spec, any(sheet.unfit for sheet, _ in taken)
    found = ratios(logs, spec.alpha)
    base = spec.reference if spec.table == "reference" else spec.subject
    shown = {
        arm: figure.record() | {"word": figure.word(spec.margin, words, unfit)}
        for arm, figure in found.items()
        if not any(sheet.failing(base, arm) for sheet, _ in taken)
    }
    return {"group": group, "what": WHAT[words], "workloads": len(taken), "rounds": rounds, "arms": shown}


def _long_enough(taken: list[tuple[Sheet, str]]) -> list[tuple[Sheet, str]]:
    """Without the workloads that have too few blocks for an interval, where others have enough."""
    enough = [
        (sheet, name)
        for sheet, name in taken
        if len(sheet.blocks) >= least_count(sheet.spec.alpha / 2 / max(1, len(sheet.spec.allocators) - 1))
    ]
    return enough or taken
