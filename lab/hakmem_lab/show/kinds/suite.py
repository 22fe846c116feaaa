"""A suite: ratios, means, bars, medians. Ratios are above 1 where the subject is better."""

from collections.abc import Iterator, Sequence

from hakmem_lab.judge import words
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.openmetrics import Sample, bounds
from hakmem_lab.show.report.model import Cell, Table, text_of, verdict_cell
from hakmem_lab.show.terminal import filled, number
from hakmem_lab.store.results import Card, CardMean, CardRow, Ratio, Result


def row_name(row: CardRow) -> str:
    """A workload, with its metric if the row has one."""
    return " · ".join(str(row[name]) for name in ("workload", "metric") if row.get(name)) or "?"


def row_arms(rows: Sequence[CardRow | CardMean]) -> list[str]:
    """Names of the arms of all rows, in order of appearance."""
    return list(dict.fromkeys(str(name) for row in rows for name in row.get("arms") or {}))


def ratio_text(value: object) -> str:
    known = finite(value)
    return numbers.UNKNOWN if known is None else f"{known:.2f}×"


def figure_text(record: Ratio, row: CardRow | CardMean) -> str:
    """A ratio of this row in words: 4 % faster [2, 6], for memory 4 % lower."""
    found = figures.standing(record, figures.is_memory(row))
    if found is None:
        return str(record.get("word") or numbers.UNKNOWN)
    return found.told() if found.ends else f"{found.short} [open]"


MILLISECONDS_BELOW_S = 0.1
OF_BAR = {"pass": "GO", "miss": "NO-GO"}
_REACHED = ("to reach", "measured")
SAME = "same"


def tables(result: Result) -> Iterator[object]:
    card = result["suite"]
    for under, each in _cards(result):
        yield from _ratios(each, under)
    # Suites stored by older versions have no means.
    arms = row_arms(means := card.get("means") or [])
    rows = [[_whose(mean), *(_cell(mean["arms"].get(arm), mean) for arm in arms)] for mean in means]
    yield from filled("Geometric means", ["of", *arms], rows)
    rows = [
        [_name(row), str(row["to_reach"]), str(row["measured"]), verdict]
        for row in card["rows"]
        if (verdict := row["verdict"])
    ]
    yield from filled("Bars (~: the interval holds the bar, open)", ("workload", *_REACHED, "verdict"), rows)
    if card["table"] == "subject":
        measured = [row for row in card["rows"] if row["medians"]]
        arms = [*dict.fromkeys(name for row in measured for name in row["medians"])]
        rows = [[_name(row), *(_amount(row["medians"].get(arm), row["unit"]) for arm in arms)] for row in measured]
        title = "Medians of this session (never to be compared with those of another)"
        yield from filled(title, ("workload", *arms), rows)


def _whose(mean: CardMean) -> str:
    return f"{mean['workloads']} workloads" + (f" of {mean['group']}" if mean["group"] else "") + f": {mean['what']}"


def _name(row: CardRow) -> str:
    return f"{row['workload']}: {row['metric']}"


def _cell(record: Ratio | None, row: CardRow | CardMean) -> str:
    """The change, `undecided` or `same`, with the interval below it."""
    found = figures.standing(record or {}, figures.is_memory(row))
    if record is None or found is None:
        return (record or {}).get("word") or "-"
    if record.get("word") == SAME:
        return f"{SAME}\n{found.interval}".rstrip()  # no interval where every block has the same figure
    if not found.ends:
        return f"about {found.short}\nno interval yet"
    return f"{found.short if found.sure else words.UNDECIDED}\n{found.interval}"


def _amount(value: float | None, unit: str) -> str:
    """The value with a customary prefix: Mop/s, ms, MiB."""
    if value is None:
        return "-"
    if unit == "s" and value < MILLISECONDS_BELOW_S:
        return number(value * 1e3, "ms")
    return f"{value / 1e6:.1f} M{unit}" if unit.endswith("/s") and value >= 1e6 else number(value, unit)


