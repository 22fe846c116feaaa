"""What --json, --format and --output write."""

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.show import answers, unseen
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
PARTS = [kind.part for kind in KINDS.values() if kind.part]
DETAIL_KEYS = ("comparisons", "guardrails", "looks", "builds", "hidden", "selection", *PARTS, "scan", "earlier",
               "failures", "warnings")  # fmt: skip
# name of a format -> the module of `show` in which its function is
TEXTS = {"markdown": "formats", "junit": "formats", "github": "formats", "openmetrics": "openmetrics"}
FORMATS = (*TEXTS, "json")


def summary(result: dict) -> dict:
    """The object of --json: the first comparison's figures on top, everything else below."""
    first = (result.get("comparisons") or [{}])[0]
    found = {key: result.get(key) for key in SUMMARY_KEYS} | {"answer": answers.explain(result).words}
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
    """On standard output, in one of FORMATS; as JSON, one object a result."""
    if name == "json":
        for result in results:
            write_json(result, Path("-"))
    else:
        sys.stdout.write(text(name, results))


def text(name: str, results: Sequence[dict]) -> str:
    """The results in one of TEXTS; an infinite end of an interval becomes one that is not there."""
    written = importlib.import_module(f"hakmem_lab.show.{TEXTS[name]}")
    return getattr(written, name)(plain(list(results)))
