"""The table of a suite: a row for each ratio and each bar, the milestones, the verdict, the headline. Pure."""

from collections.abc import Sequence

from hakmem_lab.judge.statistics.paired import least_count
from hakmem_lab.kinds.suite.bars import BEST, Bar
from hakmem_lab.kinds.suite.sheet import FAILED, FASTER, LEANER, MISS, OPEN, PASS, SAME, Judged, Sheet
from hakmem_lab.kinds.suite.spec import SuiteSpec

SHOWN_MISSES = 4


def _against_all(spec: SuiteSpec, bar: Bar) -> bool:
    """Whether a bar belongs to the row with the ratios to all arms."""
    return bar.against is not None and (bar.against in BEST or bar.against in spec.allocators)


def _row(sheet: Sheet, label: str, unit: str, judged: Judged | None, **more: object) -> dict:
    own = sheet.row
    row = {"key": own.key, "workload": own.title, "group": own.group, "metric": label, "unit": unit, "arms": {},
           "medians": {}, "best_peer": None, "bar": None, "against": None, "verdict": None, "to_reach": None,
           "measured": None, "blocks": len(sheet.blocks)}  # fmt: skip
    return row | (judged.record() if judged else {}) | more


def sheet_rows(sheet: Sheet) -> list[dict]:
    """Ratios of the primary metric, of memory and of the further ones, each with its first bar; then a row for every
    further bar and every guardrail."""
    rows, left = [], list(sheet.row.bars)
    memory = [sheet.row.memory_metric()] if sheet.row.memory else []
    names = [] if sheet.row.ops else [sheet.row.metric, *memory, *sheet.row.also.values()]
    for name in dict.fromkeys(names):
        fitting = [bar for bar in left if sheet.row.named(bar.metric) == name and _against_all(sheet.spec, bar)]
        judged = sheet.judge(fitting[0]) if fitting else None
        if fitting:
            left.remove(fitting[0])
        rows.append(_row(sheet, sheet.label(name), sheet.unit(name), judged, arms=sheet.worded(name),
                         words=sheet.words(name),
                         medians=sheet.medians(name), best_peer=sheet.best_peer(name)))  # fmt: skip
    for bar in [*left, *sheet.spec.guardrails_of(sheet.row)]:
        judged, name = sheet.judge(bar), sheet.row.named(bar.metric)
        if judged is not None:
            own = {judged.arm: judged.figure.record()} if bar.against else {}
            medians = {arm: figure.value for arm, figure in sheet.rates.items()}
            if not medians and name not in names:
                medians = sheet.medians(name)
            label = bar.title or sheet.label(name)
            rows.append(_row(sheet, label, sheet.unit(name), judged, arms=own, medians=medians))
    return rows


def milestones(spec: SuiteSpec, sheets: Sequence[Sheet], rows: Sequence[dict]) -> list[dict]:
    """Those whose workload was measured; at the end, where every workload was, how many bars are reached.

    A milestone is met only where the whole interval is beyond its bar.
    """
    by_key, found = {sheet.row.key: sheet for sheet in sheets}, []
    for milestone in spec.milestone:
        sheet = by_key.get(milestone.workload)
        judged = sheet.judge(milestone) if sheet else None
        if judged is not None:
            target = judged.bar if judged.bar is not None else milestone.at_least or milestone.at_most
            found.append({"name": milestone.name, "target": target, "met": judged.verdict == PASS,
                          **{k: v for k, v in judged.record().items() if k != "bar"}})  # fmt: skip
    judged_rows = [row for row in rows if row["verdict"]]
    if judged_rows and spec.milestone and not spec.only:
        verdicts = [row["verdict"] for row in judged_rows]
        reached, all_of_them = verdicts.count(PASS), f"{len(verdicts)} bars"
        whole = PASS if reached == len(verdicts) else MISS if MISS in verdicts else OPEN
        found.append({"name": "every bar", "target": len(verdicts), "value": reached, "met": whole == PASS,
                      "verdict": whole, "to_reach": all_of_them, "measured": f"{reached} bars"})  # fmt: skip
    return found


