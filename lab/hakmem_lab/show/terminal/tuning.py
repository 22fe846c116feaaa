"""A tuning on the terminal: its rungs, and what was left out."""

from hakmem_lab.show.terminal.tables import add_row, new_table


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
