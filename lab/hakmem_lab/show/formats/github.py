"""Annotations of a build on GitHub: a workflow command a line; NO-GO is an error, what is undecided a warning."""

from collections.abc import Sequence

from hakmem_lab.errors import one_line
from hakmem_lab.show.formats.judgements import INCONCLUSIVE, NO_GO, judgements

LEVELS = {NO_GO: "error", INCONCLUSIVE: "warning"}


def text(results: Sequence[dict]) -> str:
    lines = []
    for result in results:
        for case in judgements(result):
            level = LEVELS.get(case.verdict, "notice")
            words = f"{case.text} (run {result['id']})"
            title = _property(f"{case.verdict}: {case.name}")
            lines.append(f"::{level} title={title}::{_data(words)}\n")
        lines += [f"::warning title=hak::{_data(words)}\n" for words in result["warnings"]]
    return "".join(lines)


def _data(words: str) -> str:
    """As a command's message is written: a line, percent signs escaped."""
    return one_line(words).replace("%", "%25")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")
