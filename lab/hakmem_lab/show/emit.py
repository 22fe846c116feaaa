"""What --json, --format and --output write."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.show import unseen
from hakmem_lab.store.runs import plain
from hakmem_lab.system import files

SUMMARY_KEYS = (
    "verdict",
    "headline",
    "final",
    "margin",
    "alpha",
    "blocks",
    "metric",
    "question",
    "kind",
)
DETAIL_KEYS = ("comparisons", "guardrails", "looks", "builds", "effects", "hidden", "selection", "soak", "syscalls",
               "latency", "aa", "suite", "tune", "fleet", "replay", "scan", "earlier", "failures",
               "warnings")  # fmt: skip


def summary(result: dict) -> dict:
    """The object of --json: the first comparison's figures on top, everything else below."""
    first = (result.get("comparisons") or [{}])[0]
    found = {key: result.get(key) for key in SUMMARY_KEYS}
    found |= {key: first.get(key) for key in ("estimate", "ci_low", "ci_high", "level")}
    found |= {"slow_runs_unseen_one_in": unseen.one_in(result)}
    found |= {"arms": result.get("arms", []), "run": result["id"]}
    return found | {key: result[key] for key in DETAIL_KEYS if key in result}


def write_text(text: str, path: Path, option: str, hint: str = "") -> None:
    """Raises LabError, which names the option that gave the path."""
    try:
        files.write(path, text)
    except OSError as error:
        raise LabError(f"{option}: cannot write {path}: {error.strerror}{hint}") from None


def write_object(found: object, path: Path, hint: str = "") -> None:
    """One JSON object to the path of --json; - is standard output."""
    text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_text(text, path, "--json", hint)


def write_json(result: dict, path: Path) -> None:
    write_object(plain(summary(result)), path, f"; the result is kept: hak show {result['id']}")


def write_format(results: Sequence[dict], name: str) -> None:
    """On standard output, in one of `formats.NAMES`; as JSON, one object a result."""
    from hakmem_lab.show import formats

    if name == "json":
        for result in results:
            write_json(result, Path("-"))
    else:
        sys.stdout.write(formats.text(name, results))
