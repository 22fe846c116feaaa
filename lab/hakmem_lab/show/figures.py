"""Cells of the tables about a result: its metrics, changes and figures. `judge.explain` has the sentences."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hakmem_lab.judge import words
from hakmem_lab.judge.digits import is_size
from hakmem_lab.judge.explain import change_of, within
from hakmem_lab.judge.words import Change
from hakmem_lab.plan.metrics import PATTERN, row_of
from hakmem_lab.plan.schedule import MEASURES, of_figure
from hakmem_lab.show import numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.store.results import CardMean, CardRow, Comparison, Estimate, GuardrailRow, Ratio, Result, SideRow

Writer = Callable[[Any, str], str]

_ARM_FIGURES = (("wall_s", "s"), ("cpu_s", "s"), ("rss_peak_kib", "KiB"), ("rss_mean_kib", "KiB"),
                ("minor_faults", ""))  # fmt: skip


def metric(result: Result, row: Estimate | None = None) -> str:
    """The reader's name for the metric of a comparison or a guardrail, by default for the primary metric."""
    return words.metric_name(result, (row or {}).get("metric"))


def told(result: Result, row: Estimate) -> str:
    """A comparison, an effect or a guardrail as one text: 2.1 % faster [1.4, 2.8]."""
    found = change_of(result, row)
    return found.told(within=within(result, row)) if found else "unknown"


def told_cells(result: Result, rows: Iterable[Estimate]) -> tuple[list[str], str]:
    """(the same for each row of a table, a note below the table about unusual intervals)."""
    rows = list(rows)
    found = [told(result, row) for row in rows]
    short = [text.removesuffix(f", {words.TOO_FEW}") for text in found]
    notes = [f"about: {words.TOO_FEW}"] if short != found else []
    if any(within(result, row) and finite(row.get("equivalence_low")) is not None for row in rows):
        notes.append("within: the narrower interval that decides NEUTRAL")
    return short, "; ".join(notes)


def cells(result: Result, row: Estimate) -> list[str]:
    """The change of a comparison and its interval, as two cells."""
    found = change_of(result, row)
    return [found.short, found.interval or numbers.UNKNOWN] if found else [numbers.UNKNOWN] * 2


def arms_table(result: Result) -> tuple[list[str], list[SideRow]]:
    """(columns of figures, after the arm's name; the arms that have figures). If the judged metric is printed by the
    program, or measured only where asked for, it comes first."""
    rows = [
        arm
        for arm in result.get("arms") or []
        if arm.get("n") and (arm.get("wall_s") is not None or arm.get("cpu_s") is not None)
    ]
    own = [metric(result)] if _own_figure(result) else []
    return [*own, "wall", "CPU", "peak RSS", "mean RSS", "faults", "runs"], rows


def schedules(result: Result) -> list[str]:
    """The schedule of each comparison's blocks; empty texts if sides ran together in none of them."""
    return [schedule(result, row) for row in result.get("comparisons") or []]


def schedule(result: Result, row: Comparison | GuardrailRow | None = None) -> str:
    """The schedule of one row's blocks, by default of the whole result."""
    rows, whole = [row or {}, *(result.get("comparisons") or [])], result.get("schedule")
    found = [str(each.get("schedule") or of_figure(whole, each.get("metric") or "") or "") for each in rows]
    return found[0] if MEASURES.keys() & {*found} else ""


def arm_figures(result: Result, arm: SideRow, written: Writer, written_own: Writer) -> list[str]:
    """An arm's cells in the table of `arms_table`. written, written_own: format a number with its unit; the latter
    formats the program's own metric."""
    own = [written_own(arm.get("median"), result["metric"]["unit"])] if _own_figure(result) else []
    return [*own, *(written(arm.get(name), unit) for name, unit in _ARM_FIGURES), str(arm["n"])]


def _own_figure(result: Result) -> bool:
    name = str(result["metric"]["name"])
    return name.startswith(PATTERN) or bool(row_of(name).extra)


def standing(record: Ratio, memory: bool) -> Change | None:
    """The change for a ratio of a suite, which is above 1 for better: 13 % faster, for memory 17 % lower; or for a
    difference in memory, which is above 0 for less. None without either. The same has the narrower interval, which
    decides it."""
    low, high = finite(record.get("ci_low")), finite(record.get("ci_high"))
    if "equivalence_low" in record:
        low, high = finite(record["equivalence_low"]), finite(record["equivalence_high"])
    if (less := finite(record.get("less"))) is not None:
        return words.difference(less, low, high, record["unit"])
    estimate, low, high = (value and value - 1 for value in (finite(record.get("ratio")), low, high))
    return words.change({"estimate": estimate, "ci_low": low, "ci_high": high}, "rss" if memory else "wall")


def is_memory(row: CardRow | CardMean) -> bool:
    """Whether a row or a mean of a suite is about memory; otherwise it is about speed."""
    return row.get("what") == "memory" or is_size(row.get("unit"))


def comparison_name(comparison: Comparison) -> str:
    """The name of a comparison: its own, else treatment against control."""
    name = comparison.get("name")
    return str(name) if name else f"{comparison.get('treatment', '?')} against {comparison.get('control', '?')}"


def of_several(rows: Sequence[GuardrailRow]) -> bool:
    """Whether rows are of more sides than one, so that each has to name its side."""
    return len({row.get("arm") for row in rows}) > 1
