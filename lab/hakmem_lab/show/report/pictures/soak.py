"""A soak over time: resident memory with its slope, throughput with change points, tails by epoch."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hakmem_lab.show import numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.axis import Axis, measured, of_memory
from hakmem_lab.show.report.model import LoadedRun, Table
from hakmem_lab.show.report.pictures.forms import Chart, Series
from hakmem_lab.show.report.series import Envelope, Floats, envelope
from hakmem_lab.show.report.svg import Picture, arm_colour, arm_marker, label
from hakmem_lab.store.records import Sample
from hakmem_lab.store.results import Epoch, Soak

TABLE_ROWS = 24


def _time(end_s: float) -> Axis:
    unit, factor = ("h", 3600.0) if end_s >= 7200 else ("min", 60.0) if end_s >= 180 else ("s", 1.0)
    inner = Axis(0, end_s / factor, count=6)
    ticks = [(at * factor, text) for at, text in inner.marked()]
    return Axis(0, end_s, f"time, {unit}", ticks=ticks)


@dataclass
class Marks:
    """What a chart of the samples shows besides its series. said: about it, for the caption."""

    rules: list[tuple[float, str, str]] = field(default_factory=list)
    texts: list[tuple[float, str]] = field(default_factory=list)
    said: str = ""


def _marks(run: LoadedRun, line: Envelope) -> Marks:
    """Change points; a dotted line where an interrupted soak continued with a new process; the names of phases along
    the top, with a fine line at the start of each."""
    found, end_s = Marks(), float(line.t_s[-1]) or 1.0
    if line.binned:
        found.said += f" Line: median, shade: range of {len(line.t_s)} bins over {len(run.samples)} samples."
    pairs = [(after, finite(after.get("t_s"))) for before, after in itertools.pairwise(run.samples)
             if before.get("segment") != after.get("segment")]  # fmt: skip
    restarts = [t_s for _, t_s in pairs if t_s is not None]
    points = [t for t in map(finite, (run.result.get("soak") or {}).get("change_points") or []) if t is not None]
    found.said += f" Dotted: {_many(restarts, 'restart')} after an interruption." if restarts else ""
    found.said += f" Upright lines: {_many(points, 'change point')}." if points else ""
    found.rules = [(t_s, "ink", "1.5 3") for t_s in restarts] + [(t_s, "arm-2", "4 3") for t_s in points]
    starts: list[tuple[float, str]] = []
    for sample in run.samples:
        t_s, phase = finite(sample.get("t_s")), sample.get("phase")
        if t_s is not None and phase and (not starts or starts[-1][1] != phase):
            starts.append((t_s, str(phase)))
    if 2 <= len(starts) <= 12:
        found.rules += [(t_s, "line", "") for t_s, _ in starts]
        for (t_s, phase), following in zip(starts, [*(t for t, _ in starts[1:]), end_s], strict=True):
            room = int((following - t_s) / end_s * 45)
            found.texts += [(t_s, label(phase, room))] if room >= 4 else []
    return found


def _many(found: Sequence[float], what: str) -> str:
    return f"{len(found)} {what}{'s' if len(found) > 1 else ''}"


def _steady(soak: Soak, line: Envelope) -> Floats:
    """Start and end of the times used for the slope: the steady state of the longest process, else everything."""
    first, last = float(line.t_s[0]), float(line.t_s[-1])
    start, warm_up, length = (finite(soak.get(name)) for name in ("start_s", "warm_up_s", "steady_s"))
    if start is None or length is None:
        return np.array([first, last])
    begin = min(start + (warm_up or 0.0), last)
    end = min(begin + length, last)
    return np.array([begin, end]) if ((line.t_s >= begin) & (line.t_s <= end)).any() else np.array([first, last])


def _table(samples: Sequence[Sample], name: str, caption: str, head: str, factor: float) -> Table:
    """A table of the series at evenly spaced samples, at most TABLE_ROWS."""
    known = [s for s in samples if finite(s.get("t_s")) is not None and finite(s.get(name)) is not None]
    picks = np.linspace(0, len(known) - 1, min(TABLE_ROWS, len(known))).round().astype(int)
    rows = [
        [
            numbers.seconds(s.get("t_s")),
            numbers.number((finite(s.get(name)) or 0.0) * factor),
            str(s.get("phase") or numbers.UNKNOWN),
        ]
        for s in (known[i] for i in picks)
    ]
    return Table(caption, ["Time", head, "Phase"], rows)


def _line(line: Envelope, colour: str, dash: str = "") -> Series:
    low, high = (line.low, line.high) if line.binned else (None, None)
    return Series(line.t_s, line.median, colour, width=1.4, dash=dash, low=low, high=high, shade=0.22)


def resident(run: LoadedRun) -> Picture | None:
    """RSS over time with the Theil–Sen slope and the phases."""
    line, held = envelope(run.samples, "rss_kib"), envelope(run.samples, "live_kib")
    if line is None:
        return None
    soak, marks = run.result.get("soak") or {}, _marks(run, line)
    series = [_line(line, "arm-1")]
    live = " What the program held of it (live bytes) was not reported."
    if held is not None:
        series.append(Series(held.t_s, held.median, "arm-3", dash="1.5 3"))
        live = " Dotted: what the program held of it (live bytes), as it reports."
    slope, budget = finite(soak.get("rss_slope_mib_per_h")), finite(soak.get("budget_mib_per_h"))
    trend = "no slope was computed"
    if slope is not None:
        ends = _steady(soak, line)
        steady = (line.t_s >= ends[0]) & (line.t_s <= ends[1])
        middle_t, middle = float(np.median(line.t_s[steady])), float(np.median(line.median[steady]))
        series.append(Series(ends, middle + slope * 1024 / 3600 * (ends - middle_t), dash="6 3"))
        trend = f"slope {numbers.between(slope, soak.get('slope_low'), soak.get('slope_high'), 'MiB/h')}"
    if budget is not None:
        trend += f", budget {numbers.measure(budget * 1024, 'KiB/h')}"
    y = of_memory(max(float(line.high.max()) * 1.1, 1), "resident memory")
    description = f"Resident memory from {line.median[0] / 1024:.0f} to {line.median[-1] / 1024:.0f} MiB; {trend}."
    caption = f"Broken line: {trend}.{live}{marks.said}"
    table = _table(run.samples, "rss_kib", "Resident memory at even times", "MiB", 1 / 1024)
    x = _time(float(line.t_s[-1]) or 1.0)
    drawing = Chart(x, y, series, rules=marks.rules, texts=marks.texts, left=72).draw()
    return Picture("resident", "Memory over time", description, drawing, table, caption)


def throughput(run: LoadedRun) -> Picture | None:
    """Operations a second over time, with the change points."""
    line = envelope(run.samples, "ops_per_s")
    if line is None:
        return None
    soak, marks = run.result.get("soak") or {}, _marks(run, line)
    y = Axis(0, max(float(line.high.max()) * 1.1, 1), "operations a second", measured(""))
    drift = finite(soak.get("throughput_drift_percent_per_h"))
    ends = [numbers.number(soak.get(name)) for name in ("drift_low", "drift_high")]
    trend = f"Drift {numbers.number(drift)} [{ends[0]}, {ends[1]}] % an hour." if drift is not None else ""
    first, last = (numbers.plain_measure(float(line.median[place]), "") for place in (0, -1))
    description = f"From {first} to {last} operations a second. {trend}".strip()
    table = _table(run.samples, "ops_per_s", "Throughput at even times", "Operations a second", 1)
    x = _time(float(line.t_s[-1]) or 1.0)
    drawing = Chart(x, y, [_line(line, "arm-3")], rules=marks.rules, texts=marks.texts, left=65).draw()
    return Picture("throughput", "Throughput over time", description, drawing, table, (trend + marks.said).strip())


PERCENTILES = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9"}


def tails(run: LoadedRun) -> Picture | None:
    """Percentiles of each epoch; the tail of the last epoch against the first shows ageing."""
    epochs = [e for e in (run.result.get("soak") or {}).get("epochs") or [] if finite(e.get("start_s")) is not None]
    series = []
    for position, (name, title) in enumerate(PERCENTILES.items()):
        known = {_middle(e): value for e in epochs if (value := finite(e.get(name))) is not None and value > 0}
        if known:
            series.append(Series([*known], [*known.values()], arm_colour(position), title, arm_marker(position)))
    if not series:
        return None
    values = [value for each in series for value in each.ys]
    y = Axis(min(values) / 1.3, max(values) * 1.3, log=True, written=measured("s", 1e-6))
    x = _time(max(finite(e.get("end_s")) or float(e["start_s"]) for e in epochs) or 1.0)
    rows = [
        [
            f"{numbers.seconds(e.get('start_s'))} to {numbers.seconds(e.get('end_s'))}",
            numbers.number(e.get("ops_per_s")),
            *(numbers.microseconds(e.get(n)) for n in PERCENTILES),
            numbers.number(e.get("rss_mib"), "MiB"),
        ]
        for e in epochs
    ]
    table = Table("Epochs", ["Epoch", "Operations a second", *PERCENTILES.values(), "Resident"], rows)
    first, last = ({name: numbers.microseconds(e.get(name)) for name in PERCENTILES} for e in (epochs[0], epochs[-1]))
    shown = {each.name for each in series}
    said = "; ".join(f"{title} from {first[n]} to {last[n]}" for n, title in PERCENTILES.items() if title in shown)
    drawing = Chart(x, y, series, 150, columns=3).draw()
    return Picture("tails", "Tails by epoch", f"{said}.", drawing, table, "Percentiles within each epoch.")


def _middle(epoch: Epoch) -> float:
    start = float(epoch["start_s"])
    end = finite(epoch.get("end_s"))
    return start if end is None else (start + end) / 2
