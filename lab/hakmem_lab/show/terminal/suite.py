"""Terminal tables of a suite: ratios, means, bars, milestones, medians, changes."""

from collections.abc import Iterator

from hakmem_lab.show import answers
from hakmem_lab.show.terminal.tables import add_row, new_table, number

MILLISECONDS_BELOW_S = 0.1
MISS = "miss"
UNDECIDED = ("same", "open")


def tables(card: dict) -> Iterator:
    """Tables, and lines of text, in the order of reading."""
    yield from _ratios(card)
    yield from _means(card)
    yield from _bars(card)
    yield from _milestones(card)
    if card["table"] == "subject":
        yield from _medians(card)
    yield from _changes(card)


def _name(row: dict) -> str:
    return f"{row['workload']}: {row['metric']}"


def _arms(rows: list[dict], key: str) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row[key]))


def _cell(record: dict | None, row: dict) -> str:
    """The change, the same or open, and below it the interval."""
    found = answers.standing(record or {}, answers.is_memory(row))
    if record is None or found is None:
        return (record or {}).get("word") or "-"
    if not found.between:
        return f"about {found.short}\nno interval yet"
    word = record.get("word")
    if word in UNDECIDED or not found.sure:
        return f"{word or 'open'}\n{found.between}"
    return f"{found.short}\n[{found.brackets or found.between}]"


def _amount(value: float | None, unit: str) -> str:
    """With the prefix that people use: Mop/s, ms, MiB."""
    if value is None:
        return "-"
    if unit == "s" and value < MILLISECONDS_BELOW_S:
        return number(value * 1e3, "ms")
    return f"{value / 1e6:.1f} M{unit}" if unit.endswith("/s") and value >= 1e6 else number(value, unit)


def _ratios(card: dict) -> Iterator:
    rows = [row for row in card["rows"] if len(row["arms"]) > 1 or (row["medians"] and row["arms"])]
    if not rows:
        return
    by_reference = card["table"] == "reference"
    what = f"Against {card['reference']}" if by_reference else f"{card['subject']} against each"
    arms = _arms(rows, "arms")
    for group, part in _grouped(rows):
        table = new_table(f"{group}{what}, and below it the interval", "workload",
                          *([card["reference"]] if by_reference else []), *arms)  # fmt: skip
        for row in part:
            base = [_amount(row["medians"].get(card["reference"]), row["unit"])] if by_reference else []
            add_row(table, _name(row), *base, *(_cell(row["arms"].get(arm), row) for arm in arms))
        yield table
    if margin := card.get("margin"):
        yield (
            f"same: surely within {100 * margin:g} %. open: the interval holds no change, and more than "
            f"{100 * margin:g} % beside it; more blocks would tell."
        )


def _grouped(rows: list[dict]) -> Iterator[tuple[str, list[dict]]]:
    """(what leads a table's title, its rows) of every group, those without one in their place among them."""
    for group in dict.fromkeys(row.get("group") for row in rows):
        yield f"{group}: " if group else "", [row for row in rows if row.get("group") == group]


def _means(card: dict) -> Iterator:
    """Geometric means; what was stored before there were any has none."""
    if means := card.get("means"):
        arms = _arms(means, "arms")
        table = new_table("Geometric means", "of", *arms)
        for mean in means:
            whose = f"{mean['workloads']} workloads" + (f" of {mean['group']}" if mean["group"] else "")
            add_row(table, f"{whose}: {mean['what']}", *(_cell(mean["arms"].get(arm), mean) for arm in arms))
        yield table


def _bars(card: dict) -> Iterator:
    rows = [row for row in card["rows"] if row["verdict"]]
    if rows:
        table = new_table("Bars (~: the interval holds the bar, open)", "workload", "to reach", "measured", "verdict")
        for row in rows:
            add_row(table, _name(row), row["to_reach"], row["measured"], row["verdict"])
        yield table


def _milestones(card: dict) -> Iterator:
    if card["milestones"]:
        table = new_table("Milestones", "milestone", "to reach", "measured", "met")
        for each in card["milestones"]:
            add_row(table, each["name"], each["to_reach"], each["measured"], _met(each))
        yield table


def _met(milestone: dict) -> str:
    """Open where the interval holds the bar, or the machine gives no verdict."""
    if milestone["met"]:
        return "yes"
    return "no" if milestone.get("verdict") in (None, MISS) else "open"


def _medians(card: dict) -> Iterator:
    rows = [row for row in card["rows"] if row["medians"]]
    if rows:
        arms = _arms(rows, "medians")
        table = new_table("Medians of this session (never to be compared with those of another)", "workload", *arms)
        for row in rows:
            cells = (_amount(row["medians"].get(arm), row["unit"]) for arm in arms)
            add_row(table, _name(row), *cells)
        yield table


def _changes(card: dict) -> Iterator:
    """Where the ratio to the reference changed over the stored suites."""
    history = card["history"]
    if len(history) > 1:
        yield f"{len(history)} suites in the history, ratios to {card['reference']}"
    for key, points in card["change_points"].items():
        for point in points:
            before = next(e["ratios"][key] for e in reversed(history[:point]) if key in e["ratios"])
            after, where = history[point]["ratios"][key], history[point]["revision"] or history[point]["created"]
            yield f"- {key}: a new level since {where} ({before:.2f}, then {after:.2f})"
