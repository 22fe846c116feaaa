"""Usually better, rarely but badly worse: how bad the worst half, tenth, hundredth of an arm's runs are.

May import: distribution, series, svg, answers, numbers, words, model, palette.
"""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from hakmem_lab.judge import words
from hakmem_lab.show import answers
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.pictures.distribution import scale
from hakmem_lab.show.report.series import Floats, values_by_arm
from hakmem_lab.show.report.svg import Picture, Table, arm_colour, arm_marker, canvas, element, label

SHARES = ((2, "half"), (10, "1 in 10"), (100, "1 in 100"), (1000, "1 in 1000"))


def tail(run: LoadedRun, key: str) -> Picture | None:
    """The worst share of the runs of each arm; only where the typical run and the mean of all runs disagree. Of
    requests the picture of their percentiles shows it."""
    arms = {arm: values for arm, values in values_by_arm(run).items() if len(values) > 1}
    if not answers.torn(run.result) or not arms or run.result.get("latency"):
        return None
    metric = run.result.get("metric") or {}
    unit, higher = metric.get("unit"), bool(metric.get("higher_is_better"))
    names = words.short_names(list(arms))
    figure, (axis,) = canvas(2.4, left_in=0.9, top_in=0.2 + 0.24 * len(arms))
    axis.set_xscale("log")
    everything = np.concatenate(list(arms.values()))
    scale(axis, float(everything.min()), float(everything.max()), which="y")
    for position, (arm, values) in enumerate(arms.items()):
        worst = _worst_first(values, higher)
        share = len(worst) / np.arange(1, len(worst) + 1)
        axis.plot(
            share, worst, color=arm_colour(position), marker=arm_marker(position), markersize=4, markevery=_rare(share),
            label=label(f"{names[arm]}, mean {numbers.measure(float(values.mean()), unit)}", 46),
        )  # fmt: skip
    longest = max(len(values) for values in arms.values())
    places = [(x, text) for x, text in SHARES if x <= longest]
    axis.xaxis.set_major_locator(FixedLocator([x for x, _ in places]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticklabels([text for _, text in places])
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value, unit)))
    axis.set_xlabel("the worst share of the runs begins at")
    figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    rows = [[arm, *(_cell(_worst_first(v, higher), x, unit) for x, _ in places), numbers.measure(float(v.mean()), unit)]
            for arm, v in arms.items()]  # fmt: skip
    title = "The rare runs"
    description = "; ".join(f"{row[0]}: half {row[1]}, mean {row[-1]}" for row in rows) + "."
    caption = "To the right rarer, worse runs: where the lines cross, the arm that is usually better becomes the worse."
    table = Table(f"{run.metric_name}: half of the runs, a tenth, … are this bad or worse",
                  ["Arm", *(text for _, text in places), "Mean"], rows)  # fmt: skip
    return Picture("tail", title, description, element(figure, key, title, description), table, caption)


def _rare(share: Floats) -> slice:
    """Which runs get a dot: the rare ones; the others stand too close."""
    return slice(0, int((share >= SHARES[1][0]).sum()))


def _worst_first(values: Floats, higher_is_better: bool) -> Floats:
    return np.sort(values) if higher_is_better else np.sort(values)[::-1]


def _cell(worst_first: Floats, share: int, unit: object) -> str:
    """The best of the worst 1 / share of the runs; unknown where there are too few runs for one."""
    count = len(worst_first) // share
    return numbers.measure(float(worst_first[count - 1]), unit) if count else numbers.UNKNOWN
