"""Shows the parts of a result that only its kind has: a module for each kind with a `part` of its own (`plan.kinds`).

A module defines those of these functions that its kind needs; each takes a result:
facts: its few numbers, as (name, text); tables: tables and lines of text for the terminal; findings: tables for the
page; cases: judgements as (name, verdict, figures), where empty figures mean the sentence of the whole result; samples:
samples for OpenMetrics.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.store.results import Result


def of(result: Result, what: str) -> Iterator[Callable[..., Any]]:
    """The functions of this name, from the kinds whose part the result has."""
    for kind in KINDS.values():
        if kind.part and result.get(kind.part):
            module = importlib.import_module(f"{kind.package}.shown" if kind.package else f"{__name__}.{kind.name}")
            if hasattr(module, what):
                yield getattr(module, what)
