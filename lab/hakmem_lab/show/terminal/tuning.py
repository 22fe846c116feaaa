"""A tuning on the terminal: its rungs, what was left out, and the line to use."""

from collections.abc import Iterator, Sequence

from hakmem_lab.show.terminal.tables import add_row, new_table

DEFAULT = "default"
FOREMOST = 10


def foremost(result: dict, rows: Sequence[dict], key: str) -> tuple[Sequence[dict], str]:
    """(rows to show, what to say of the others): of a tuning those of the default and of the candidates that came
    furthest; of other kinds all."""
    if not result.get("tune"):
        return rows, ""
    order = [row["arm"] for row in (result.get("selection") or {}).get("candidates", [])][:FOREMOST]
    shown = [row for row in rows if row[key] in (DEFAULT, *order)] if order else list(rows[: FOREMOST + 1])
    return shown, f"… and {len(rows) - len(shown)} more: hak report" if len(shown) < len(rows) else ""


def tables(tune: dict):
    """How the choice went."""
    if tune["rungs"]:
        table = new_table(f"Choice among {tune['candidates']} candidates", "after", "candidates", "left", "best")
        for rung in tune["rungs"]:
            add_row(table, f"{rung['blocks']} blocks", str(rung["arms"]), str(len(rung["kept"])), rung["kept"][0])
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
