"""Whether this machine was found fit to measure: the last A/A run in the store decides. Imports store and machine."""

from pathlib import Path

from . import machine
from .store import Store

SAME = ("cpu", "processors", "kernel")


def last_aa(folder: Path) -> dict | None:
    """The result of this machine's last finished A/A run."""
    here = machine.facts()
    for run in reversed([run for run in Store(folder).runs() if "-aa-" in run.id]):
        records = list(run.records())
        results = [record for record in records if record["type"] == "result"]
        if results and all(records[0]["machine"].get(key) == here[key] for key in SAME):
            return results[-1]
    return None


def unfit_reason(folder: Path) -> str | None:
    """Why verdicts of this machine would not hold; None where its last A/A run passed or there was none."""
    last = last_aa(folder)
    if last is None or last["aa"]["fit"]:
        return None
    return f"its last A/A run ({last['id']}) gave too many false verdicts; see hak show {last['id']}"
