"""A tuning: the best candidates, and the lines for the service file."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from hakmem_lab.judge import words
from hakmem_lab.show.terminal import filled
from hakmem_lab.store.results import Candidate, Result, SideRow, Tune

Row = TypeVar("Row", SideRow, Candidate)
DEFAULT = "default"
FOREMOST = 10


def foremost(result: Result, rows: Sequence[Row], key: str) -> tuple[list[Row], str]:
    """(rows to show, note about the others). A tuning shows the default and the foremost candidates, other kinds show
    all."""
    if not result.get("tune"):
        return list(rows), ""
    candidates = (result.get("selection") or {}).get("candidates") or []
    names: list[str] = [row["arm"] for row in candidates][:FOREMOST]
    shown = [row for row in rows if row.get(key) in (DEFAULT, *names)] if names else list(rows[: FOREMOST + 1])
    return shown, f"… and {len(rows) - len(shown)} more: hak runs report" if len(shown) < len(rows) else ""


def service_lines(result: Result) -> list[tuple[str, str]]:
    """(where the line goes, the line); empty if the advice is no change."""
    service = (result.get("tune") or {}).get("service")
    if not service:
        return []
    unit = [line for line in (service["systemd"], service.get("unset")) if line]
    found = [("In the [Service] section of the unit:", line) for line in unit[:1]]
    found += [("and below it, so that what it runs on now is gone:", line) for line in unit[1:]]
    return [*found, ("In a shell:", service["shell"])]


def tables(result: Result) -> Iterator[object]:
    tune = result["tune"]
    rungs = ([f"{rung['blocks']} blocks", str(rung["arms"]), str(len(rung["kept"])), rung["kept"][0]]
             for rung in tune["rungs"])  # fmt: skip
    yield from filled(f"Choice among {tune['candidates']} candidates", ("after", "candidates", "left", "best"), rungs)
    yield from (f"- {text}" for text in notes(result))


def notes(result: Result) -> list[str]:
    """What the search did not try, a line for each reason, and what else is to be known about it."""
    tune: Tune = result.get("tune") or {"left_out": [], "notes": []}
    return [*words.left_out(tune["left_out"]), *tune["notes"]]