def ratios(sheets: Sequence[Sheet]) -> dict[str, float]:
    """The subject's ratio to the reference in each workload's primary metric: what a history is made of."""
    found = {}
    for sheet in sheets:
        figure = sheet.subject_ratios(sheet.row.metric).get(sheet.spec.reference) if not sheet.row.ops else None
        if figure is not None:
            found[sheet.row.key] = figure.value
    return found


def _standing(spec: SuiteSpec, rows: Sequence[dict]) -> str:
    """In how many of the workloads the subject is better than the reference, in speed and in memory."""
    others = [arm for arm in spec.allocators if arm != spec.subject]
    other = spec.reference if spec.reference in others else others[0]
    arm, parts = spec.subject if spec.table == "reference" else other, []
    for words in (FASTER, LEANER):
        found = [row["arms"][arm]["word"] for row in rows if row.get("words") == words and arm in row["arms"]]
        told = [(found.count(word), f"{word} in") for word in words] + [(found.count(SAME), "the same in")]
        told = [f"{text} {count} of {len(found)}" for count, text in told if count]
        told += [f"{found.count(word)} {word}" for word in (OPEN, FAILED) if word in found]
        parts += [", ".join(told)] if found else []
    return f"{spec.subject} against {other}: {'; '.join(parts)}."


def verdict(spec: SuiteSpec, rows: Sequence[dict]) -> str | None:
    """GO where every bar and guardrail that this run can judge is reached, NO-GO where one is surely missed; None
    where there is nothing to reach."""
    if not spec.judges():
        return None
    found = [row["verdict"] for row in rows if row["verdict"]]
    if MISS in found:
        return "NO-GO"
    return "GO" if found and set(found) == {PASS} else "INCONCLUSIVE"


def headline(
    spec: SuiteSpec,
    rows: Sequence[dict],
    reached: Sequence[dict],
    unfit: Sequence[str] = (),
) -> str:
    """What a reader should know first. unfit: why the machine gives no verdict on what was timed."""
    if not any(row["blocks"] or row["verdict"] for row in rows):
        return "No block was finished."
    judged = [row for row in rows if row["verdict"]]
    if not judged:
        return _standing(spec, rows)
    if unfit and all(row["verdict"] == OPEN for row in judged):
        return f"No verdict on this machine: {unfit[-1]}"
    missed = [row for row in judged if row["verdict"] == MISS]
    passed = sum(row["verdict"] == PASS for row in judged)
    text = f"{spec.subject} reaches {passed} of {len(judged)} bars"
    if passed + len(missed) < len(judged):
        text += f", {len(judged) - passed - len(missed)} open"
    if missed:
        names = [f"{row['workload']} ({row['metric']}: {row['measured']})" for row in missed[:SHOWN_MISSES]]
        more = f" and {len(missed) - SHOWN_MISSES} more" if len(missed) > SHOWN_MISSES else ""
        text += f"; missed: {', '.join(names)}{more}"
    if reached:
        unclear = sum(m["verdict"] not in (PASS, MISS) for m in reached)
        text += f"; {sum(m['met'] for m in reached)} of {len(reached)} milestones met"
        text += f", {unclear} open" if unclear else ""
    return text + "."


def block_counts(sheets: Sequence[Sheet]) -> tuple[list[int], list[int]]:
    """(finished, planned) blocks of each workload that is timed."""
    timed = [sheet for sheet in sheets if not sheet.row.ops]
    return [len(sheet.blocks) for sheet in timed], [sheet.spec.blocks_of(sheet.row) for sheet in timed]


def too_few(sheets: Sequence[Sheet]) -> list[str]:
    """A warning where the fewest blocks are too few for intervals over all arms at once."""
    short = [sheet for sheet in sheets if sheet.blocks and len(sheet.blocks) < _least(sheet)]
    if not short:
        return []
    some = f"{len(short)} of {len(sheets)} workloads have"
    return [f"{some} too few blocks for intervals that hold for all arms at once: {_least(short[0])} are needed"]


def _least(sheet: Sheet) -> int:
    return least_count(sheet.spec.alpha / 2 / max(1, len(sheet.arms()) - 1))
