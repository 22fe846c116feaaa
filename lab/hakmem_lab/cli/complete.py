"""What a shell offers on the Tab key: arms, metrics, verdicts, stored runs. Where nothing fits, it offers files."""

from collections.abc import Iterable
from pathlib import Path

import typer

from hakmem_lab.errors import LabError

VERDICTS = ("GO", "NEUTRAL", "NO-GO", "INCONCLUSIVE")


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def arms(incomplete: str) -> list[str]:
    from hakmem_lab.plan import peers

    return _beginning(incomplete, peers.names())


def words(ctx: typer.Context, incomplete: str) -> list[str]:
    """`--allocators A B C`: every word after the first is one that has no flag before it."""
    return arms(incomplete) if ctx.params.get("allocators") else []


def metrics(incomplete: str) -> list[str]:
    from hakmem_lab.plan.spec import BUILT_IN_METRICS, SERVER_METRICS

    return _beginning(incomplete, (*BUILT_IN_METRICS, *SERVER_METRICS, "regex:"))


def verdicts(incomplete: str) -> list[str]:
    return _beginning(incomplete, VERDICTS)


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    from hakmem_lab.store.runs import Store, default_folder

    try:
        found = Store(Path(ctx.params.get("store") or default_folder())).runs()
    except (LabError, OSError):
        return []
    return _beginning(incomplete, ["last", *(run.id for run in reversed(found))])
