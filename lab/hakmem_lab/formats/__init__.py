"""A result in the words of other tools: a comment, a test report, annotations of a build, metrics. Text out, no files.

Pure: results in, as the kinds make them. Imports report.numbers; each format is a module with `text(results)`.
"""

import importlib
from collections.abc import Sequence

TEXTS = ("markdown", "junit", "github", "openmetrics")
NAMES = (*TEXTS, "json")


def text(name: str, results: Sequence[dict]) -> str:
    """The results in one of TEXTS."""
    return importlib.import_module(f".{name}", __name__).text(results)
