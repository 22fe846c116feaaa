"""Earlier runs of the same question in the store: of several tries the luckiest says least.

The question is what is compared, on what, by what: not when, how long or how strictly.
"""

import hashlib
import json
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.store.runs import Store

ASKED = ("kind", "command", "env", "cwd", "metric", "higher-is-better", "server", "control", "treatment", "allocators",
         "baseline", "base", "factors", "default", "candidates", "rate", "duration", "ops",
         "workload", "only", "readings")  # fmt: skip


def question_hash(header: dict) -> str:
    """The same for runs that ask the same of the same programs and libraries."""
    spec = {key: header["spec"][key] for key in ASKED if key in header["spec"]}
    libraries = [(arm["name"], arm.get("sha256")) for arm in header["arms"]]
    asked = [spec, libraries, (header.get("command") or {}).get("sha256")]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def earlier_runs(folder: Path, header: dict) -> list[dict]:
    """Id and verdict (None: none yet) of the runs in the folder that asked the same, oldest first."""
    found = []
    for run in [run for run in Store(folder).runs() if f"-{header['spec']['kind']}-" in run.id]:
        try:
            other = run.header("spec", "arms")
        except LabError:
            continue
        if other.get("question_hash") == header["question_hash"]:
            results = [record for record in run.records() if record["type"] == "result"]
            found.append({"id": run.id, "verdict": results[-1].get("verdict") if results else None})
    return found


def sentence(runs: list[dict], prolonged: bool) -> str | None:
    """What a reader should know of them; None where there are none. prolonged: whether such a run can be."""
    if not runs:
        return None
    tries = ", ".join(f"{run['id']} ({run['verdict'] or 'no verdict'})" for run in runs)
    times = "once" if len(runs) == 1 else f"{len(runs)} times"
    return (
        f"this question was asked {times} before: {tries}; every try is one more chance to be wrong"
        + ", where hak resume --more goes on with the same one" * prolonged
    )
