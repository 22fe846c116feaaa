"""A tuning on the terminal: its rungs, what was left out, and the line to use."""

from collections.abc import Iterator

from hakmem_lab.show.terminal.tables import add_row, new_table

NAMED = 3


def tables(tune: dict):
    """How the choice went."""
    if tune["rungs"]:
        table = new_table("Choice among " + f"{tune['candidates']} candidates", "after", "candidates", "left", "best")
        for rung in tune["rungs"]:
            best = ", ".join(rung["kept"][:NAMED]) + (", …" if len(rung["kept"]) > NAMED else "")
            add_row(table, f"{rung['blocks']} blocks", str(rung["arms"]), str(len(rung["kept"])), best)
        yield table
    for text in (*tune["left_out"], *tune["notes"]):
        yield _plain(f"- {text}")


def _plain(text: str):
    """Brackets in it are no markup."""
    from rich.text import Text

    return Text(text)


def service_lines(result: dict) -> Iterator[str]:
    """What to put into the service file, and the same for a shell."""
    service = (result.get("tune") or {}).get("service")
    if service:
        yield "In the [Service] section of the unit:"
        yield service["systemd"]
        yield "In a shell:"
        yield service["shell"]
