"""Draws pictures as small SVG elements, in the colours and the font of the page around them.

A colour is the name of a CSS variable with a light and a dark form; the style sheet's variables come from the same
table. Shapes distinguish sides without colour. Lengths are in points.
"""

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hakmem_lab.show.report.model import Table


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


def arm_colour(position: int) -> str:
    """The colour of the arm at `position` (0…), repeating after eight."""
    return f"arm-{position % ARM_COUNT + 1}"


def arm_marker(position: int) -> str:
    """The shape of the arm at `position`; colour and shape repeat together."""
    return MARKERS[position % ARM_COUNT]


def variables(dark: bool) -> str:
    return "".join(f"--{colour.name}:{colour.dark if dark else colour.light};" for colour in COLOURS)


# Narrow enough for readable text on a phone, where a picture is as wide as the screen.
WIDTH, RIGHT = 360.0, 340.0
FONT_PT = 11
FONT_FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif'


@dataclass
class Picture:
    """A drawing with its text alternatives. `shape` begins the text for screen readers. `svg`: once inlined, the
    element, without an XML declaration."""

    name: str
    title: str
    description: str
    drawing: "Pen"
    table: Table
    caption: str = ""
    notes: list[str] = field(default_factory=list)
    shape: str = ""
    svg: str = ""

    def inlined(self, key: str) -> "Picture":
        """The picture with its SVG element; `key` makes identifiers unique in the page."""
        title, described = (html.escape(text, quote=False) for text in (self.title, self.shape + self.description))
        self.svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" viewBox="{self.drawing.box}" '
            f'aria-labelledby="{key}-t" aria-describedby="{key}-d"><title id="{key}-t">{title}</title>'
            f'<desc id="{key}-d">{described}</desc>{"".join(self.drawing.parts)}</svg>'
        )
        return self


def label(text: object, limit: int = 46) -> str:
    """A text for a picture: one line, without control characters; the middle is left out if it is too long."""
    line = " ".join("".join(c if unicodedata.category(c)[0] != "C" else " " for c in str(text)).split())
    if len(line) <= limit:
        return line
    head = (limit - 1) * 2 // 3
    return line[:head] + "…" + line[len(line) - (limit - 1 - head) :]


def document(svg: str) -> str:
    """An inlined `<svg>` as a file of one line: with a size, colours for light and dark, and a background."""
    width, height = svg.split('viewBox="')[1].partition('"')[0].split()[2:]
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
    return f'<?xml version="1.0" encoding="utf-8"?> {opening}>{rest[:title_end]}{style}{background}{rest[title_end:]}\n'


Points = Iterable[tuple[float, float]]

# Corners of the shapes of unit size; a circle has none.
_CORNERS: dict[str, Sequence[tuple[float, float]]] = {
    "s": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "^": ((0, -1), (1, 1), (-1, 1)),
    "v": ((0, 1), (1, -1), (-1, -1)),
    "<": ((-1, 0), (1, -1), (1, 1)),
    ">": ((1, 0), (-1, -1), (-1, 1)),
    "D": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "h": ((0, -1.1), (0.95, -0.55), (0.95, 0.55), (0, 1.1), (-0.95, 0.55), (-0.95, -0.55)),
    "P": ((-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4), (0.4, 1.1), (-0.4, 1.1),
          (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4)),
}  # fmt: skip
_CORNERS["X"] = [((x - y) * math.sqrt(0.5), (x + y) * math.sqrt(0.5)) for x, y in _CORNERS["P"]]


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def corners(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


class Pen:
    """Collects the elements of a picture; positions are in points from its top left corner."""

    def __init__(self, width: float = WIDTH):
        self.width, self.height, self.parts = width, 0.0, list[str]()

    @property
    def box(self) -> str:
        return f"0 0 {_n(self.width)} {_n(self.height)}"

    def line(self, points: Points, colour: str, width: float = 1.6, dash: str = "") -> None:
        drawn = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        stroke = f'stroke="var(--{colour})" stroke-width="{width:g}"{dashed}'
        self.parts += [f'<path d="M{drawn}" fill="none" {stroke}/>'] if drawn else []

    def areas(self, outlines: Iterable[Points], colour: str, alpha: float = 1.0, hollow: bool = False) -> None:
        """Areas of one colour; hollow: their outlines, on paper."""
        drawn = "".join("M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points) + "z" for points in outlines)
        self._filled(drawn, colour, alpha, hollow)

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: str, alpha: float = 1.0) -> None:
        self.areas([corners(left, top, right, bottom)], colour, alpha)

    def _filled(self, drawn: str, colour: str, alpha: float, hollow: bool) -> None:
        more = f' stroke="var(--{colour})" stroke-width="1.6"' if hollow else ""
        more += f' fill-opacity="{alpha:g}"' if alpha < 1 else ""
        self.parts += [f'<path d="{drawn}" fill="var(--{"paper" if hollow else colour})"{more}/>'] if drawn else []

    def marks(
        self, points: Points, shape: str, colour: str, size: float = 8, hollow: bool = False, alpha: float = 1.0
    ) -> None:
        """The shape at each of these places."""
        half, parts = size / 2, []
        for x, y in points:
            if shape == "o":
                r, whole = _n(half), _n(2 * half)
                parts.append(f"M{_n(x - half)} {_n(y)}a{r} {r} 0 1 0 {whole} 0a{r} {r} 0 1 0 -{whole} 0z")
            else:
                parts.append("M" + "L".join(f"{_n(x + a * half)} {_n(y + b * half)}" for a, b in _CORNERS[shape]) + "z")
        self._filled("".join(parts), colour, alpha, hollow)

    def text(
        self, x: float, y: float, text: str, anchor: str = "start", colour: str = "ink", bold: bool = False,
        turned: bool = False,
    ) -> None:  # fmt: skip
        """A line of text whose middle is at this height."""
        more = ' font-weight="700"' if bold else ""
        more += "" if anchor == "start" else f' text-anchor="{anchor}"'
        more += f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
        words = html.escape(text, quote=False)
        self.parts.append(f'<text x="{_n(x)}" y="{_n(y + 3.8)}" fill="var(--{colour})"{more}>{words}</text>')

    def legend(self, names: Sequence[tuple[str, str, str]], columns: int = 1, left: float = 8, top: float = 2) -> float:
        """Names with colour and shape, at the top. Returns its lower edge."""
        for place, (name, colour, shape) in enumerate(names):
            x = left + place % columns * (self.width - left) / columns
            y = top + 8 + 17 * (place // columns)
            if shape != "box":
                self.line(((x, y), (x + 20, y)), colour)
                self.marks([(x + 10, y)] if shape else [], shape, colour, 6)
            else:
                self.rectangle(x, y - 4, x + 20, y + 4, colour)
            self.text(x + 26, y, label(name, min(46, int(self.width / columns / 6) - 5)))
        return top + 17 * math.ceil(len(names) / columns)
