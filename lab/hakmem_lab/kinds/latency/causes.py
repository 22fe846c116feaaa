"""What the slowest requests did: the kernel's counts in each of them, as the program prints them. Pure.

A line `slow RESPONSE_NS FAULTS WAITS PREEMPTED` for each of a run's slowest requests, counted from the start of the one
that it had to wait for; and of the whole run `pages FAULTS GROWTH`: what was faulted in beyond the growth of resident
memory had been there, and was given back.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from hakmem_lab.kinds.latency.pool import LEAST_REQUESTS_BEYOND, Requests

_SLOW = re.compile(r"^slow (\d+) (\d+) (\d+) (\d+)$", re.M)
_PAGES = re.compile(r"^pages (\d+) (-?\d+)$", re.M)
KEPT = 512
PERCENTILES = ("p99", "p99.9", "p99.99")
NEARLY, MOSTLY = 0.8, 0.5
DIGITS = 0.998  # of a value that a histogram has rounded
PREEMPTED, WAITED, FAULTED, OWN = "other programs", "lock waits", "page faults", "own work"


def read(text: str) -> dict:
    """What a run's record keeps of it; nothing where the program does not print it."""
    slow = sorted(([int(word) for word in found] for found in _SLOW.findall(text)), reverse=True)[:KEPT]
    pages = _PAGES.search(text)
    return {"slow": slow, "pages": [int(pages[1]), int(pages[2])] if pages else None} if slow else {}


def cause(_response: int, faults: int, waits: int, preempted: int) -> str:
    """One for each. Who was not running is not asked for more; a wait is longer than a fault."""
    return PREEMPTED if preempted else WAITED if waits else FAULTED if faults else OWN


def rows(arms: Mapping[str, Requests], runs: Mapping[str, Sequence[dict]]) -> list[dict]:
    """Of each arm and percentile, by the requests beyond it: shares of causes. Left out where too few are known."""
    found = []
    for percentile in PERCENTILES:
        for name, arm in arms.items():
            expected = arm.beyond(percentile)
            limit = arm.interval(percentile)[0] * 1e3 * DIGITS
            slow = [row for run in runs[name] for row in run.get("slow", ()) if row[0] >= limit]
            if expected >= LEAST_REQUESTS_BEYOND and len(slow) >= NEARLY * expected:
                found.append(_row(name, percentile, slow, [run.get("pages") for run in runs[name]]))
    return found


def _row(name: str, percentile: str, slow: Sequence[Sequence[int]], pages: Sequence[Sequence[int] | None]) -> dict:
    counts = Counter(cause(*row) for row in slow)
    faults, growth = (sum(each[at] for each in pages if each) for at in (0, 1))
    row = {
        "arm": name,
        "percentile": percentile,
        "requests": len(slow),
        "causes": {what: counts[what] / len(slow) for what in (FAULTED, WAITED, PREEMPTED, OWN)},
        "given_back": max(0.0, 1 - max(0, growth) / faults) if faults else None,
    }
    return row | {"text": _text(row)}


def _text(row: dict) -> str:
    """41 % page faults after a purge, 12 % lock waits, 47 % own work"""
    back = row["given_back"]
    purge = "" if back is None else " after a purge" if back >= MOSTLY else " on new memory"
    named = {FAULTED: FAULTED + purge}
    shares = sorted(row["causes"].items(), key=lambda pair: -pair[1])
    return ", ".join(f"{100 * share:.0f} % {named.get(what, what)}" for what, share in shares if share >= 0.005)
