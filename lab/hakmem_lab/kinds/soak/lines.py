"""What a soaking program says about itself, line by line.

A pattern has named groups, all of them optional: `operations` (so far), `t` (seconds), `phase` (which the line is
about), `next` (which begins with the line), `started` (threads so far), `live_kib`, and service times `p50_ns`,
`p99_ns`, `p999_ns` or the same in `_us` or `_ms`.
"""

import re
import statistics
from dataclasses import dataclass, field

DEFAULT_LINE = (
    r"^soak t=(?P<t>[0-9.]+) ops=(?P<operations>\d+) live_kib=(?P<live_kib>\d+) phase=(?P<phase>\S+) next=(?P<next>\S+)"
    r" threads=\d+ started=(?P<started>\d+)"
    r" p50_ns=(?P<p50_ns>\d+) p99_ns=(?P<p99_ns>\d+) p999_ns=(?P<p999_ns>\d+)$"
)
PERCENTILES = ("p50", "p99", "p999")
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
NAMES = ("t", "operations", "phase", "next", "started", "live_kib")
GROUPS = (*NAMES, *(f"{name}_{unit}" for name in PERCENTILES for unit in MICROSECONDS))


def check_pattern(pattern: str) -> str:
    """Returns the pattern, or raises ValueError."""
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise ValueError(f"the regular expression is not valid: {error}") from None
    unknown = [name for name in groups if name not in GROUPS]
    if unknown or not groups:
        what = f"no group may be named '{unknown[0]}'" if unknown else "it names no group"
        raise ValueError(f"{what}; groups are named (?P<operations>...) and so on: {', '.join(GROUPS)}")
    return pattern


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


@dataclass
class LineReader:
    """Turns a growing output into one record for each sample."""

    pattern: str
    matched: int = 0
    _begun: list[bytes] = field(default_factory=list)
    _last: tuple[float, float] | None = None
    _compiled: re.Pattern = field(init=False)
    _phase: str | None = None
    _line_phase: str | None = None

    def __post_init__(self) -> None:
        self._compiled = re.compile(self.pattern)

    def read(self, added: bytes, now_s: float) -> dict:
        """What the lines that end in `added`, the output since the last call, say: of operations the latest, of tails
        the worst.

        Values are None where no new line says anything; the phase stays until another is announced. `phase` is that of
        now, `line_phase` that of the operations. now_s: the sampler's clock.
        """
        found = [match.groupdict() for line in self._lines(added) if (match := self._compiled.search(line))]
        self.matched += len(found)
        latest = found[-1] if found else {}
        self._line_phase = latest.get("phase") or self._line_phase
        self._phase = latest.get("next") or latest.get("phase") or self._phase
        operations, started = _number(latest.get("operations")), _number(latest.get("started"))
        record = {
            "operations": None if operations is None else int(operations),
            "ops_per_s": self._rate(operations, _number(latest.get("t")), now_s),
            "phase": self._phase,
            "line_phase": self._line_phase,
            "live_kib": _number(latest.get("live_kib")),
            "threads_started": None if started is None else int(started),
        }
        for name in PERCENTILES:
            values = self._values(found, name)
            record[f"{name}_us"] = (statistics.median if name == "p50" else max)(values) if values else None
        return record

    def _lines(self, added: bytes) -> list[str]:
        """The lines that are whole now; the beginning of the next one is kept."""
        whole, newline, rest = added.rpartition(b"\n")
        if not newline:
            self._begun.append(added)
            return []
        text = b"".join([*self._begun, whole])
        self._begun = [rest]
        return text.decode(errors="replace").splitlines()

    def _rate(self, operations: float | None, t_s: float | None, now_s: float) -> float | None:
        """Operations per second since the last line; by the program's own clock where it prints one."""
        if operations is None:
            return None
        at = now_s if t_s is None else t_s
        last, self._last = self._last, (at, operations)
        if last is None or at <= last[0] or operations < last[1]:
            return None
        return (operations - last[1]) / (at - last[0])

    @staticmethod
    def _values(found: list[dict], name: str) -> list[float]:
        return [
            value * factor
            for groups in found
            for unit, factor in MICROSECONDS.items()
            if (value := _number(groups.get(f"{name}_{unit}"))) is not None
        ]
