"""Terminal tables of the kinds that have figures of their own."""

from .render import _add, _table, number


def _aa(aa: dict):
    table = _table("A/A", "what", "value")
    _add(table, "false verdicts", f"{100 * aa['rate']:.1f} % of {aa['resamples']} (at most {100 * aa['bound']:.1f} %)")
    _add(table, "noise of one run", f"{aa['noise_percent']:.2f} %")
    _add(table, "autocorrelation of neighbours", f"{aa['autocorrelation']:.2f}")
    for blocks, effect in aa["smallest_effect_percent"].items():
        _add(table, f"smallest effect, {blocks} blocks", f"{effect:.2f} %")
    yield table
    for text in aa["advice"]:
        yield f"- {text}"


TABLES = {"aa": _aa}
__all__ = ["TABLES", "number"]
