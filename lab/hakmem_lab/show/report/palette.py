"""The colours of the report, each in a light and a dark form, and the shapes that say the same without colour.

One row per colour: the style sheet's variables and the pictures are both made from it.
May import: nothing of the package.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """A named colour; its CSS variable has the same name."""

    name: str
    light: str
    dark: str

    @property
    def variable(self) -> str:
        return f"--{self.name}"


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

# While a picture is drawn a colour is its row number in a hexadecimal form that matplotlib passes through unchanged.
SENTINELS = {colour.name: f"#fe01{row:02x}" for row, colour in enumerate(COLOURS, start=1)}


def arm_colour(position: int) -> str:
    """Sentinel of the colour of the arm at `position` (0…), repeating after eight."""
    return SENTINELS[f"arm-{position % ARM_COUNT + 1}"]


def arm_marker(position: int) -> str:
    """matplotlib marker of the arm at `position`; colour and shape repeat together."""
    return MARKERS[position % ARM_COUNT]


def variables(dark: bool) -> str:
    """The declarations of the CSS variables for one scheme."""
    return "".join(f"{colour.variable}:{colour.dark if dark else colour.light};" for colour in COLOURS)
