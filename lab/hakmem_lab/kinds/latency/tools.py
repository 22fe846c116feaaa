"""Response times in the outputs of wrk, redis-benchmark, ab (ApacheBench) and hey, as buckets of a histogram.

These programs print percentiles. Between two printed ones, each request counts with the higher value, so that the
printed percentiles are exact and others are upper bounds. Pure.
"""

import math
import re
from collections.abc import Callable, Sequence

from hakmem_lab.plan.metrics import printed_number

NS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
Buckets = list[tuple[float, int]]  # (value in ns, requests)
Points = Sequence[tuple[float, float]]  # (share of the requests, the time in ns that they took at most)

_TIME = r"([\d.]+)(us|ms|s|m|h)\b"
_WRK, _WRK_COUNT = re.compile(rf"^ +([\d.]+)% +{_TIME}$", re.M), re.compile(r"^ +(\d+) requests in ", re.M)
_WRK_MOST = re.compile(rf"^ +Latency +\S+ +\S+ +{_TIME}", re.M)
_REDIS = re.compile(r"^ *([\d.]+)% <= ([\d.]+) milliseconds \(cumulative count (\d+)\)$", re.M)
_REDIS_PART = re.compile(r"^Latency by percentile distribution:\n(.*?)(?:\n\n|\Z)", re.M | re.S)
_AB, _AB_COUNT = (
    re.compile(r"^ +(\d+)% +(\d+)(?: \(longest request\))?$", re.M),
    re.compile(r"^Complete requests: +(\d+)$", re.M),
)
_HEY, _HEY_COUNT = re.compile(r"^ +(\d+)%+ in ([\d.]+) secs$", re.M), re.compile(r"^ +\[\d+\]\s+(\d+) responses$", re.M)
_HEY_MOST = re.compile(r"^ +Slowest:\s+([\d.]+) secs$", re.M)


def _shared_out(points: Points, requests: int) -> Buckets:
    """Buckets from percentiles, ascending; the requests beyond the last one took as long as it says."""
    found, before = Buckets(), 0
    for share, value in points:
        until = math.ceil(share * requests - 1e-9)
        found.append((value, until - before))
        before = until
    return [*found, (points[-1][1], requests - before)] if points else []


def _wrk(text: str) -> Buckets:
    count, most = _WRK_COUNT.search(text), _WRK_MOST.search(text)
    points = [(float(share) / 100, float(time) * NS[unit]) for share, time, unit in _WRK.findall(text)]
    last = [(1.0, float(most[1]) * NS[most[2]])] if most else []
    return _shared_out([*points, *last], int(count[1])) if count and points else []


def _redis_benchmark(text: str) -> Buckets:
    """All tests of a run together; the counts are exact."""
    found = Buckets()
    for part in _REDIS_PART.findall(text):
        before = 0
        for _, time, count in _REDIS.findall(part):
            found.append((printed_number(time) * NS["ms"], int(count) - before))
            before = int(count)
    return found


def _ab(text: str) -> Buckets:
    count = _AB_COUNT.search(text)
    points = [(int(share) / 100, int(time) * NS["ms"]) for share, time in _AB.findall(text)]
    return _shared_out(points, int(count[1])) if count else []


def _hey(text: str) -> Buckets:
    points = [(int(share) / 100, float(time) * NS["s"]) for share, time in _HEY.findall(text)]
    last = [(1.0, float(most[1]) * NS["s"])] if (most := _HEY_MOST.search(text)) else []
    return _shared_out([*points, *last], sum(map(int, _HEY_COUNT.findall(text)))) if points else []


TOOLS: dict[str, Callable[[str], Buckets]] = {
    "wrk --latency": _wrk, "redis-benchmark": _redis_benchmark, "ab": _ab, "hey": _hey,
}  # fmt: skip


def buckets(text: str) -> Buckets:
    """The response times of the first of these tools that printed this; empty if none did."""
    return next((found for read in TOOLS.values() if (found := read(text))), [])
