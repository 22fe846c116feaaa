"""A soak over time: resident memory with its slope, throughput with change points, tails by epoch."""

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from hakmem_lab.show import numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.model import LoadedRun, Record, Table
from hakmem_lab.show.report.series import Envelope, Floats, envelope
from hakmem_lab.show.report.svg import SENTINELS, Picture, arm_colour, arm_marker, canvas, label

TABLE_ROWS = 24


def _time_axis(axis: Axes, end_s: float) -> None:
    unit, factor = ("h", 3600.0) if end_s >= 7200 else ("min", 60.0) if end_s >= 180 else ("s", 1.0)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.number(value / factor)))
    ticks = MaxNLocator(nbins=6).tick_values(0, end_s / factor)
    axis.set_xticks([tick * factor for tick in ticks if 0 <= tick * factor <= end_s])
    axis.set_xlim(0, end_s)
    axis.set_xlabel(f"time, {unit}")


def _phases(axis: Axes, samples: Sequence[Record], end_s: float) -> None:
    """Names the phases along the top, with a fine line at the start of each."""
    starts: list[tuple[float, str]] = []
    for sample in samples:
        t_s, phase = finite(sample.get("t_s")), sample.get("phase")
        if t_s is not None and phase and (not starts or starts[-1][1] != phase):
            starts.append((t_s, str(phase)))
    if len(starts) < 2 or len(starts) > 12:
        return
    for (t_s, phase), following in zip(starts, [*(t for t, _ in starts[1:]), end_s], strict=True):
        axis.axvline(t_s, color=SENTINELS["line"], linewidth=1, zorder=0.4)
        room = int((following - t_s) / end_s * 60)
        if room >= 4:
            axis.text(
                t_s + end_s * 0.005, 1.0, label(phase, room), transform=axis.get_xaxis_transform(),
                va="bottom", color=SENTINELS["muted"], fontsize=10,
            )  # fmt: skip


def _steady(soak: Record, line: Envelope) -> Floats:
    """Start and end of the times used for the slope: the steady state of the longest process, else everything."""
    first, last = float(line.t_s[0]), float(line.t_s[-1])
    start, warm_up, length = (finite(soak.get(name)) for name in ("start_s", "warm_up_s", "steady_s"))
    if start is None or length is None:
        return np.array([first, last])
    begin = min(start + (warm_up or 0.0), last)
    end = min(begin + length, last)
    return np.array([begin, end]) if ((line.t_s >= begin) & (line.t_s <= end)).any() else np.array([first, last])


def _restarts(axis: Axes, samples: Sequence[Record]) -> str:
    """Draws a dotted line where an interrupted soak continued with a new process. Returns a text about it for the
    caption."""
    count = 0
    for before, after in itertools.pairwise(samples):
        t_s = finite(after.get("t_s"))
        if before.get("segment") != after.get("segment") and t_s is not None:
            axis.axvline(t_s, color=SENTINELS["ink"], linewidth=1.2, linestyle=":")
            count += 1
    return f" Dotted: {count} restart{'s' if count > 1 else ''} after an interruption." if count else ""


def _series(axis: Axes, line: Envelope, colour: str) -> None:
    if line.binned:
        axis.fill_between(line.t_s, line.low, line.high, color=colour, alpha=0.22, linewidth=0)
    axis.plot(line.t_s, line.median, color=colour, linewidth=1.4)


def _binned(line: Envelope, samples: int) -> str:
    if not line.binned:
        return ""
    return f" Line: median, shade: range of {len(line.t_s)} bins over {samples} samples."


def _change_points(axis: Axes, soak: Record) -> str:
    places = [t for t in (finite(point) for point in soak.get("change_points") or []) if t is not None]
    for t_s in places:
        axis.axvline(t_s, color=SENTINELS["arm-2"], linewidth=1.4, linestyle=(0, (4, 3)))
    return f" Upright lines: {len(places)} change point{'s' if len(places) > 1 else ''}." if places else ""


def _table(samples: Sequence[Record], name: str, caption: str, head: str, factor: float) -> Table:
    """A table of the series at evenly spaced samples, at most TABLE_ROWS."""
    known = [s for s in samples if finite(s.get("t_s")) is not None and finite(s.get(name)) is not None]
    picks = np.linspace(0, len(known) - 1, min(TABLE_ROWS, len(known))).round().astype(int)
    rows = [
        [numbers.seconds(s.get("t_s")), numbers.number(float(s[name]) * factor), str(s.get("phase") or numbers.UNKNOWN)]
        for s in (known[i] for i in picks)
    ]
    return Table(caption, ["Time", head, "Phase"], rows)


def _live(axis: Axes, run: LoadedRun) -> str:
    """Draws the program's live bytes if it reports them. Returns a text about them for the caption."""
    held = envelope(run.samples, "live_kib")
    if held is None:
        return " What the program held of it (live bytes) was not reported."
    axis.plot(held.t_s, held.median / 1024, color=SENTINELS["arm-3"], linestyle=":", linewidth=1.6)
    return " Dotted: what the program held of it (live bytes), as it reports."


def _over_time(axis: Axes, run: LoadedRun, line: Envelope) -> str:
    """Draws change points, restarts, phases and the time axis. Returns a text about them for the caption."""
    end_s = float(line.t_s[-1]) or 1.0
    points, restarts = _change_points(axis, run.result.get("soak") or {}), _restarts(axis, run.samples)
    _phases(axis, run.samples, end_s)
    _time_axis(axis, end_s)
    return _binned(line, len(run.samples)) + restarts + points


