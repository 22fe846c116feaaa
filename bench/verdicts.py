"""From raw runs to the lines of the table: what was asked, what was measured, pass or miss."""

import statistics

from arms import PEERS
from rows import PROTOTYPE_TIME_BAR, RSS_BAR, SPEED, TIME
from stats import median_interval, paired_ratio


def line(title, bar, measured, verdict):
    return {"workload": title, "bar": bar, "measured": measured, "verdict": verdict}


def judged(ok, low_ok, high_ok):
    """pass or miss by the estimate; '~' where the interval reaches across the bar."""
    return ("pass" if ok else "miss") + ("" if low_ok == high_ok else " ~")


def _speeds(row, runs, arm):
    values = [run["figure"] for run in runs[arm]]
    return values if row.higher_is_better else [1.0 / value for value in values]


def best_peer(row, runs):
    return max(PEERS, key=lambda peer: statistics.median(_speeds(row, runs, peer)))


def _ratio_line(title, row, runs, against, bar, kind, label):
    ratio, low, high = paired_ratio(_speeds(row, runs, "hakmem"), _speeds(row, runs, against))
    if kind == TIME:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
        verdict = judged(ratio <= bar, low <= bar, high <= bar)
    else:
        verdict = judged(ratio >= bar, low >= bar, high >= bar)
    sign = "<=" if kind == TIME else ">="
    measured = f"{ratio:.3f} [{low:.3f}, {high:.3f}] ({against})"
    return line(title, f"{sign} {bar:.2f} x {label} {kind}", measured, verdict)


def speed_lines(row, runs):
    """The row's bars on its figure."""
    lines = []
    if row.bar is not None:
        lines.append(_ratio_line(row.title, row, runs, best_peer(row, runs), row.bar, row.bar_kind, "best"))
    if row.limit_bar is not None and "limit" in runs:
        lines.append(_ratio_line(row.title, row, runs, "limit", row.limit_bar, SPEED, "call limit"))
    if row.idle_bar_mib is not None:
        value, low, high = median_interval([run["figure"] for run in runs["hakmem"]])
        verdict = judged(value <= row.idle_bar_mib, low <= row.idle_bar_mib, high <= row.idle_bar_mib)
        lines.append(line(row.title, f"<= {row.idle_bar_mib:.0f} MiB", f"{value:.1f} [{low:.1f}, {high:.1f}] MiB", verdict))
    if row.live_bar is not None:
        value, low, high = median_interval([run["live_ratio"] for run in runs["hakmem"]])
        verdict = judged(value <= row.live_bar, low <= row.live_bar, high <= row.live_bar)
        lines.append(line(row.title, f"RSS <= {row.live_bar:.2f} x live", f"{value:.3f} [{low:.3f}, {high:.3f}]", verdict))
    if "prototype" in runs and row.idle_bar_mib is None:
        lines.append(_ratio_line(row.title, row, runs, "prototype", PROTOTYPE_TIME_BAR, TIME, "prototype"))
    return lines


def rss_line(title, peaks):
    """peaks: arm -> list of KiB. The leanest of the peers is the one with the smallest median."""
    leanest = min(PEERS, key=lambda peer: statistics.median(peaks[peer]))
    ratio, low, high = paired_ratio(peaks["hakmem"], peaks[leanest])
    verdict = judged(ratio <= RSS_BAR, low <= RSS_BAR, high <= RSS_BAR)
    return line("peak RSS: " + title, f"<= {RSS_BAR:.2f} x leanest", f"{ratio:.3f} [{low:.3f}, {high:.3f}] ({leanest})",
                verdict)


def row_lines(row, runs):
    lines = speed_lines(row, runs)
    if row.rss and row.bar is not None:
        lines.append(rss_line(row.title, {arm: [run["peak_kib"] for run in rs] for arm, rs in runs.items()}))
    return lines


def table(headings, rows):
    """Plain text columns, the first left-aligned."""
    cells = [headings] + rows
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    out = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
    out.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(out)


def medians_table(results, names):
    """One line per workload: the median figure and peak RSS of every arm."""
    rows = []
    for row, runs in results:
        cells = [f"{row.title} ({row.unit})"]
        for name in names:
            if name not in runs:
                cells.append("-")
                continue
            figure = statistics.median(run["figure"] for run in runs[name])
            peak = statistics.median(run["peak_kib"] for run in runs[name]) / 1024
            digits = 2 if figure < 1000 else 0
            cells.append(f"{figure:.{digits}f} ({peak:.1f})")
        rows.append(cells)
    return table(["median figure (peak RSS, MiB)"] + list(names), rows)
