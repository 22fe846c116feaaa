"""Whether this machine was found fit to measure: the last A/A run in the store decides.

Imports errors, store, machine.
"""

from pathlib import Path

from . import machine
from .errors import LabError
from .store import Store

SAME = ("cpu", "processors", "kernel")


def last_aa(folder: Path) -> dict | None:
    """The result of this machine's last finished A/A run."""
    here = machine.facts()
    for run in reversed([run for run in Store(folder).runs() if "-aa-" in run.id]):
        try:
            there = run.header("machine")["machine"]
        except LabError:
            continue
        results = [record for record in run.records() if record["type"] == "result" and "aa" in record]
        if results and all(there.get(key) == here[key] for key in SAME):
            return results[-1]
    return None


def unfit_reason(folder: Path) -> str | None:
    """Why verdicts of this machine would not hold; None where its last A/A run passed or there was none."""
    last = last_aa(folder)
    if last is None or last["aa"]["fit"]:
        return None
    return f"its last A/A run ({last['id']}) gave too many false verdicts; see hak show {last['id']}"
