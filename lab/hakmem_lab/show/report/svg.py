"""Makes a small SVG from a matplotlib figure; it takes its colours and its font from the page around it.

Colours become CSS variables with a light and a dark form, and identifiers become unique in the page. A title and a
description are added for screen readers.

Also defines the colours of the report (each in a light and a dark form), and the shapes that distinguish sides without
colour.

Both the style sheet's variables and the pictures use this one table of colours. Also makes axes with a direction:
positions are log-ratios, right or up is better, and ticks are changes of the shown quantity.
"""

import html
import io
import math
import re
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from hakmem_lab.judge.words import Style
from hakmem_lab.show import numbers
from hakmem_lab.show.report.model import Table

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType


@dataclass(frozen=True)
class Colour:
    """A named colour; its CSS variable has the same name."""

    name: str
    light: str
    dark: str


COLOURS = (
    Colour("paper", "#fdfdfc", "#14171b"),
    Colour("panel", "#f5f6f7", "#1c2026"),
    Colour("ink", "#1b1f24", "#e6e8eb"),
    Colour("muted", "#56606b", "#a7b0bb"),
    Colour("line", "#d6dbe1", "#363d47"),
    Colour("band", "#e6eaef", "#29313b"),
    Colour("link", "#0b5cad", "#79bcff"),
    Colour("go", "#136c2e", "#62cb79"),
    Colour("go-tint", "#e7f4ea", "#14281b"),
    Colour("no-go", "#ac1f15", "#ff958b"),
    Colour("no-go-tint", "#fcebe9", "#341a18"),
    Colour("neutral", "#44515f", "#b4bfcb"),
    Colour("neutral-tint", "#eceff2", "#232a32"),
    Colour("inconclusive", "#7d4f00", "#e6b84d"),
    Colour("inconclusive-tint", "#fbf1dc", "#2f2612"),
    Colour("arm-1", "#0b5cad", "#79bcff"),
    Colour("arm-2", "#a8480f", "#f4a678"),
    Colour("arm-3", "#12704f", "#5bd6a8"),
    Colour("arm-4", "#7340cf", "#c6a2ff"),
    Colour("arm-5", "#98246a", "#f796ca"),
    Colour("arm-6", "#626200", "#d6d66e"),
    Colour("arm-7", "#3d4f66", "#b3c6df"),
    Colour("arm-8", "#00626e", "#55d3e2"),
)

ARM_COUNT = 8
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")

# While a picture is drawn, a colour is its row number, as a hexadecimal colour that matplotlib passes through
# unchanged.
SENTINELS = {colour.name: f"#fe01{row:02x}" for row, colour in enumerate(COLOURS, start=1)}


def arm_colour(position: int) -> str:
    """Placeholder for the colour of the arm at `position` (0…), repeating after eight."""
    return SENTINELS[f"arm-{position % ARM_COUNT + 1}"]


def arm_marker(position: int) -> str:
    """matplotlib marker of the arm at `position`; colour and shape repeat together."""
    return MARKERS[position % ARM_COUNT]


def variables(dark: bool) -> str:
    return "".join(f"--{colour.name}:{colour.dark if dark else colour.light};" for colour in COLOURS)


# Narrow enough for readable text on a phone, where a picture is as wide as the screen.
WIDTH_IN = 5.0
RIGHT_IN = 0.28
PANEL_GAP_IN = 0.62
FONT_PT = 11
FONT_FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'

