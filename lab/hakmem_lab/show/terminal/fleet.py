"""Terminal tables of a fleet: its hosts, its kinds of host, who is missing."""

from collections.abc import Iterator

from hakmem_lab.show import hosts
from hakmem_lab.show.terminal.tables import add_row, new_table


def tables(result: dict) -> Iterator:
    """Tables, and lines of text, in the order of reading."""
    found = list(hosts.lines(result))
    for group in (hosts.OF_HOSTS, hosts.OF_KINDS):
        rows = [line for line in found if line.group == group]
        if rows:
            table = new_table(
                f"{group} (these intervals hold together)", group, "blocks", "effect and interval", "shown"
            )
            for line in rows:
                add_row(table, line.name, str(line.blocks), line.change.told(), line.reading)
            yield table
    if text := hosts.spread(result):
        yield text
    yield from hosts.missing(result)
