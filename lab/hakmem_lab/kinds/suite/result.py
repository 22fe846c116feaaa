"""The result of a suite: a row for each ratio and each bar, means, the verdict. Pure.

A geometric mean is over the ratios of a group, or of all workloads. A round has one block of every workload. The mean
of the workloads' log-ratios in a round is one figure. These figures give the interval, as blocks do for one workload.
"""

import statistics
from collections.abc import Sequence
from typing import cast

from hakmem_lab.judge import money
from hakmem_lab.judge.analysis import begun, identity
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.repeated import repeated
from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.paired import as_multiple
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.kinds.suite.run import WORKLOAD_FAILED, rates, settled
from hakmem_lab.kinds.suite.sheet import FASTER, LEANER, MISS, OPEN, PASS, Judged, Sheet, told
from hakmem_lab.kinds.suite.spec import BEST, Bar, SuiteSpec
from hakmem_lab.plan.metrics import GROWTH
from hakmem_lab.plan.model import build
from hakmem_lab.store.query import events, finished_blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Card, CardMean, CardRow, Result

LEAST_WORKLOADS = 2
TRIED = ("open", "blocks", "seconds")  # of a workload that ended by the width of its intervals or by its time
WHAT = {FASTER: "speed", LEANER: "memory"}


def group_means(sheets: Sequence[Sheet]) -> list[CardMean]:
    """A row for speed and one for memory, for every group, and for all workloads unless they are one group."""
    timed = [sheet for sheet in sheets if sheet.row.ops is None and sheet.blocks]
    groups = list(dict.fromkeys(sheet.row.group for sheet in timed if sheet.row.group))
    parts: list[tuple[str | None, list[Sheet]]] = [
        (name, [sheet for sheet in timed if sheet.row.group == name]) for name in groups
    ]
    if len({sheet.row.group for sheet in timed}) != 1 or not groups:
        parts.append((None, timed))
    return [row for name, part in parts for words in WHAT if (row := _mean(name, part, words)) is not None]


def _mean(group: str | None, sheets: Sequence[Sheet], words: tuple[str, str]) -> CardMean | None:
    """A row of means, of speed or of memory. A workload adds its primary metric if it is of that sort, else its
    memory."""
    taken = []
    for sheet in sheets:
        names = dict.fromkeys([sheet.row.metric, *([sheet.row.memory_metric()] if sheet.row.memory else [])])
        taken += [(sheet, name) for name in names if sheet.words(name) == words and name != GROWTH][:1]
    taken = _long_enough(taken)
    if len(taken) < LEAST_WORKLOADS:
        return None
    rounds = min(len(sheet.blocks) for sheet, _ in taken)
    spec, unfit = taken[0][0].spec, any(sheet.unfit for sheet, _ in taken)
    columns = [sheet.logs(name, spec.table == "reference") for sheet, name in taken]
    arms = [arm for arm in spec.allocators if all(arm in each for each in columns)]
    logs = {arm: [statistics.fmean(each[arm][index] for each in columns) for index in range(rounds)] for arm in arms}
    base = spec.reference if spec.table == "reference" else spec.subject
    shown = {
        arm: told(decision, words, unfit)
        for arm, decision in verdict.at_once(logs, spec.margin, spec.alpha).items()
        if not any(sheet.failing(base, arm) for sheet, _ in taken)
    }
    row = {"group": group, "what": WHAT[words], "workloads": len(taken), "rounds": rounds, "arms": shown}
    return cast(CardMean, row)


def _long_enough(taken: list[tuple[Sheet, str]]) -> list[tuple[Sheet, str]]:
    """Only the workloads with enough blocks for an interval; all of them if none has enough."""
    enough = [(sheet, name) for sheet, name in taken if len(sheet.blocks) >= sheet.least_blocks()]
    return enough or taken


def _against_all(spec: SuiteSpec, bar: Bar) -> bool:
    """Whether a bar belongs to the row with the ratios to all arms."""
    return bar.against is not None and (bar.against in BEST or bar.against in spec.allocators)


def _row(sheet: Sheet, label: str, unit: str, judged: Judged | None, **more: object) -> CardRow:
    own = sheet.row
    row: Record = {"key": own.key, "workload": own.title, "group": own.group, "metric": label, "unit": unit, "arms": {},
           "medians": {}, "best_peer": None, "bar": None, "against": None, "verdict": None, "to_reach": None,
           "measured": None, "blocks": len(sheet.blocks)}  # fmt: skip
    return cast(CardRow, row | (judged.record() if judged else {}) | more)


def sheet_rows(sheet: Sheet) -> list[CardRow]:
    """Ratios of each metric with its first bar; then a row for every further bar and every guardrail."""
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
            found = sheet.ratio(name, judged.arm) if bar.against else None
            own = {judged.arm: sheet.cell(name, found, judged.arm)} if found and judged.arm else {}
            medians = {arm: figure.value for arm, figure in sheet.rates.items()}
            if not medians and name not in names:
                medians = sheet.medians(name)
            label = bar.title or sheet.label(name)
            rows.append(_row(sheet, label, sheet.unit(name), judged, arms=own, medians=medians))
    return rows


