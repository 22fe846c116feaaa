"""Predictions for the live program from replays, with their intervals. Pure.

On the allocator that served the recorded program (the base), the program used a known amount. On another allocator it
is predicted to use more by the same difference as between the two replays: everything but the allocations stays the
same. An interval has two parts: the noise of replays and live runs, and the error of this model. The model's error was
measured on other programs. It is enlarged if the live runs of the other arms (without the predicted one) show a larger
error.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hakmem_lab.judge.statistics.paired import as_log, block_log_ratio, simultaneous_intervals
from hakmem_lab.judge.statistics.special import stdtrit
from hakmem_lab.store.records import Run
from hakmem_lab.store.results import Prediction, Ranking

LEVEL, SIGMAS = 0.95, 2.0
MATTERS = 0.03  # smaller differences between live runs need no particular order
LEAST_OTHERS = 2  # fewest other arms with live runs from which the model's error is estimated


@dataclass(frozen=True)
class Quantity:
    """field: in a live run's record. of_level, of_change: standard error of the model, as a share of the base's value
    and of the predicted change, measured on five programs."""

    name: str
    field: str
    unit: str
    memory: bool
    of_level: float
    of_change: float


QUANTITIES = (
    Quantity("wall", "wall_s", "s", False, 0.03, 0.5),
    Quantity("cpu", "cpu_s", "s", False, 0.03, 0.5),
    Quantity("rss", "rss_peak_kib", "KiB", True, 0.04, 0.15),
)


@dataclass(frozen=True)
class Column:
    """One arm's value in each block, for its replays and for its live runs, if any."""

    replays: Sequence[float]
    lives: Sequence[float]


def offsets(recorded: Sequence[Mapping], base_runs: Sequence[Run]) -> dict[int, float]:
    """Process -> KiB outside the allocator: the recorded peak minus the peak of the base's replays."""
    known = {each["process"]: each["peak_kib"] for each in recorded if each["peak_kib"] is not None}
    held: dict[int, list[float]] = {}
    for run in base_runs:
        for each in run["replay"]["processes"]:
            held.setdefault(each["process"], []).append(each["rss_peak_kib"])
    return {number: known[number] - statistics.median(values) for number, values in held.items() if number in known}


def peak(processes: Sequence[Mapping], beside: Mapping[int, float]) -> float:
    """Peak of the largest process, including the memory that is not in the trace."""
    return max(each["rss_peak_kib"] + beside.get(each["process"], 0.0) for each in processes)


def error_of_median(values: Sequence[float]) -> float:
    """The standard error of the median, as for normal values."""
    if len(values) < 2:
        return 0.0
    return 1.2533 * statistics.stdev(values) / math.sqrt(len(values))


def rate(level: float | None, cpu_level: float | None, quantity: Quantity) -> float:
    """Wall time per processor time of the program; less than 1 if several threads work at once."""
    if quantity.name != "wall" or not level or not cpu_level:
        return 1.0
    return min(1.0, level / cpu_level)


def rows(
    columns: Mapping[str, Column], base: str, quantity: Quantity, level: float | None, cpu_level: float | None = None
) -> list[Prediction]:
    """One row for each arm: the prediction with its interval, and the live value if there is one.

    level: what the program used when it was recorded, for runs without live runs; without either, there are no rows.
    """
    lives = {name: statistics.median(column.lives) for name, column in columns.items() if column.lives}
    level = lives.get(base, level)
    if level is None:
        return []
    share = rate(level, cpu_level, quantity)
    if doubt(columns, base, quantity, level, share):
        return []
    own = {name: statistics.median(column.replays) for name, column in columns.items()}
    change = {name: (value - own[base]) * share for name, value in own.items()}
    off = {name: lives[name] - level - change[name] for name in lives if name != base}
    found: list[Prediction] = []
    for name, column in columns.items():
        parts = [column.replays, columns[base].replays] if name != base else [column.replays]
        noise = [error_of_median(values) * share for values in parts]
        noise += [error_of_median(values) for values in (columns[base].lives, column.lives)]
        half = half_width(noise, change[name], level, quantity, [off[other] for other in off if other != name])
        row: Prediction = {"arm": name, "replay": own[name], "predicted": max(0.0, level + change[name]),
               "low": max(0.0, level + change[name] - half), "high": level + change[name] + half,
               "live": lives.get(name), "base": name == base}  # fmt: skip
        if name in lives and name != base:
            row["error"] = row["predicted"] / lives[name] - 1
            row["inside"] = row["low"] <= lives[name] <= row["high"]
        found.append(row)
    return found


def doubt(columns: Mapping[str, Column], base: str, quantity: Quantity, level: float | None, share: float) -> str:
    """Why nothing can be predicted, if the base's replay took longer than the whole program; else empty. Such a replay
    differs from what the program did, so a difference between two of them would not occur in the program."""
    replay = statistics.median(columns[base].replays) * share
    level = statistics.median(columns[base].lives) if columns[base].lives else level
    if quantity.memory or level is None or replay <= level:
        return ""
    return (
        f"no prediction of {quantity.name}: on {base} the replay alone took {replay:.3g} {quantity.unit}, and all "
        f"of the program {level:.3g} {quantity.unit}"
    )


def half_width(
    noise: Sequence[float], change: float, level: float, quantity: Quantity, others: Sequence[float]
) -> float:
    """Half the width of a prediction's interval. others: errors of the model for the other arms."""
    model = SIGMAS * math.hypot(quantity.of_level * level, quantity.of_change * change) if change else 0.0
    if len(others) >= LEAST_OTHERS:
        off = math.sqrt(statistics.fmean(each**2 for each in others))
        model = max(model, off * float(stdtrit(len(others), (1 + LEVEL) / 2)))
    return math.hypot(model, SIGMAS * math.hypot(*noise))


def ranking(rows_: Sequence[Prediction], lives: Mapping[str, Sequence[Sequence[float]]]) -> Ranking:
    """For every two arms whose live runs differ by more than MATTERS: whether the predicted order is the live order.

    lives: for each arm, block by block, the values of its live runs. A difference counts if its interval excludes 0;
    the intervals of all pairs hold at once. Other differences of that size are "unsure".
    """
    found: dict[str, list[list[str]]] = {"agree": [], "contrary": [], "unsure": []}
    rows_of = {row["arm"]: row for row in rows_}
    pairs = {" and ".join(pair): pair for pair in itertools.combinations(rows_of, 2)}
    differences = {
        key: [block_log_ratio(*block, True) for block in zip(lives[first], lives[second], strict=True)]
        for key, (first, second) in pairs.items()
    }
    for key, more in simultaneous_intervals(differences, LEVEL).items():
        first, second = pairs[key]
        if abs(more.estimate) <= as_log(MATTERS):
            continue
        same = (more.estimate > 0) == (rows_of[second]["predicted"] > rows_of[first]["predicted"])
        word = "unsure" if not more.excludes_zero() else "agree" if same else "contrary"
        found[word].append([first, second])
    predicted = sorted(rows_, key=lambda row: row["predicted"])
    live = sorted(rows_, key=lambda row: row["live"] or 0.0)
    return {
        "agree": found["agree"],
        "contrary": found["contrary"],
        "unsure": found["unsure"],
        "predicted": [row["arm"] for row in predicted],
        "live": [row["arm"] for row in live],
    }


def recorded_level(recorded: Mapping, quantity: Quantity) -> float | None:
    """What the program used when it was recorded; times include those of the recorder."""
    if quantity.memory:
        return max((each["peak_kib"] for each in recorded["processes"] if each["peak_kib"] is not None), default=None)
    return recorded[quantity.field]
