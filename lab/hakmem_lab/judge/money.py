"""What saved memory is worth, at a price that the user states. Pure: header and records in."""

import statistics
from collections.abc import Sequence
from typing import cast

from hakmem_lab.judge import words
from hakmem_lab.judge.analysis import values
from hakmem_lab.judge.digits import finite
from hakmem_lab.plan.metrics import row_of
from hakmem_lab.plan.values import price_of
from hakmem_lab.store.query import BESIDE, Blocks, finished_blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import CardRow, Comparison, Money, Result

ENDS = {"estimate": "", "ci_low": "_low", "ci_high": "_high"}
RATIOS = {"estimate": "ratio", "ci_low": "ci_low", "ci_high": "ci_high"}  # of a suite's rows
PHASES = ("measure", "confirm", BESIDE)  # that a comparison may be about, the likeliest first


def priced(result: Result, header: Record, records: list[Record]) -> Result:
    """The result with `money`, if the spec has a price: a row for each comparison of the metric where that is an amount
    of memory, else for each such comparison with an interval.

    The interval is that of the comparison, times the first side's median.
    """
    if not (price := header["spec"].get("price")):
        return result
    rows, main = list[Money](), (result.get("metric") or {}).get("name") or ""
    for row in result.get("comparisons") or []:
        wanted = row["metric"] == main or (row_of(main).unit != "KiB" and finite(row["ci_low"]) is not None)
        if wanted and row_of(row["metric"]).unit == "KiB":
            medians = (_median(row, finished_blocks(records, phase)) for phase in PHASES)
            base_kib = next((median for median in medians if median is not None), None)
            rows += _worth(price, row, words.metric_name(result, row["metric"]), base_kib)
    return result | {"money": rows}


def of_suite(price: str | None, rows: Sequence[CardRow], subject: str, reference: str, by: str) -> Result:
    """The key `money` of a suite with a price: a row for each metric of memory of each workload, subject against
    reference. by: the other side of that ratio in `rows`. Rows of further bars repeat it, and have no `words`."""
    if not price:
        return {}
    found: list[Money] = []
    for row in rows:
        shown, base_kib = row["arms"].get(by) or {}, row["medians"].get(reference)
        if row["unit"] == "KiB" and "words" in row and finite(shown.get("ratio")) is not None:
            ends = {name: finite(shown.get(key)) for name, key in RATIOS.items()}
            ends = {name: None if value is None else value - 1 for name, value in ends.items()}
            pair = {"control": reference, "treatment": subject, "metric": row["metric"]} | ends
            found += _worth(price, cast(Comparison, pair), f"{row['metric']} in '{row['workload']}'", base_kib)
    return {"money": found}


def _worth(price: str, row: Comparison, noun: str, base_kib: float | None) -> list[Money]:
    """The row of `money` for a comparison of memory: none where an amount is unknown. base_kib: the first side's."""
    amount, unit_kib, _ = price_of(price)
    found: Record = {"control": row["control"], "treatment": row["treatment"], "metric": row["metric"], "price": price}
    for end, suffix in ENDS.items():
        ratio = finite(row.get(end))  # of the first side to the other, minus one
        known = ratio is not None and ratio > -1 and base_kib is not None
        saved_kib = base_kib * ratio / (1 + ratio) if known else None  # type: ignore[operator]
        found |= {f"saved_kib{suffix}": saved_kib}
        found |= {f"amount{suffix}": None if saved_kib is None else saved_kib / unit_kib * amount}
    return [] if found["amount"] is None else [cast(Money, found | {"sentence": _sentence(found, noun)})]


def _median(row: Comparison, blocks: Blocks) -> float | None:
    runs = [run for block in blocks for run in block.get(row["control"], [])]
    known = values(runs, row["metric"])
    return statistics.median(known) if known else None


def _sentence(row: Record, noun: str) -> str:
    sign = -1 if row["saved_kib"] < 0 else 1
    _, unit_kib, period = price_of(row["price"])
    size, worth = (_told(row, key, sign / per) for key, per in (("saved_kib", unit_kib), ("amount", 1.0)))
    unit = row["price"].partition("/")[2].rpartition("-")[0].strip()
    verb = "costs" if sign < 0 else "saves"
    article = "an" if period[0] in "aeiou" or period == "hour" else "a"
    return (
        f"{row['treatment']} {verb} {size[0]} {unit}{size[1]} of {noun} against {row['control']}: "
        f"{worth[0]} {article} {period}{worth[1]}, at {row['price']}."
    )


def _told(row: Record, key: str, factor: float) -> tuple[str, str]:
    """(the size, its interval, empty where that is open)."""
    ends = sorted(row[key + end] * factor for end in ("_low", "_high") if row[key + end] is not None)
    return f"{row[key] * factor:.3g}", f" [{ends[0]:.3g}, {ends[1]:.3g}]" if len(ends) == 2 else ""
