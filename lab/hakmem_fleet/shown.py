"""A fleet's result as lines and tables: the effect on every host, on every kind of host, and on a further host."""

from collections.abc import Iterator
from typing import NamedTuple

from hakmem_lab.judge import words
from hakmem_lab.judge.words import Change
from hakmem_lab.show.numbers import UNKNOWN
from hakmem_lab.show.report.model import Table, text_of
from hakmem_lab.show.terminal import filled
from hakmem_lab.store.results import Estimate, Result

OF_HOSTS, OF_KINDS, OF_A_FURTHER = "Hosts", "Kinds of host", "A further host"


class Line(NamedTuple):
    """One host, one kind of host, or a further host. record: an estimate with its interval."""

    group: str
    name: str
    blocks: int | None
    record: Estimate
    change: Change

    @property
    def reading(self) -> str:
        """The change in one word."""
        return {1: "gains", -1: "loses", 0: "undecided"}[self.change.sure]


def _change(result: Result, record: Estimate) -> Change | None:
    return words.change(record, words.described(result))


def lines(result: Result) -> Iterator[Line]:
    """A line for every host, for every kind if there are several, and for a further host."""
    fleet = result["fleet"]
    for row in fleet.get("hosts") or []:
        if found := _change(result, row):
            yield Line(OF_HOSTS, str(row["host"]), row["blocks"], row, found)
    kinds = fleet.get("kinds") or []
    for row in kinds if len(kinds) > 1 else []:
        if found := _change(result, row):
            count = f"{row['hosts']} host{'' if row['hosts'] == 1 else 's'}"
            yield Line(OF_KINDS, f"{row['kind']} ({count})", row["blocks"], row, found)
    if further := _further(result):
        yield Line(OF_A_FURTHER, OF_A_FURTHER, None, *further)


def _further(result: Result) -> tuple[Estimate, Change] | None:
    fleet = result["fleet"]
    row = (result.get("comparisons") or [{}])[0]
    record: Estimate = {"estimate": row.get("estimate"), "ci_low": fleet.get("prediction_low"),
                        "ci_high": fleet.get("prediction_high")}  # fmt: skip
    found = _change(result, record)
    return (record, found) if found and found.ends and len(fleet.get("hosts") or []) > 2 else None


def spread(result: Result) -> str:
    """Spread of the hosts."""
    fleet = result["fleet"]
    if len(fleet.get("hosts") or []) < 2:
        return ""
    return (
        f"Hosts differ by {100 * fleet['tau']:.2g} % (standard deviation of their effects); that is "
        f"{100 * fleet['i2']:.0f} % of what their figures vary by, the rest is noise (p = {fleet['differ_p']:.2g})"
    )


def missing(result: Result) -> list[str]:
    """Hosts that were left out or lost, each with the reason, and what was measured twice."""
    fleet = result["fleet"]
    texts = [f"left out: {each['host']}: {each['why']}" for each in fleet["left_out"]]
    texts += [f"lost: {each['host']}: {each['why']}" for each in fleet["lost"]]
    if fleet["again"]:
        texts.append(f"{fleet['again']} blocks were finished more than once; the first finish counts")
    return list(dict.fromkeys(texts))


def tables(result: Result) -> Iterator[object]:
    found = list(lines(result))
    for group in (OF_HOSTS, OF_KINDS):
        rows = (
            [line.name, str(line.blocks), line.change.told(), line.reading] for line in found if line.group == group
        )
        heads = (group, "blocks", "effect and interval", "shown")
        yield from filled(f"{group} (these intervals hold together)", heads, rows)
    if text := spread(result):
        yield text
    yield from missing(result)


def hosts_table(result: Result) -> Table:
    rows = [
        [line.name, line.group, text_of(line.blocks), line.change.short, line.change.interval or UNKNOWN, line.reading]
        for line in lines(result)
    ]
    return Table("Hosts of the fleet", ["Host", "Group", "Blocks", "Change", "Interval", "Shown"], rows)


def findings(result: Result) -> Iterator[Table]:
    yield hosts_table(result)
    gone = [list(map(str, text.partition(": ")[::2])) for text in missing(result)]
    yield Table("Hosts that are missing", ["What", "Which and why"], gone)
