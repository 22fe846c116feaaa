"""`hak scorecard`: the project's workloads on all peers, bars, milestones, and the history of the ratios."""

from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.judge.analysis import failures, warnings
from hakmem_lab.kinds.scorecard import history as scorecard_history
from hakmem_lab.kinds.scorecard import rows as scorecard_rows
from hakmem_lab.kinds.scorecard import syscalls
from hakmem_lab.kinds.scorecard.run import Card
from hakmem_lab.kinds.scorecard.sheet import Sheet
from hakmem_lab.kinds.scorecard.spec import ScorecardSpec
from hakmem_lab.plan import project
from hakmem_lab.plan.spec import build
from hakmem_lab.store.blocks import finished_blocks

Spec = ScorecardSpec
DEFAULT_SPEC = Path("experiments") / "scorecard.toml"
ARM_KEYS = ("name", "library", "sha256", "version", "configuration", "variables")


def default_spec() -> Path:
    """The project's own scorecard. Raises LabError outside of a checkout."""
    top = project.root()
    if top is None:
        raise LabError("a scorecard without a spec is the project's own: start hak inside a checkout, or name a spec")
    path = top / DEFAULT_SPEC
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def run(spec: ScorecardSpec, context) -> dict:
    with Card(spec, context) as card:
        try:
            if context.resume:
                card.resume(context.resume)
            else:
                card.begin()
            card.measure()
        except KeyboardInterrupt:
            if card.file is None:
                raise
            raise card.interrupted() from None
        return card.finish(analyse(card.file.header(), card.records()))


def sheets_of(spec: ScorecardSpec, records: list[dict]) -> list[Sheet]:
    found = []
    for row in spec.chosen():
        own = [record for record in records if record.get("workload") == row.key]
        rates = syscalls.rates(row, own, spec.alpha) if row.ops else {}
        unfit = bool(unfit_reasons(records, row.key))
        found.append(Sheet(spec, row, finished_blocks(own, "measure"), rates, unfit))
    return found


def unfit_reasons(records: list[dict], key: str | None = None) -> list[str]:
    """Why the machine gives no verdict on a workload; without a key: on any of them."""
    found = (record for record in records if record["type"] == "event" and record["what"] == "fitness")
    return [record["text"] for record in found if key is None or record.get("workload", key) == key]


def analyse(header: dict, records: list[dict]) -> dict:
    """Rows, milestones and history from the records of one scorecard; earlier ones are in its records."""
    spec = build(ScorecardSpec, header["spec"], header["id"])
    sheets = sheets_of(spec, records)
    rows = [row for sheet in sheets for row in scorecard_rows.sheet_rows(sheet)]
    reached = scorecard_rows.milestones(spec, sheets, rows)
    ratios = scorecard_rows.ratios(sheets)
    earlier = next((record["entries"] for record in records if record["type"] == "history"), [])
    history = [*earlier, *([scorecard_history.entry(header, ratios)] if ratios else [])]
    blocks, planned = (sum(counts) for counts in scorecard_rows.block_counts(sheets))
    stopped = any(record["type"] == "event" and record["what"] == "budget" for record in records)
    return {
        "kind": header["kind"],
        "id": header["id"],
        "question": spec.question,
        "verdict": None,
        "headline": scorecard_rows.headline(spec, rows, reached, unfit_reasons(records)),
        "final": blocks >= planned or stopped,
        "metric": {"name": "ratio", "unit": "", "higher_is_better": True},
        "margin": None,
        "alpha": spec.alpha,
        "blocks": blocks,
        "max_blocks": planned,
        "more_blocks": None,
        "arms": [{key: arm.get(key) for key in ARM_KEYS} for arm in header["arms"]],
        "comparisons": [],
        "failures": failures(records),
        "warnings": [
            *warnings(header, records),
            *scorecard_rows.too_few(sheets),
            *scorecard_history.not_looked_for(history),
        ],
        "scorecard": {
            "subject": spec.subject,
            "reference": spec.reference,
            "margin": spec.margin,
            "table": spec.table,
            "rows": rows,
            "milestones": reached,
            "ratios": ratios,
            "history": history,
            "change_points": scorecard_history.changes(history),
        },
    }
