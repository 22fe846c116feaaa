"""What a result has that no other kind's has, shown: a module for each kind with a `part` of its own (`plan.kinds`).

A module has those of these functions for which its kind has something. Of a result:
facts: (name, text) of its few numbers; tables: of the terminal, and lines of text; findings: the
tables of the page; cases: (name, verdict, figures) of what is judged, without figures the whole; samples: OpenMetrics.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hakmem_lab.plan.kinds import KINDS


def of(result: Mapping[str, Any], what: str) -> Iterator[Callable[..., Any]]:
    """The functions of this name, of the kinds whose part is in the result."""
    for kind in KINDS.values():
        if kind.part and result.get(kind.part):
            module = importlib.import_module(f"{kind.package}.shown" if kind.package else f"{__name__}.{kind.name}")
            if hasattr(module, what):
                yield getattr(module, what)