_STYLE: "dict[RcKeyType, object]" = {
    "font.size": FONT_PT,
    "font.family": "DejaVu Sans",
    "text.color": SENTINELS["ink"],
    "text.parse_math": False,
    "axes.edgecolor": SENTINELS["muted"],
    "axes.labelcolor": SENTINELS["muted"],
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": False,
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "grid.color": SENTINELS["line"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": FONT_PT,
    "lines.linewidth": 1.6,
    "xtick.color": SENTINELS["muted"],
    "ytick.color": SENTINELS["muted"],
    "xtick.labelsize": FONT_PT,
    "ytick.labelsize": FONT_PT,
    "svg.fonttype": "none",
    "svg.hashsalt": "hakmem",
}

_DROPPED = re.compile(r"<\?xml[^>]*>|<!DOCTYPE[^>]*>|<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_GROUP_ID = re.compile(r'<g id="[^"]*"')
_FONT = re.compile(r"font: [0-9.]+px [^;\"]*|font: ([0-9]+) [0-9.]+px [^;\"]*")
_GEOMETRY = re.compile(r' (?:d|x|y|x1|x2|y1|y2|width|height|transform|points|viewBox)="[^"]*"')
_LONG_FRACTION = re.compile(r"(\.\d\d)\d+")
_ROOT = re.compile(r"<svg [^>]*viewBox=\"([^\"]*)\"[^>]*>")
_REFERENCE = re.compile(r'(?:xlink:)?href="#|url\(#| id="')


@dataclass
class Picture:
    """A picture with its text alternatives, from a figure or from an SVG that only lacks a head. `shape` begins the
    text for screen readers. `svg`: once drawn, the element to inline, without an XML declaration."""

    name: str
    title: str
    description: str
    figure: Figure | str
    table: Table
    caption: str = ""
    notes: list[str] = field(default_factory=list)
    shape: str = ""
    svg: str = ""

    def inlined(self, key: str) -> "Picture":
        """The picture with its SVG element; `key` makes identifiers unique in the page. Call it inside `drawing`."""
        text = self.figure if isinstance(self.figure, str) else _saved(self.figure, key)
        self.svg = _with_head(text, key, self.title, self.shape + self.description)
        return self


@contextmanager
def drawing() -> Iterator[None]:
    """The style in which every picture is drawn; matplotlib's own settings come back afterwards."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def canvas(
    *heights_in: float, left_in: float = 0.75, bottom_in: float = 0.62, top_in: float = 0.18
) -> tuple[Figure, list[Axes]]:
    """A figure of the common width with stacked axes of these heights, margins in inches."""
    height_in = top_in + bottom_in + sum(heights_in) + (len(heights_in) - 1) * PANEL_GAP_IN
    figure = Figure(figsize=(WIDTH_IN, height_in))
    FigureCanvasSVG(figure)
    width = 1 - (left_in + RIGHT_IN) / WIDTH_IN
    axes: list[Axes] = []
    top = height_in - top_in
    for plot_in in heights_in:
        below = top - plot_in
        axes.append(figure.add_axes((left_in / WIDTH_IN, below / height_in, width, plot_in / height_in)))
        top = below - PANEL_GAP_IN
    return figure, axes


def label(text: object, limit: int = 46) -> str:
    """A text for a picture: one line, without control characters; the middle is left out if it is too long."""
    line = " ".join("".join(c if unicodedata.category(c)[0] != "C" else " " for c in str(text)).split())
    if len(line) <= limit:
        return line
    head = (limit - 1) * 2 // 3
    return line[:head] + "…" + line[len(line) - (limit - 1 - head) :]


def _saved(figure: Figure, key: str) -> str:
    """The figure as SVG in the colours of the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = _DROPPED.sub("", buffer.getvalue())
    text = _GROUP_ID.sub("<g", text)
    text = _FONT.sub(lambda found: f"font-weight: {found[1]}" if found[1] else "font-weight: 400", text)
    text = _GEOMETRY.sub(lambda found: _LONG_FRACTION.sub(r"\1", found[0]), text)
    text = text.replace("xlink:href", "href")
    text = _REFERENCE.sub(lambda found: f"{found[0].removeprefix('xlink:')}{key}-", text)
    for name, sentinel in SENTINELS.items():
        text = text.replace(sentinel, f"var(--{name})")
    return text


def _with_head(text: str, key: str, title: str, description: str) -> str:
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" viewBox="\\1" '
        f'aria-labelledby="{key}-t" aria-describedby="{key}-d"><title id="{key}-t">'
    )
    head = html.escape(title, quote=False) + "</title>" + f'<desc id="{key}-d">' + html.escape(description, quote=False)
    found = _ROOT.search(text)
    if found is None:
        raise ValueError("the drawing has no SVG root")
    return found.expand(root) + head + "</desc>" + re.sub(r"\n\s*", "\n", text[found.end() :]).strip()


def document(svg: str) -> str:
    """An inlined `<svg>` as a file of one line: with a size, colours for light and dark, and a background."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    if box is None:
        raise ValueError("the picture has no viewBox")
    width, height = box[1].split()[2:]
    style = (
        f"<style>svg{{{variables(dark=False)}font:{FONT_PT}px {FONT_FAMILY};background:var(--paper)}}"
        f"@media(prefers-color-scheme:dark){{svg{{{variables(dark=True)}}}}}"
        "*{stroke-linejoin:round;stroke-linecap:butt}"
        "text{paint-order:stroke;stroke:var(--paper);stroke-width:2.5px}</style>"
    )
    opening, rest = svg.split(">", 1)
    opening = opening.replace("<svg ", f'<svg width="{float(width) * 1.5:.0f}" height="{float(height) * 1.5:.0f}" ', 1)
    title_end = rest.index("</desc>") + len("</desc>")
    background = f'<rect width="{width}" height="{height}" style="fill:var(--paper)"/>'
    whole = f'<?xml version="1.0" encoding="utf-8"?>\n{opening}>{rest[:title_end]}{style}{background}{rest[title_end:]}'
    return whole.replace("\n", " ") + "\n"


_NICE = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99,
    1.0, 2.0, 4.0, 9.0, 19.0, 49.0, 99.0, 999.0,
)  # fmt: skip
_APART = 0.17


def place(estimate: float) -> float:
    """The position of a ratio minus one: its logarithm, infinite where there is none."""
    ratio = 1 + estimate
    return math.log(ratio) if 0 < ratio < math.inf else math.copysign(math.inf, ratio - 1)


def _at(change: float, how: Style) -> float | None:
    """The position of a change of the shown quantity (+0.2: 20 % more, or faster)."""
    if how.speed:
        return math.copysign(math.log1p(abs(change)), change)
    if change <= -1:
        return None
    return math.log1p(change) * (1 if how.family == "rate" else -1)


def ticks(low: float, high: float, how: Style, apart: float = _APART) -> list[tuple[float, float]]:
    """A few ticks as (position, change of the quantity), including no change, far enough apart to be read."""
    room = apart * (high - low)
    found = [(0.0, 0.0)] if low <= 0 <= high else []
    for size in reversed(_NICE):
        for change in (size, -size):
            at = _at(change, how)
            if at is not None and low <= at <= high and all(abs(at - other) >= room for other, _ in found):
                found.append((at, change))
    return sorted(found)


def tick_text(change: float) -> str:
    """A tick's label without a sign: 0, 20 %, 2 ×. The side of the axis gives the direction."""
    if change == 0:
        return "0"
    return f"{1 + abs(change):g} ×" if abs(change) >= 1 else f"{abs(change) * 100:g} %"


def sides(how: Style) -> tuple[str, str]:
    """The meanings of left and right of no change: (worse, better)."""
    return (how.down, how.up) if how.rises else (how.up, how.down)


def across(axis: Axes, low: float, high: float, how: Style) -> None:
    """Makes a horizontal axis, with the meanings of its two sides below it."""
    axis.set_xlim(low, high)
    chosen = ticks(low, high, how)
    axis.set_xticks([at for at, _ in chosen], [tick_text(change) for _, change in chosen])
    axis.xaxis.set_minor_locator(NullLocator())
    worse, better = sides(how)
    for x, side, text in ((0, "left", f"← {worse}"), (1, "right", f"{better} →")):
        axis.annotate(
            text, (x, 0), (0, -22), xycoords="axes fraction", textcoords="offset points", ha=side, va="top",
            color=SENTINELS["muted"],
        )  # fmt: skip


def upwards(axis: Axes, low: float, high: float, how: Style) -> None:
    """Makes a vertical axis; each tick's label gives its direction."""
    axis.set_ylim(low, high)
    chosen = ticks(low, high, how, 0.12)
    texts = []
    for _, change in chosen:
        word = "" if change == 0 else how.up if change > 0 else how.down
        if abs(change) >= 1:
            word = how.multiple(-1 if how.speed and change < 0 else change)
        texts.append(f"{tick_text(change)}{numbers.JOIN}{word}".removesuffix(numbers.JOIN))
    axis.set_yticks([at for at, _ in chosen], texts)
    axis.yaxis.set_minor_locator(NullLocator())
