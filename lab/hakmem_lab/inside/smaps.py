"""What the kernel says about the mappings of a process: /proc/PID/smaps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.inside.memory import Mapping, mapping

HEADER = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")


@dataclass
class Area:
    """One mapping, and the bytes of it that are resident."""

    mapping: Mapping
    rss: int


def parse(text: str) -> list[Area]:
    found: list[Area] = []
    for line in text.splitlines():
        if HEADER.match(line):
            found.append(Area(mapping(line), 0))
        elif line.startswith("Rss:"):
            found[-1].rss = int(line.split()[1]) * 1024
    return found


def total(areas: Sequence[Area]) -> int:
    return sum(area.rss for area in areas)
