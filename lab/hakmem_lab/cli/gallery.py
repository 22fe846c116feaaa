"""`hak gallery`: what the gallery found; `hak gallery ROW`: a row of it, measured here."""

from typing import Annotated

import typer

from hakmem_lab.cli import complete, measure
from hakmem_lab.cli.flags import Allocators, Format, JsonFile, Keys, MaxBlocks, Quiet, Seed, StoreFolder
from hakmem_lab.errors import LabError, nearest


def row_names(incomplete: str) -> list[str]:
    from hakmem_lab.show import gallery

    try:
        return complete.beginning(incomplete, gallery.names())
    except LabError:
        return []


Row = Annotated[str | None, typer.Argument(metavar="[ROW]", help="Measure this one", autocompletion=row_names)]


def register(app: typer.Typer) -> None:
    app.command("gallery")(gallery_)


def gallery_(
    ctx: typer.Context, row: Row = None, allocators: Allocators = None, set_: Keys = None,
    max_blocks: MaxBlocks = None, seed: Seed = None, store: StoreFolder = None, json: JsonFile = None,
    format_: Format = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Which allocator for which program? What was found, losses first; with ROW: measured on this machine."""
    from hakmem_lab.show import gallery

    known = gallery.names()
    if row is None:
        show()
    elif row not in known:
        raise LabError(f"the gallery has no row '{row}': {nearest(row, known)}")
    else:
        spec = gallery.top() / gallery.SPEC
        flags = {name: value for name, value in ctx.params.items() if name != "row"}
        measure.measure_with("suite", flags | {"words": [str(spec)], "only": row, "budget": None, "require": None}, {})


def show() -> None:
    from hakmem_lab.show import gallery

    found = gallery.rows()
    for standing in gallery.STANDINGS:
        chosen = [row for row in found if row.standing() == standing]
        if chosen:
            print(f"\n{standing}:")
        for row in chosen:
            print("\n".join([f"  {row.key}: {row.title}", *(f"    {line}" for line in row.sentences())]))
    left = [key for key in gallery.names() if key not in {row.key for row in found}]
    if left:
        print(f"\nNot measured yet: {', '.join(left)}.")
    print("\nhak gallery ROW measures one here; how, and all figures: docs/gallery/README.md")