def ratios_of(sheets: Sequence[Sheet]) -> dict[str, float]:
    """The subject's ratio to the reference in each workload's primary metric."""
    found = {}
    for sheet in [sheet for sheet in sheets if not sheet.row.ops and sheet.row.metric != GROWTH]:
        decision = sheet.ratio(sheet.row.metric, sheet.spec.reference)
        if decision is not None:
            found[sheet.row.key] = as_multiple(decision.interval.estimate)
    return found


def surely_missed(spec: SuiteSpec, rows: Sequence[CardRow], records: list[Record]) -> bool:
    """Whether a bar or guardrail is missed although all of them share alpha. Where each has all of it, one of 20 is
    missed by chance in up to 40 % of suites."""
    found = [row["verdict"] for row in rows if row["verdict"]]
    if MISS not in found:
        return False
    strict = spec.model_copy(update={"alpha": spec.alpha / len(found)})
    return any(row["verdict"] == MISS for sheet in sheets_of(strict, records) for row in sheet_rows(sheet))


def verdict_of(spec: SuiteSpec, rows: Sequence[CardRow], records: list[Record]) -> str | None:
    """GO: every bar and guardrail is reached. NO-GO: one is surely missed. None: there is nothing to reach."""
    if spec.unjudged():
        return None
    found = {row["verdict"] for row in rows if row["verdict"]}
    if surely_missed(spec, rows, records):
        return "NO-GO"
    return "GO" if found == {PASS} else "INCONCLUSIVE"


def withheld_of(rows: Sequence[CardRow], unfit: Sequence[str]) -> str:
    """Why the rows are withheld, or empty. unfit: the reasons why timings on this machine get no verdict."""
    if not any(row["blocks"] or row["verdict"] for row in rows):
        return "No block was finished"
    judged = [row for row in rows if row["verdict"]]
    if unfit and judged and all(row["verdict"] == OPEN for row in judged):
        return f"No verdict on this machine: {unfit[-1]}"
    return ""


def too_few(sheets: Sequence[Sheet]) -> list[str]:
    """A warning if workloads have too few blocks for intervals that hold for all arms at once."""
    short = [sheet for sheet in sheets if sheet.blocks and len(sheet.blocks) < sheet.least_blocks()]
    if not short:
        return []
    some = f"{len(short)} of {len(sheets)} workloads have"
    return [Warn.TOO_FEW.said(some=some, least=short[0].least_blocks())]


def sheets_of(spec: SuiteSpec, records: list[Record]) -> list[Sheet]:
    found = []
    for row in spec.chosen():
        own = [record for record in records if record.get("workload") == row.key]
        counted = rates(row, own, spec.alpha) if row.ops else {}
        unfit = bool(unfit_reasons(records, row.key))
        found.append(Sheet(spec, row, finished_blocks(own, "measure"), counted, unfit, own))
    return found


def unfit_reasons(records: list[Record], key: str | None = None) -> list[str]:
    """Why the machine gives no verdict on a workload; without a key: on any of them."""
    found = events(records, "fitness")
    return [record["text"] for record in found if key is None or record.get("workload", key) == key]


def failed_workloads(records: list[Record]) -> list[str]:
    """A text for each workload that could not be finished since the suite was last begun."""
    resumed = max((place for place, record in enumerate(records) if record.get("what") == "resumed"), default=0)
    return [record["text"] for record in events(records[resumed:], WORKLOAD_FAILED)]


@repeated
@explained
def analyse(header: Record, records: list[Record]) -> Result:
    """Rows and means from the records of one suite."""
    spec = build(SuiteSpec, header["spec"], header["id"])
    sheets = sheets_of(spec, records)
    rows = [row for sheet in sheets for row in sheet_rows(sheet)]
    timed = [sheet for sheet in sheets if not sheet.row.ops]
    tried, blocks = settled(records), sum(len(sheet.blocks) for sheet in timed)
    planned = sum(len(each.blocks) if each.row.key in tried else spec.blocks_of(each.row) for each in timed)
    failed = failed_workloads(records)
    by = spec.reference if spec.table == "subject" else spec.subject
    final = (blocks >= planned or bool(events(records, "budget"))) and not failed
    result = begun(header, records)
    return result | {
        "verdict": verdict_of(spec, rows, records) if final else None,
        "withheld": withheld_of(rows, unfit_reasons(records)),
        "final": final,
        "incomplete": failed,
        "metric": {"name": "ratio", "unit": "", "higher_is_better": True},
        "alpha": spec.alpha,
        "blocks": blocks,
        "max_blocks": planned,
        "arms": [identity(arm) for arm in header["arms"]],
        "comparisons": [],
        "warnings": [*result["warnings"], *(Warn.FAILED_WORKLOAD.said(text=text) for text in failed), *too_few(sheets)],
        **money.of_suite(spec.price, rows, spec.subject, spec.reference, by),
        "suite": cast(
            Card,
            {
                "subject": spec.subject,
                "reference": spec.reference,
                "margin": spec.margin,
                "table": spec.table,
                "rows": rows,
                "means": group_means(sheets),
                "ratios": ratios_of(sheets),
                "tried": {key: {name: each[name] for name in TRIED} for key, each in tried.items()},
            },
        ),
    }
