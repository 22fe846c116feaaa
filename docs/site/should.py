"""The page "Should I use it?": a chart for each question, then every program of the gallery in one table."""

import html
import math
import sys
from pathlib import Path

from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Measure, Row

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
import gallery_chart

# Measure -> its heading, and what one asks about it.
ASKED = {
    gallery.TIME: ("Processor time", "Is it faster?"),
    gallery.PEAK: ("Peak memory", "Does it need less memory?"),
    gallery.TAIL: ("p99", "Are the tails shorter?"),
    gallery.MORE["after-load"]: ("After load", "How much stays after the load?"),
    gallery.MORE["growth"]: ("Growth", "How fast does it grow?"),
    gallery.MORE["least-memory"]: ("Least memory", "In how little memory does it live?"),
}
TOP = """\
---
hide: [toc]
---
# Should I use it?

**Try it** where a program spends much of its time in `malloc`, like the scripts and compilers below, or where jemalloc,
mimalloc or tcmalloc would take too much memory. **Leave it** where a program has a heap of its own, or where a few per
cent of memory matter more than time: [risks and limits](docs/risks.md).
[Prove it](docs/lab/tutorial.md) on your own program in ten minutes.
"""
CHART = "Dot and line: hakmem with its interval at 95 %; hollow where the interval includes no difference."
TABLE = """\
## Every program

hakmem against glibc, losses first; left of the line is better. A heading sorts. A name leads to every allocator,
interval and command. Green and red mark what is better or worse by the margin of 5 %. "better" names other
allocators that are better than hakmem.
"""
WIDTH, HALF = 120, 58  # of a small plot, in units of its view; half of it stands for a factor of FAR
FAR = 2.5


def page(rows: list[Row], folder: Path) -> str:
    """Its Markdown; the charts go into the folder."""
    lines = [TOP, '<div class="questions" markdown>', ""]
    shown = gallery_chart.measured(rows)
    for which in shown:
        picture = f"question-{gallery_chart.place(which)}.svg"
        (folder / picture).write_text(gallery_chart.question(rows, which), encoding="utf-8")
        told = gallery_chart.sentence(rows, which)
        lines += ["<section markdown>", "", f"## {ASKED[which][1]}", "", told, "", f"![{told}]({picture})", ""]
        lines += ["</section>", ""]
    lines += ["</div>", "", CHART, "", "## For what kind of program?", ""]
    lines += [gallery_chart.KINDS_TOP, *gallery_chart.kinds(rows)]
    heads = "".join(
        f'<th scope="col"><button type="button">{head}</button></th>'
        for head in ("Program", *(ASKED[which][0] for which in shown))
    )
    body = "\n".join(table_row(row, shown) for row in rows)
    lines += [
        TABLE,
        f'<table class="programs">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>',
        "",
    ]
    left = len(gallery.names()) - len(rows)
    lines += [f"{left} of {left + len(rows)} programs are not measured yet.", ""] if left else []
    return "\n".join(lines) + "\n"


def table_row(row: Row, shown: list[str]) -> str:
    name = f'<th scope="row"><a href="results/gallery/{row.key}.html">{html.escape(row.title)}</a></th>'
    found = ((row.measure(which), ASKED[which][0]) for which in shown)
    return f"<tr>{name}{''.join(cell(row, each, head) if each else '<td></td>' for each, head in found)}</tr>"


def cell(row: Row, measure: Measure, head: str) -> str:
    """A small plot, the figure below it, and who is better; it sorts by the estimate."""
    record, cost = measure.by_reference[gallery_chart.SUBJECT], measure.cost(gallery_chart.SUBJECT)
    if cost is None:
        return f'<td data-label="{head}">{html.escape(str(record["word"]))}</td>'
    sure = next((word for word, way in (("better", 1), ("worse", -1)) if row.reference in measure.arms(way)), "open")
    others = [arm for arm in measure.arms(-1) if not arm.startswith(("hakmem", row.reference))]
    told = [measure.cell(measure.against[row.reference]), *([f"better: {', '.join(others)}"] if others else [])]
    text = "".join(f"<small>{html.escape(line)}</small>" for line in told)
    return f'<td data-label="{head}" data-sort="{cost[0]:.4f}">{plot(cost, sure)}{text}</td>'


def plot(cost: gallery_chart.Cost, sure: str) -> str:
    """The interval on a logarithmic axis, no difference in the middle; the figure below says the same in words."""
    middle, low, high = (round(WIDTH / 2 + HALF * max(-1, min(1, math.log(at, FAR))), 1) for at in cost)
    return (
        f'<svg class="{sure}" viewBox="0 0 {WIDTH} 16" aria-hidden="true"><path d="M{WIDTH / 2:g} 0v16"/>'
        f'<path class="interval" d="M{low} 8H{high}"/><circle cx="{middle}" cy="8" r="4"/></svg>'
    )
