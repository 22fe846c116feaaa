"""A result in the words of other tools: a comment, a test report, annotations of a build, metrics. Text out, no files.

Pure: results in, as the kinds make them. each format is a module with `text(results)`.
"""

import importlib
from collections.abc import Sequence

from hakmem_lab.store.runs import plain

TEXTS = ("markdown", "junit", "github", "openmetrics")
NAMES = (*TEXTS, "json")


def text(name: str, results: Sequence[dict]) -> str:
    """The results in one of TEXTS; an infinite end of an interval becomes one that is not there."""
    return importlib.import_module(f".{name}", __name__).text(plain(list(results)))
