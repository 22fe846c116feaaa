"""The charts of the gallery: results/gallery/overview.svg for README.md, and one for each question of the site.

Also writes the sentences that README.md and the site quote, from the same rows.
"""

import re
from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes
from panels import Panels

from hakmem_lab.kinds.suite.sheet import FASTER, SAME
from hakmem_lab.kinds.suite.sheet import LEANER as FEWER
from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Measure, Row
from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import Table

PAGE, MEMORY = gallery.PAGES / "overview.svg", gallery.PAGES / "memory.svg"
AFTER, LEAST = gallery.MORE["after-load"], gallery.MORE["least-memory"]
HEADS = {gallery.TIME: "processor time", gallery.PEAK: "peak memory", gallery.TAIL: "p99"} | {
    name: name for name in gallery.MORE.values()
}
SUBJECT, NAMES = "hakmem", {"hakmem": "hakmem", "jemalloc5": "jemalloc", "mimalloc3": "mimalloc",
                            "google-tcmalloc": "Google's tcmalloc"}  # fmt: skip
TITLE = "Real programs on four allocators, as multiples of glibc"
LEANER = ("smaller", "larger")
WORDS = {
    gallery.TIME: ("faster", "slower"),
    gallery.TAIL: ("lower", "higher"),
    gallery.MORE["growth"]: ("slower", "faster"),
}
LIMITS, TICKS = (0.36, 3.4), (0.5, 0.7, 1, 1.4, 2, 3)
PANELS = Panels(0.18, 2.75, 0.75, 0.45, LIMITS, TICKS, " ×")
# Narrow enough for a phone.
NARROW = Panels(0.18, 1.95, 0.85, 0.45, LIMITS, (0.5, 1, 2, 3), " ×", width_in=4.4)

Cost = tuple[float, float, float]


def costs(measure: Measure, arm: str) -> Cost | None:
    """(estimate, low, high) as a multiple of glibc's cost: below 1 is better."""
    record = measure.by_reference.get(arm)
    if not record or not record.get("ratio"):
        return None
    return 1 / record["ratio"], 1 / record["ci_high"], 1 / record["ci_low"]


def column(rows: list[Row], which: str, arm: str = SUBJECT) -> list[tuple[Cost, Row]]:
    """(cost, row) for one measure and one arm; rows without that measure are left out."""
    return [(cost, row) for row in rows if (found := row.measure(which)) and (cost := costs(found, arm))]


def measured(rows: list[Row]) -> list[str]:
    """The measures that some row has."""
    return [which for which in HEADS if column(rows, which)]


def named(rows: list[Row]) -> dict[str, str]:
    """Arm -> its name in the legend, with every version that was measured in these rows."""
    found: dict[str, set[str]] = {arm: set() for arm in NAMES}
    for arm in (arm for row in rows for arm in row.header["arms"] if arm["name"] in NAMES):
        number = re.match(r"(\d+\.\d+)", str(arm["version"]))
        found[arm["name"]] |= {number[1]} if number and arm["name"] != SUBJECT else set()
    return {arm: " ".join([NAMES[arm], " and ".join(sorted(found[arm]))]).strip() for arm in NAMES}


def draw(rows: list[Row]) -> str:
    """A standalone SVG in the colours of the reports: processor time and peak memory of every row."""
    return _document(rows, "overview", PANELS, (gallery.TIME, gallery.PEAK), 30, lines(rows))


def draw_memory(rows: list[Row]) -> str:
    """Memory after the load and least memory, of the rows that have either."""
    of = (AFTER, LEAST)
    chosen = [row for row in rows if any(row.measure(which) for which in of)]
    return _document(chosen, "memory", PANELS, of, 30, [sentence(rows, which) for which in of if column(rows, which)])


def question(rows: list[Row], which: str) -> str:
    """A chart of one measure, with the lowest cost first."""
    chosen = [row for _, row in sorted(column(rows, which), key=lambda found: found[0])]
    return _document(chosen, f"question-{place(which)}", NARROW, (which,), 21, [sentence(rows, which)])


def place(which: str) -> int:
    return list(HEADS).index(which)


