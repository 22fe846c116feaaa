"""docs/gallery/overview.svg: time and peak memory of every program of the gallery, on four allocators beside glibc.

The lines of README.md that quote the gallery come from the same rows.
"""

import re
from statistics import median

from panels import Panels

from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Measure, Row
from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import Table

PAGE = gallery.PAGES / "overview.svg"
SUBJECT, NAMES = "hakmem", {"hakmem": "hakmem", "jemalloc5": "jemalloc", "mimalloc3": "mimalloc",
                            "google-tcmalloc": "Google's tcmalloc"}  # fmt: skip
TITLE = "Real programs on four allocators, as multiples of glibc"
PANELS = Panels(0.18, 2.75, 0.75, 0.45, (0.36, 3.4), (0.5, 0.7, 1, 1.4, 2, 3), " ×")


def costs(measure: Measure, arm: str) -> tuple[float, float, float] | None:
    """(estimate, low, high) as a multiple of glibc's cost: below 1 is better."""
    record = measure.by_reference.get(arm)
    if not record or not record.get("ratio"):
        return None
    return 1 / record["ratio"], 1 / record["ci_high"], 1 / record["ci_low"]


def named(rows: list[Row]) -> dict[str, str]:
    """Arm -> what it is called, with every version that the rows were measured with."""
    found: dict[str, set[str]] = {arm: set() for arm in NAMES}
    for arm in (arm for row in rows for arm in row.header["arms"] if arm["name"] in NAMES):
        number = re.match(r"(\d+\.\d+)", str(arm["version"]))
        found[arm["name"]] |= {number[1]} if number and arm["name"] != SUBJECT else set()
    return {arm: " ".join([NAMES[arm], " and ".join(sorted(found[arm]))]).strip() for arm in NAMES}


def draw(rows: list[Row]) -> str:
    """A standalone SVG in the colours of the reports. Dots are estimates; hakmem has its interval too."""
    called = named(rows)
    with svg.drawing():
        titles = ("time, × glibc (left is better)", "peak memory, × glibc (left is better)")
        figure, axes = PANELS.draw([svg.label(row.title.partition(",")[0], 30) for row in rows], titles)
        for column, axis in enumerate(axes):
            for place, arm in reversed(list(enumerate(NAMES))):
                found = [(line, costs(row.measures[column], arm)) for line, row in enumerate(rows)]
                points = [(line, cost) for line, cost in found if cost]
                own = arm == SUBJECT
                axis.plot([cost[0] for _, cost in points], [line for line, _ in points], svg.arm_marker(place),
                          color=svg.arm_colour(place), markersize=6 if own else 4, label=called[arm])  # fmt: skip
                for line, (_, low, high) in points if own else []:
                    axis.plot((low, high), (line, line), color=svg.arm_colour(place))
        handles, labels = axis.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="upper center", ncols=len(NAMES))
        picture = svg.Picture("overview", TITLE, " ".join(lines(rows)), figure, Table(TITLE, [], []))
        return svg.document(picture.inlined("overview").svg)


def lines(rows: list[Row]) -> list[str]:
    """What README.md quotes: the best and the worst of time, and memory, against glibc, each with its interval."""
    timed = [(cost, row) for row in rows if (cost := costs(row.measures[0], SUBJECT))]
    times = sorted(timed, key=lambda found: found[0][2])
    memory = [(cost, row) for row in rows if (cost := costs(row.measures[1], SUBJECT))]
    gains, losses = sum(cost[2] < 1 for cost, _ in times), sum(cost[1] > 1 for cost, _ in times)
    (best, winner), (worst, loser) = times[0], max(memory, key=lambda found: found[0][1])
    middle = {arm: median(cost[0] for row in rows if (cost := costs(row.measures[1], arm))) for arm in NAMES}
    others = ", ".join(f"{name} {middle[arm]:.2f} ×" for arm, name in named(rows).items() if arm != SUBJECT)
    return [
        f"**Time**: {gains} of {len(rows)} programs are surely faster than on glibc, {losses} surely slower;"
        f" for {len(times) - gains - losses} the interval includes no difference."
        f" The largest gain is {short(winner)}, {interval(best)}.",
        f"**Peak memory**: {middle[SUBJECT]:.2f} × glibc in the median ({others}).",
        f"**The largest loss**: {short(loser)}, {interval(worst)} of glibc's peak memory.",
    ]


def short(row: Row) -> str:
    return row.title.partition(":")[0]


def interval(cost: tuple[float, float, float]) -> str:
    return f"{cost[0]:.2f} × [{cost[1]:.2f}, {cost[2]:.2f}]"


def write(rows: list[Row]) -> None:
    (gallery.top() / PAGE).write_text(draw(rows), encoding="utf-8")
