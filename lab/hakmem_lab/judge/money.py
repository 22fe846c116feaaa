"""What saved memory is worth, at a price that the user states. Pure: header and records in."""

import statistics
from collections.abc import Sequence
from typing import Any

from hakmem_lab.judge import words
from hakmem_lab.judge.analysis import beside, measured, values
from hakmem_lab.plan.metrics import row_of
from hakmem_lab.plan.values import price_of

Record = dict[str, Any]
ENDS = {"estimate": "", "ci_low": "_low", "ci_high": "_high"}


def priced(result: Record, header: Record, records: list[Record]) -> Record:
    """The result with `money`, if the spec has a price: a row for each comparison of the metric where that is an amount
    of memory, else for each such comparison with an interval.

    The interval is that of the comparison, times the first side's median.
    """
    if not (price := header["spec"].get("price")):
        return result
    amount, unit_kib, _ = price_of(price)
    rows, main = [], (result.get("metric") or {}).get("name") or ""
    for row in result.get("comparisons") or []:
        wanted = row["metric"] == main or (row_of(main).unit != "KiB" and words.finite(row["ci_low"]) is not None)
        base_kib = _median(row, measured(records)) or _median(row, beside(records))
        if not wanted or row_of(row["metric"]).unit != "KiB" or base_kib is None:
            continue
        found = {key: row[key] for key in ("control", "treatment", "metric")} | {"price": price}
        for end, suffix in ENDS.items():
            ratio = words.finite(row[end])  # of the first side to the other, minus one
            saved_kib = None if ratio is None or ratio <= -1 else base_kib * ratio / (1 + ratio)
            found |= {f"saved_kib{suffix}": saved_kib}
            found |= {f"amount{suffix}": None if saved_kib is None else saved_kib / unit_kib * amount}
        rows.append(found | {"sentence": _sentence(result, found)})
    return result | {"money": [row for row in rows if row["amount"] is not None]}


def _median(row: Record, blocks: Sequence[Record]) -> float | None:
    runs = [run for block in blocks for run in block.get(row["control"], [])]
    known = values(runs, row["metric"])
    return statistics.median(known) if known else None


def _sentence(result: Record, row: Record) -> str:
    if row["amount"] is None:
        return ""
    sign = -1 if row["saved_kib"] < 0 else 1
    _, unit_kib, period = price_of(row["price"])
    size, worth = (_told(row, key, sign / per) for key, per in (("saved_kib", unit_kib), ("amount", 1.0)))
    unit = row["price"].partition("/")[2].rpartition("-")[0].strip()
    verb = "costs" if sign < 0 else "saves"
    article = "an" if period[0] in "aeiou" or period == "hour" else "a"
    noun = words.metric_name(result, row["metric"])
    return (
        f"{row['treatment']} {verb} {size[0]} {unit}{size[1]} of {noun} against {row['control']}: "
        f"{worth[0]} {article} {period}{worth[1]}, at {row['price']}."
    )


def _told(row: Record, key: str, factor: float) -> tuple[str, str]:
    """(the size, its interval, empty where that is open)."""
    ends = sorted(row[key + end] * factor for end in ("_low", "_high") if row[key + end] is not None)
    return f"{row[key] * factor:.3g}", f" [{ends[0]:.3g}, {ends[1]:.3g}]" if len(ends) == 2 else ""