def _document(
    rows: list[Row], name: str, panels: Panels, measures: Sequence[str], letters: int, told: list[str]
) -> str:
    with svg.drawing():
        heads = [f"{HEADS[which]}, " if len(measures) > 1 else "" for which in measures]
        titles = [f"{head}× glibc (left is better)" for head in heads]
        figure, axes = panels.draw([svg.label(row.title.partition(",")[0], letters) for row in rows], titles)
        for axis, which in zip(axes, measures, strict=True):
            _dots(axis, rows, which)
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="upper center", ncols=4 if panels is PANELS else 2)
        picture = svg.Picture(name, TITLE, " ".join(told), figure, Table(TITLE, [], []))
        return svg.document(picture.inlined(name).svg)


def _dots(axis: Axes, rows: list[Row], which: str) -> None:
    """Draws the estimates, and hakmem's intervals. A hollow mark: the interval includes 1. An arrow: it is cut off."""
    called = named(rows)
    for place, arm in reversed(list(enumerate(NAMES))):
        points = [(rows.index(row), cost) for cost, row in column(rows, which, arm)]
        colour, own = svg.arm_colour(place), arm == SUBJECT
        axis.plot([cost[0] for _, cost in points], [line for line, _ in points], svg.arm_marker(place),
                  color=colour, markersize=6 if own else 4, label=called[arm])  # fmt: skip
        for line, (middle, low, high) in points if own else []:
            axis.plot((max(low, LIMITS[0]), min(high, LIMITS[1])), (line, line), color=colour)
            if low < 1 < high:
                axis.plot(middle, line, svg.arm_marker(place), color=colour, markersize=6,
                          markerfacecolor=svg.SENTINELS["paper"])  # fmt: skip
            for edge, shape, past in ((LIMITS[0], "<", low < LIMITS[0]), (LIMITS[1], ">", high > LIMITS[1])):
                if past:
                    axis.plot(edge, line, shape, color=colour, markersize=5, clip_on=False)


def lines(rows: list[Row]) -> list[str]:
    """Sentences for README.md: time and memory against glibc, and the largest gain and loss with their intervals."""
    best, winner = min(column(rows, gallery.TIME), key=lambda found: found[0][2])
    worst, loser = max(column(rows, gallery.PEAK), key=lambda found: found[0][1])
    return [
        f"**Processor time**: {sentence(rows, gallery.TIME)} The largest gain is {short(winner)}, {interval(best)}.",
        *(f"**{HEADS[which].capitalize()}**: {middles(rows, which)}"
          for which in (gallery.PEAK, AFTER, LEAST) if column(rows, which)),
        f"**The largest loss**: {short(loser)}, {interval(worst)} of glibc's peak memory.",
    ]  # fmt: skip


def middles(rows: list[Row], which: str) -> str:
    """The medians of the rows, on hakmem and on the others."""
    middle = {arm: median(cost[0] for cost, _ in found) for arm in NAMES if (found := column(rows, which, arm))}
    others = ", ".join(
        f"{name} {middle[arm]:.2f} ×" for arm, name in named(rows).items() if arm in middle and arm != SUBJECT
    )
    return f"{middle[SUBJECT]:.2f} × glibc in the median ({others})."


def sentence(rows: list[Row], which: str) -> str:
    """Says how many programs are better than on glibc in one measure, worse, the same, or undecided."""
    better, worse = WORDS.get(which, LEANER)
    found = [row.measure(which) for _, row in column(rows, which)]
    words = [measure.by_reference[SUBJECT]["word"] for measure in found if measure]
    gains, losses = (sum(word == each[sure] for word in words for each in (FASTER, FEWER)) for sure in (0, 1))
    alike, margin = words.count(SAME), 100 * rows[0].result["suite"]["margin"]
    return (
        f"{gains} of {len(words)} programs are {better} than on glibc, {losses} {worse}, {alike} the same within "
        f"{margin:g} %, and {len(words) - gains - losses - alike} undecided."
    )


def short(row: Row) -> str:
    return row.title.partition(":")[0]


def interval(cost: tuple[float, float, float]) -> str:
    return f"{cost[0]:.2f} × [{cost[1]:.2f}, {cost[2]:.2f}]"


def write(rows: list[Row]) -> None:
    (gallery.top() / PAGE).write_text(draw(rows), encoding="utf-8")
    if any(column(rows, which) for which in (AFTER, LEAST)):
        (gallery.top() / MEMORY).write_text(draw_memory(rows), encoding="utf-8")