def _ratios(card: Card, under: str) -> Iterator[object]:
    rows = [row for row in card["rows"] if len(row["arms"]) > 1 or (row["medians"] and row["arms"])]
    if not rows:
        return
    by_reference = card["table"] == "reference"
    arms = row_arms(rows)
    heads = ["workload", *([card["reference"]] if by_reference else []), *arms]
    for group, part in _grouped(rows):
        cells = []
        for row in part:
            base = [_amount(row["medians"].get(card["reference"]), row["unit"])] if by_reference else []
            cells.append([_name(row), *base, *(_cell(row["arms"].get(arm), row) for arm in arms)])
        yield from filled(f"{group}{against(card)}{under}, and below it the interval", heads, cells)
    if margin := card.get("margin"):
        yield f"same: the interval is within {100 * margin:g} %. undecided: more blocks narrow the interval."


def _grouped(rows: list[CardRow]) -> Iterator[tuple[str, list[CardRow]]]:
    """(prefix of the table's title, its rows) for every group; rows without a group are one group."""
    for group in dict.fromkeys(row.get("group") for row in rows):
        yield f"{group}: " if group else "", [row for row in rows if row.get("group") == group]


def _cards(result: Result) -> list[tuple[str, Card]]:
    """(suffix of a title, the suite): the suite measured without a condition, then with each condition."""
    others = [(f", {each['title']}", each["suite"]) for each in result.get("conditions") or []]
    return [("", result["suite"]), *others]


def against(card: Card) -> str:
    if card.get("table") == "reference":
        return f"Against {card.get('reference')}"
    return f"{card.get('subject') or 'The subject'} against each"


def findings(result: Result) -> Iterator[Table]:
    card = result["suite"]
    arms = row_arms(card.get("rows") or [])
    for under, each in _cards(result):
        caption = f"{against(card)}{under} (▲ better, ▼ worse, ≈ undecided or same, ? too few blocks for an interval)"
        heads = ["Workload", *arms, "Best peer", "To reach", "Reached", "Verdict"]
        yield Table(caption, heads, [_heats(row, arms) for row in each.get("rows") or []])
    arms = row_arms(means := card.get("means") or [])
    means_body = [
        [
            text_of(mean.get("group") or "all"),
            text_of(mean.get("what")),
            numbers.number(mean.get("workloads")),
            *(_heat((mean.get("arms") or {}).get(arm) or {}, mean) for arm in arms),
        ]
        for mean in means
    ]
    yield Table("Geometric means of the ratios", ["Group", "Of", "Workloads", *arms], means_body)


def _heats(row: CardRow, arms: list[str]) -> list[str | Cell]:
    return [
        row_name(row),
        *(_heat((row.get("arms") or {}).get(arm) or {}, row) for arm in arms),
        text_of(row.get("best_peer")),
        text_of(row.get("to_reach") or (ratio_text(row["bar"]) if row.get("bar") else None)),
        text_of(row.get("measured")),
        verdict_cell(row.get("verdict")),
    ]


def _heat(record: Ratio, row: CardRow | CardMean) -> str | Cell:
    """A ratio with a mark and a matching tint, by its word."""
    ratio = finite(record.get("ratio"))
    if ratio is None:
        return figure_text(record, row)
    low, high = finite(record.get("ci_low")), finite(record.get("ci_high"))
    if low is None and high is None:
        return Cell(f"? {figure_text(record, row)}", "inconclusive")
    better, worse = (record.get("word") in each for each in (words.BETTER, words.WORSE))
    mark, tone = ("▲", "go") if better else ("▼", "no-go") if worse else ("≈", "neutral")
    strong = (better or worse) and not 1 / 1.1 <= ratio <= 1.1
    return Cell(f"{mark} {figure_text(record, row)}", tone + " strong" * strong)


def cases(result: Result) -> Iterator[tuple[str, str, str]]:
    """The judgements on the bars; a bar inside the interval is open."""
    for row in result["suite"].get("rows", []):
        if row["verdict"]:
            name = f"{row['workload']}: {row['metric']} {row['to_reach']}"
            text = f"{row['measured']}, to reach: {row['to_reach']}"
            yield name, OF_BAR.get(row["verdict"], "INCONCLUSIVE"), text


def samples(result: Result) -> Iterator[Sample]:
    for row in result["suite"].get("rows", []):
        for arm, figure in row["arms"].items():
            labels = {"workload": row["key"], "metric": row["metric"], "arm": arm}
            if figure and "ratio" in figure:
                yield from bounds("hak_suite_ratio", labels, [figure["ratio"], figure["ci_low"], figure["ci_high"]])
