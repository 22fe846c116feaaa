"""`hak suite`: workloads of a user's choice on several arms: ratios, bars, guardrails, milestones."""

from hakmem_lab.judge.analysis import failures, warnings
from hakmem_lab.kinds.suite import history as suite_history
from hakmem_lab.kinds.suite import rows as suite_rows
from hakmem_lab.kinds.suite import run as syscalls
from hakmem_lab.kinds.suite.means import group_means
from hakmem_lab.kinds.suite.run import Suite
from hakmem_lab.kinds.suite.sheet import Sheet
from hakmem_lab.kinds.suite.spec import SuiteSpec
from hakmem_lab.plan.spec import build
from hakmem_lab.store.query import finished_blocks

Spec = SuiteSpec
ARM_KEYS = ("name", "library", "sha256", "version", "configuration", "variables")


def run(spec: SuiteSpec, context) -> dict:
    with Suite(spec, context) as suite:
        if context.resume:
            suite.resume(context.resume)
        else:
            suite.begin()
        suite.measure()
        return suite.finish(analyse(suite.file.header(), suite.records()))


def sheets_of(spec: SuiteSpec, records: list[dict]) -> list[Sheet]:
    found = []
    for row in spec.chosen():
        own = [record for record in records if record.get("workload") == row.key]
        rates = syscalls.rates(row, own, spec.alpha) if row.ops else {}
        unfit = bool(unfit_reasons(records, row.key))
        found.append(Sheet(spec, row, finished_blocks(own, "measure"), rates, unfit, own))
    return found


def unfit_reasons(records: list[dict], key: str | None = None) -> list[str]:
    """Why the machine gives no verdict on a workload; without a key: on any of them."""
    found = (record for record in records if record["type"] == "event" and record["what"] == "fitness")
    return [record["text"] for record in found if key is None or record.get("workload", key) == key]


def analyse(header: dict, records: list[dict]) -> dict:
    """Rows, means, milestones and history from the records of one suite; earlier ones are in its records."""
    spec = build(SuiteSpec, header["spec"], header["id"])
    sheets = sheets_of(spec, records)
    rows = [row for sheet in sheets for row in suite_rows.sheet_rows(sheet)]
    reached = suite_rows.milestones(spec, sheets, rows)
    ratios = suite_rows.ratios(sheets)
    earlier = next((record["entries"] for record in records if record["type"] == "history"), None)
    history = [] if earlier is None else [*earlier, *([suite_history.entry(header, ratios)] if ratios else [])]
    blocks, planned = (sum(counts) for counts in suite_rows.block_counts(sheets))
    stopped = any(record["type"] == "event" and record["what"] == "budget" for record in records)
    final = blocks >= planned or stopped
    return {
        "kind": header["kind"],
        "id": header["id"],
        "question": spec.question,
        "verdict": suite_rows.verdict(spec, rows) if final else None,
        "headline": suite_rows.headline(spec, rows, reached, unfit_reasons(records)),
        "final": final,
        "metric": {"name": "ratio", "unit": "", "higher_is_better": True},
        "margin": None,
        "alpha": spec.alpha,
        "blocks": blocks,
        "max_blocks": planned,
        "arms": [{key: arm.get(key) for key in ARM_KEYS} for arm in header["arms"]],
        "comparisons": [],
        "failures": failures(records),
        "warnings": [
            *warnings(header, records),
            *suite_rows.too_few(sheets),
            *suite_history.not_looked_for(history),
        ],
        "suite": {
            "subject": spec.subject,
            "reference": spec.reference,
            "margin": spec.margin,
            "table": spec.table,
            "rows": rows,
            "means": group_means(sheets),
            "milestones": reached,
            "ratios": ratios,
            "history": history,
            "change_points": suite_history.changes(history),
        },
    }
