"""Effects in words: "2.2 × as fast", "30 % more peak memory", with as many digits as their interval supports.

Pure. Ratios are turned so that above 1 is better, whatever the metric.
"""

import math
from dataclasses import dataclass

TIMES_FROM = 1.5  # from here on a multiple is easier to read than per cent
MOST_PLACES = 2
COARSE = 3


@dataclass(frozen=True)
class Wording:
    """How a metric is spoken of. less, more: beside per cent; of: after "× the"; rate: more of it is better,
    and said as such; speed: a time, of which half is said to be twice as fast."""

    less: str
    more: str
    of: str
    rate: bool = False
    speed: bool = False


MEMORY, MEAN_MEMORY = "peak memory", "memory in the mean"
KNOWN = {
    "wall": Wording("faster", "slower", "time", speed=True),
    "cpu": Wording("less CPU time", "more CPU time", "CPU time"),
    "rss": Wording(f"less {MEMORY}", f"more {MEMORY}", MEMORY),
    "rss-mean": Wording(f"less {MEAN_MEMORY}", f"more {MEAN_MEMORY}", MEAN_MEMORY),
    "faults": Wording("fewer page faults", "more page faults", "page faults"),
}
KNOWN |= {f"server-{name}": KNOWN[name] for name in ("cpu", "rss", "rss-mean")}
COST = Wording("less output", "more output", "output")
RATE = Wording("less output", "more output", "output", rate=True)


def wording(metric: str, higher_is_better: bool = False) -> Wording:
    return KNOWN.get(metric) or (RATE if higher_is_better else COST)


def places(low: float, high: float) -> int:
    """Decimals of a figure whose interval this is: those that its half width fills, one more where that begins with 1
    or 2, which a single digit would round too coarsely."""
    half = (high - low) / 2
    if not (math.isfinite(half) and half > 0):
        return 1
    exponent = math.floor(math.log10(half))
    return min(MOST_PLACES, max(0, (1 if half < COARSE * 10**exponent else 0) - exponent))


def _bounded(ratio: float | None) -> bool:
    return ratio is not None and math.isfinite(ratio) and ratio > 0


def effect(metric: str, estimate: float, low: float | None, high: float | None, higher_is_better: bool = False) -> str:
    """An estimate with its interval; all three are ratios minus one, None or infinite where nothing bounds them."""
    said = wording(metric, higher_is_better)
    ratio = 1 + estimate
    ends = [1 + end if end is not None and math.isfinite(end) and end > -1 else None for end in (low, high)]
    if not all(map(_bounded, ends)):
        return f"about {_alone(said, ratio)}, too few blocks for an interval" if _bounded(ratio) else "unknown"
    if ends[0] == ends[1] == 1:
        return "no difference"
    if ends[0] <= 1 <= ends[1]:
        return f"no difference shown: {_between(said, *ends)}"
    amounts = [_amount(said, value, ratio) for value in (ratio, *ends)]
    # The smaller effect first, as people write an interval.
    least, most = sorted(amounts[1:])
    digits = places(least, most)
    figure = f"{amounts[0]:.{digits}f}"
    return f"{_named(said, figure, ratio)} [{least:.{digits}f}, {most:.{digits}f}]"


def _times(said: Wording, ratio: float) -> bool:
    """Whether this is said in multiples; a saving is always said in per cent, but for speed."""
    if ratio < 1:
        return ratio <= 1 / TIMES_FROM and not said.rate
    return ratio >= TIMES_FROM and (said.speed or said.rate)


def _amount(said: Wording, value: float, ratio: float) -> float:
    """What is shown for a ratio, in the form that the estimate `ratio` is shown in."""
    if _times(said, ratio):
        return value if ratio > 1 else 1 / value
    if said.rate or (said.speed and ratio > 1):
        return 100 * abs(value - 1)
    return 100 * abs(1 / value - 1)


def _named(said: Wording, figure: str, ratio: float) -> str:
    better = ratio > 1
    if _times(said, ratio):
        if better:
            return f"{figure} × as fast" if said.speed else f"{figure} × the {said.of}"
        return f"{figure} × the {said.of}"
    return f"{figure} % {said.more if better == said.rate else said.less}"


def _alone(said: Wording, ratio: float) -> str:
    digits = 1 if _times(said, ratio) else 0
    return _named(said, f"{_amount(said, ratio, ratio):.{digits}f}", ratio)


def _between(said: Wording, low: float, high: float) -> str:
    """Both ends of an interval that holds 1: '3 % slower to 2 % faster'."""
    amounts = [_amount(said, end, end) for end in (low, high)]
    per_cent = [amount for amount, end in zip(amounts, (low, high), strict=True) if not _times(said, end)]
    digits = places(0, sum(per_cent)) if per_cent else 1
    texts = [
        _named(said, f"{amount:.{MOST_PLACES if _times(said, end) else digits}f}", end)
        for amount, end in zip(amounts, (low, high), strict=True)
    ]
    return " to ".join(texts)