def resident(run: LoadedRun) -> Picture | None:
    """RSS over time with the Theil–Sen slope and the phases."""
    line = envelope(run.samples, "rss_kib")
    if line is None:
        return None
    soak = run.result.get("soak") or {}
    figure, (axis,) = canvas(2.3, left_in=0.8, top_in=0.4)
    mib = Envelope(line.t_s, line.median / 1024, line.low / 1024, line.high / 1024, line.binned)
    _series(axis, mib, SENTINELS["arm-1"])
    live = _live(axis, run)
    slope = finite(soak.get("rss_slope_mib_per_h"))
    if slope is not None:
        ends = _steady(soak, line)
        steady = (mib.t_s >= ends[0]) & (mib.t_s <= ends[1])
        middle_t, middle = float(np.median(mib.t_s[steady])), float(np.median(mib.median[steady]))
        axis.plot(ends, middle + slope / 3600 * (ends - middle_t), color=SENTINELS["ink"], linestyle=(0, (6, 3)))
    marks = _over_time(axis, run, line)
    axis.set_ylim(0, max(float(mib.high.max()) * 1.1, 1))
    axis.set_ylabel("resident memory, MiB")
    low, high = numbers.number(soak.get("slope_low")), numbers.number(soak.get("slope_high"))
    trend = f"slope {numbers.number(slope)} [{low}, {high}] MiB/h" if slope is not None else "no slope was computed"
    budget = finite(soak.get("budget_mib_per_h"))
    if budget is not None:
        trend += f", budget {numbers.number(budget)} MiB/h"
    description = f"Resident memory from {mib.median[0]:.0f} to {mib.median[-1]:.0f} MiB; {trend}."
    caption = f"Broken line: {trend}.{live}{marks}"
    table = _table(run.samples, "rss_kib", "Resident memory at even times", "MiB", 1 / 1024)
    return Picture("resident", "Memory over time", description, figure, table, caption)


def throughput(run: LoadedRun) -> Picture | None:
    """Operations a second over time, with the change points."""
    line = envelope(run.samples, "ops_per_s")
    if line is None:
        return None
    soak = run.result.get("soak") or {}
    figure, (axis,) = canvas(2.3, left_in=0.8, top_in=0.4)
    _series(axis, line, SENTINELS["arm-3"])
    marks = _over_time(axis, run, line)
    axis.set_ylim(0, max(float(line.high.max()) * 1.1, 1))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value, "")))
    axis.set_ylabel("operations a second")
    drift = finite(soak.get("throughput_drift_percent_per_h"))
    ends = [numbers.number(soak.get(name)) for name in ("drift_low", "drift_high")]
    trend = f"Drift {numbers.number(drift)} [{ends[0]}, {ends[1]}] % an hour." if drift is not None else ""
    first, last = (numbers.plain_measure(float(line.median[place]), "") for place in (0, -1))
    description = f"From {first} to {last} operations a second. {trend}".strip()
    table = _table(run.samples, "ops_per_s", "Throughput at even times", "Operations a second", 1)
    return Picture("throughput", "Throughput over time", description, figure, table, (trend + marks).strip())


def tails(run: LoadedRun) -> Picture | None:
    """Percentiles of each epoch; the tail of the last epoch against the first shows ageing."""
    epochs = [e for e in (run.result.get("soak") or {}).get("epochs") or [] if finite(e.get("start_s")) is not None]
    names = [n for n in ("p50_us", "p99_us", "p999_us") if any(finite(e.get(n)) for e in epochs)]
    if not epochs or not names:
        return None
    figure, (axis,) = canvas(2.1, left_in=0.8, top_in=0.42)
    axis.set_yscale("log")
    titles = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9"}
    for position, name in enumerate(names):
        points = [(_middle(e), finite(e.get(name))) for e in epochs]
        known = np.array([(t, v) for t, v in points if v is not None and v > 0])
        axis.plot(known[:, 0], known[:, 1], color=arm_colour(position), marker=arm_marker(position), label=titles[name])
    axis.yaxis.set_major_locator(LogLocator(base=10, numticks=5))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value * 1e-6, "s")))
    _time_axis(axis, max(finite(e.get("end_s")) or float(e["start_s"]) for e in epochs) or 1.0)
    figure.legend(loc="upper left", ncols=3, bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    rows = [
        [
            f"{numbers.seconds(e.get('start_s'))} to {numbers.seconds(e.get('end_s'))}",
            numbers.number(e.get("ops_per_s")),
            *(numbers.microseconds(e.get(n)) for n in ("p50_us", "p99_us", "p999_us")),
            numbers.number(e.get("rss_mib"), "MiB"),
        ]
        for e in epochs
    ]
    table = Table("Epochs", ["Epoch", "Operations a second", "p50", "p99", "p99.9", "Resident"], rows)
    title = "Tails by epoch"
    description = "; ".join(
        f"{titles[n]} from {numbers.microseconds(epochs[0].get(n))} to {numbers.microseconds(epochs[-1].get(n))}"
        for n in names
    )
    return Picture("tails", title, description + ".", figure, table, "Percentiles of an operation within each epoch.")


def _middle(epoch: Record) -> float:
    start = float(epoch["start_s"])
    end = finite(epoch.get("end_s"))
    return start if end is None else (start + end) / 2
