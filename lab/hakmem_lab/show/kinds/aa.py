"""One arm against itself: is the machine fit, and which effects can it show?"""

from collections.abc import Iterator

from hakmem_lab.show import numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.openmetrics import PERCENT, Sample
from hakmem_lab.show.terminal import filled
from hakmem_lab.store.results import Aa, Result

BUSY = "Other programs were at work"


def false_rates(machine: Aa) -> dict[str, float]:
    """Shares of false GO and NO-GO in an A/A test. `machine` has them as shares, or as counts of resamples."""
    resamples = finite(machine.get("resamples"))
    rates = {}
    for name, key in (("False GO", "false_go"), ("False NO-GO", "false_no_go")):
        value = finite(machine.get(key))
        if value is not None:
            rates[name] = value / resamples if isinstance(machine.get(key), int) and resamples else value
    return rates


def facts(result: Result) -> Iterator[tuple[str, str]]:
    machine = result["aa"]
    rates = [numbers.percent(rate) for rate in (*false_rates(machine).values(), machine.get("bound"))]
    yield "False GO, false NO-GO", ", ".join(rates[:2])
    yield "False verdicts allowed", f"at most {rates[-1]}"
    if finite(machine.get("noise_percent")) is not None:
        yield "Noise of one run", f"{numbers.number(machine['noise_percent'])} %"


def tables(result: Result) -> Iterator[object]:
    aa = result["aa"]
    rows = [
        ("false verdicts", f"{100 * aa['rate']:.1f} % of {aa['resamples']} (at most {100 * aa['bound']:.1f} %)"),
        ("noise of one run", f"{aa['noise_percent']:.2f} %"),
        ("autocorrelation of neighbours", f"{aa['autocorrelation']:.2f}"),
    ]
    effects = aa["smallest_effect_percent"].items()
    rows += [(f"smallest effect, {blocks} blocks", f"{effect:.2f} %") for blocks, effect in effects]
    yield from filled("A/A", ("what", "value"), rows)
    for text in aa["advice"]:
        yield f"- {text}"


def cases(result: Result) -> Iterator[tuple[str, str, str]]:
    yield "this machine", "GO" if result["aa"]["fit"] else "NO-GO", ""


def samples(result: Result) -> Iterator[Sample]:
    yield Sample("hak_aa_false_verdicts_ratio", {}, result["aa"]["rate"])
    yield Sample("hak_aa_noise_ratio", {}, result["aa"]["noise_percent"] * PERCENT)
