"""The warnings that may stand under a result: a row each, the most severe first. Pure.

A row has the condition under which it stands, its sentence, and what to do about it. Where an event of the run is the
condition, the event has the sentence, with its remedy. The short view shows the first warning of a result, all other
views show all of them.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple


class Row(NamedTuple):
    condition: str
    sentence: str = "{text}"
    remedy: str = ""
    event: str = ""


class Said(str):
    """The text of a warning, which knows its row."""

    row: "Warn"


class Warn(Enum):
    # What was measured is not what was asked
    UNSERVED = Row("an allocator did not serve the program", event="unserved")
    REFUSED = Row("an allocator refused requests of a replay", "{side} refused {count:,} of the allocations, so "
                  "the figures are of less work than was recorded", "give it more memory, or leave it out")  # fmt: skip
    PARTIAL = Row("the replayed trace is incomplete", event="partial")
    DOUBTED = Row("a replay does not predict a quantity")
    UNREPLAYED = Row("the process whose stacks were asked for was not replayed",
                     "by stack: process {number} was not replayed", "name it: --processes {number}")  # fmt: skip
    THOUSANDS = Row("a printed figure may have a decimal comma", "{name}: the program prints {value:,.0f}, read as "
                    "{value:.0f}; if the comma is a decimal point, the figures are 1000 times too large",
                    "let the program print a point")  # fmt: skip
    BACKLOG = Row("half of the requests wait longer than their service takes", "{side} does not keep up with the rate: "
                  "half of the requests wait over {times:g} times as long as their service takes, so the figures show "
                  "a backlog", "choose a lower rate")  # fmt: skip
    NO_INPUT = Row("standard input was open but silent", event="no-input")
    NO_OPERATIONS = Row("a soak's program printed no count of operations", "no line of the output has a count of "
                        "operations, so throughput is unknown", "give the pattern of such a line: --line")  # fmt: skip
    WHOLE = Row("a count of system calls has no {ops}", "the command has no {{ops}}, so the counts are of the whole "
                "process, with its start and end, and not per operation", "put {{ops}} in place of the number of "
                "operations")  # fmt: skip
    ENDED = Row("a soak's program ended early", "the program ended by itself after {after}", "let it run on")
    # Failures
    FAILED_WORKLOAD = Row("a workload of a suite was not finished")
    GONE = Row("an allocator left a comparison", event="gone")
    FAILED = Row("runs failed", "{side} failed {times}; the failed blocks were run again, and their records are kept")
    MISSING = Row("a benchmark is only in one of two files")
    # The machine
    UNFIT = Row("an A/A run failed on this machine", event="fitness")
    LOAD = Row("other programs were busy", event="load")
    DISTURBED = Row("more than a tenth of the blocks were disturbed", "{count} of {all} blocks were disturbed: {why}",
                    "repeat the run on a quieter machine")  # fmt: skip
    UNLIKE = Row("hosts or files that should be alike differ")
    RESTARTED = Row("a soak was interrupted", "interrupted and resumed: {count} processes ({lengths}), each analysed "
                    "on its own; no slope is computed across a restart, and the figures are from the process with the "
                    "longest steady state")  # fmt: skip
    # What the intervals do not cover
    TRIES = Row("the same question was asked before")
    ORDER = Row("the order or the pairing of foreign runs is an assumption")
    ALIKE = Row("neighbouring foreign runs resemble each other", "neighbouring runs resemble each other: {which}",
                "let both sides take turns")  # fmt: skip
    COARSE = Row("values come in steps beyond the margin", "{label} comes in steps of {step:.2g} % of a run, as by a "
                 "coarse clock: smaller differences can hardly be seen", "more work in a run (--repeat) or a finer "
                 "clock (--metric) helps more than further blocks")  # fmt: skip
    TOO_FEW = Row("too few blocks for intervals that hold at once", "{some} too few blocks for intervals that hold for "
                  "all sides at once", "{least} are needed: --max-blocks")  # fmt: skip
    SHORT = Row("a budget of system calls needs longer runs", "the runs are too short for the budget: even with no "
                "call in {count:,} different operations, the true rate may be {rate:.1e} per operation", "the lengths "
                "must differ by at least {apart:.2g}{other}")  # fmt: skip
    UNCERTAIN = Row("counts of equal runs differ more than counts of long and short runs", "{side}: counts vary more "
                    "between runs of one length than between the two lengths, so the rate is uncertain", "make the "
                    "lengths differ more")  # fmt: skip
    FEW_BEYOND = Row("a percentile rests on few requests", "of {count:,.0f} requests, fewer than {least} were slower "
                     "than {name}, so {name} varies much", "more or longer runs make it steadier")  # fmt: skip
    NO_LIMIT = Row("a percentile has too few requests for a limit", "{name} is no guardrail here: too few requests "
                   "were slower", "more or longer runs make it one")  # fmt: skip
    RARELY_SLOW = Row("a few runs are much slower than the others",
                      "a few runs are much slower than the others: {what}: {arms}")  # fmt: skip
    UNSTEADY = Row("most runs were not steady when recording began", "most runs were not steady yet when recording "
                   "began", "make the warm-up {longer:.0f} s longer")  # fmt: skip
    HIDDEN = Row("an interaction hides main effects")
    DRIFT = Row("the last run of a block differs from the first", "the last run of a block was {size:.2g} % {way} than "
                "the first, whichever side ran; the result is corrected for this")  # fmt: skip
    INEXACT = Row("exact readings of memory took too long", "exact readings of the memory took too long, so the "
                  "kernel's count was used, which lags a little")  # fmt: skip
    # What else to know
    LEFT_OUT = Row("an allocator or a candidate was left out", event="left-out")
    LACKING = Row("allocators are not installed", event="lacking")
    NO_GROUPS = Row("control groups are missing", event="no-groups")
    UNCHECKED = Row("the machine was never checked", event="fitness-unknown")
    DIRTY = Row("hakmem's checkout had changes", "hakmem's checkout had uncommitted changes", "commit them")
    BY_CHANCE = Row("one side failed more often, which chance may explain", "{text}")
    UNSEEN = Row("the runs are too few for rare events")

    def said(self, **facts: Any) -> Said:
        row = self.value
        text = row.sentence.format(**facts) + (f"; {row.remedy.format(**facts)}" if row.remedy else "")
        found = Said(text)
        found.row = self
        return found


ROWS = list(Warn)
EVENTS = {warn.value.event: warn for warn in Warn if warn.value.event}


def ordered(texts: Iterable[str]) -> list[str]:
    """Each text once, the most severe first."""
    last = len(ROWS)
    return sorted(dict.fromkeys(texts), key=lambda text: ROWS.index(text.row) if isinstance(text, Said) else last)
