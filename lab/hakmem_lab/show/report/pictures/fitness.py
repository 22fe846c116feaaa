"""Is the machine fit to measure: false verdicts against their bound, autocorrelation, the smallest effect to be seen.

May import: rows, series, svg, verdicts, numbers, model, palette.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.numbers import finite
from hakmem_lab.show.report.pictures.rows import Panel, Row, draw_panels
from hakmem_lab.show.report.series import autocorrelation
from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, canvas, element
from hakmem_lab.show.report.verdicts import false_rates


def false_verdicts(run: LoadedRun, key: str) -> Picture | None:
    """The share of A/A comparisons that gave GO or NO-GO, against the bound."""
    record = run.result.get("aa") or {}
    known = list(false_rates(record).items())
    if not known:
        return None
    known.append(("Both", sum(rate for _, rate in known)))
    bound = finite(record.get("bound"))
    above = bound is not None and known[-1][1] > bound
    tone = (SENTINELS["no-go"], "v") if above else (SENTINELS["go"], "o")
    rows = [
        Row(name, numbers.percent(rate), rate, 0.0, rate, *(tone if name == "Both" else ())) for name, rate in known
    ]
    top = max([rate for _, rate in known] + [bound or 0.0, 0.01]) * 1.25
    panel = Panel(rows, (0, top), axis_label="share of comparisons of a program with itself")
    figure = draw_panels([panel])
    axis = panel.axes
    axis.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:.3g} %"))
    if bound is not None:
        axis.axvline(bound, color=SENTINELS["ink"], linestyle=(0, (5, 3)), linewidth=1.2)
    title = "False verdicts"
    text = "; ".join(f"{name}: {numbers.percent(rate)}" for name, rate in known)
    text += f"; bound {numbers.percent(bound)}." if bound is not None else "."
    caption = (
        "Broken line: the bound for both together, which chance alone would explain. "
        f"From {numbers.number(record.get('resamples'))} resampled comparisons."
    )
    body = [[name, numbers.percent(rate)] for name, rate in known]
    body.append(["Bound", numbers.percent(bound)])
    table = Table("Rates of false verdicts", ["Verdict", "Rate"], body)
    return Picture("false-verdicts", title, text, element(figure, key, title, text), table, caption)


def correlation(run: LoadedRun, key: str) -> Picture | None:
    """Autocorrelation of the values in the order they were measured, with the bounds of pure noise."""
    ordered = sorted(run.counted, key=lambda record: finite(record.get("started")) or 0.0)
    values = np.array([v for v in (finite(record.get("value")) for record in ordered) if v is not None])
    given = (run.result.get("aa") or {}).get("autocorrelation")
    listed = isinstance(given, list)
    series = np.array([finite(value) or 0.0 for value in given]) if listed else autocorrelation(values)
    if not len(series):
        return None
    lags = np.arange(1, len(series) + 1)
    figure, (axis,) = canvas(1.9, left_in=0.7)
    if len(values):
        noise = 1.96 / math.sqrt(len(values))
        axis.axhspan(-noise, noise, color=SENTINELS["band"], linewidth=0)
    axis.axhline(0, color=SENTINELS["muted"], linewidth=1)
    axis.vlines(lags, 0, series, color=SENTINELS["arm-1"], linewidth=2.4)
    axis.plot(lags, series, "o", color=SENTINELS["arm-1"], markersize=5)
    axis.set_ylim(min(-0.3, float(series.min()) * 1.1), max(0.6, float(series.max()) * 1.1))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axis.set_xlabel("runs apart")
    title = "Does a run resemble the one before?"
    text = f"Autocorrelation at lag 1: {series[0]:.2f}.".replace("-", numbers.MINUS)
    caption = (
        "Grey band: what independent runs would show. Bars above it: noise comes in spells, so interleaving matters."
    )
    rows = [[str(lag), f"{value:.2f}".replace("-", numbers.MINUS)] for lag, value in zip(lags, series, strict=True)]
    table = Table("Autocorrelation", ["Runs apart", "Correlation"], rows)
    return Picture("autocorrelation", title, text, element(figure, key, title, text), table, caption)


def smallest_effect(run: LoadedRun, key: str) -> Picture | None:
    """The smallest true effect the machine can see with a number of blocks."""
    record = (run.result.get("aa") or {}).get("smallest_effect_percent") or {}
    points = sorted((int(blocks), finite(effect)) for blocks, effect in record.items() if str(blocks).isdigit())
    known = [(blocks, effect) for blocks, effect in points if effect is not None]
    if not known:
        return None
    figure, (axis,) = canvas(1.9, left_in=0.8)
    axis.plot([b for b, _ in known], [e for _, e in known], "o-", color=SENTINELS["arm-1"], markersize=6)
    axis.set_xlim(0, known[-1][0] * 1.06)
    axis.set_ylim(0, max(e for _, e in known) * 1.15)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} %"))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_xlabel("blocks")
    title = "The smallest effect to be seen"
    rows = [[str(blocks), f"{numbers.number(effect)} %"] for blocks, effect in known]
    text = "; ".join(f"{effect} with {blocks} blocks" for blocks, effect in rows) + "."
    table = Table("The smallest effect by number of blocks", ["Blocks", "Effect"], rows)
    caption = "More blocks see smaller effects; below the line a difference is likely to stay INCONCLUSIVE."
    return Picture("smallest-effect", title, text, element(figure, key, title, text), table, caption)
