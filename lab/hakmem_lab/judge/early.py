"""The first estimate of a comparison, from its first blocks, long before a verdict is possible. Pure.

So few blocks give no interval at any useful level. The sentences therefore claim nothing about other runs: they give
the estimate, the range of single blocks, and changes that every block shows.
"""

from collections.abc import Sequence

from hakmem_lab.judge import words
from hakmem_lab.judge.analysis import log_ratios, metric_of
from hakmem_lab.judge.explain import BESIDE
from hakmem_lab.judge.statistics.paired import as_ratio, hodges_lehmann
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.store.query import Blocks, events

FIRST = 5  # blocks
QUICK = "quick"  # event: the run ended with its first estimate, as requested


def _seen(ratios: Sequence[float], metric: words.Described) -> words.Change | None:
    """The change, with the range of single blocks in place of an interval."""
    ends = {"estimate": hodges_lehmann(ratios), "ci_low": min(ratios), "ci_high": max(ratios)}
    return words.change({name: as_ratio(value) for name, value in ends.items()}, metric)


def estimate(header: dict, blocks: Blocks) -> list[str]:
    """A sentence for every arm, compared with the first one; the best arm first."""
    first, *others = (arm["name"] for arm in header["arms"])
    found = []
    for name in others:
        there = shared(blocks, first, name)
        ratios = log_ratios(there, first, name, metric_of(header)) if there else None
        if ratios:
            found.append((hodges_lehmann(ratios), _sentence(header, there, (first, name), ratios)))
    return [text for _, text in sorted(found, reverse=True)]


def _sentence(header: dict, blocks: Blocks, pair: tuple[str, str], ratios: Sequence[float]) -> str:
    metric, (control, treatment) = metric_of(header), pair
    change = _seen(ratios, metric.record())
    assert change is not None
    text = words.sentence(treatment, control, change)
    text += f" ({change.between} in single blocks)" if change.between else ""
    agreed = [found.text for name in BESIDE if name != metric.name and (found := _agreed(header, blocks, pair, name))]
    return f"{text}; in every block {words.listed(agreed)}" if agreed else text


def _agreed(header: dict, blocks: Blocks, pair: tuple[str, str], name: str) -> words.Change | None:
    """The change of another metric, if every block shows its direction and it is at least the margin."""
    ratios = log_ratios(blocks, *pair, Metric(name))
    change = _seen(ratios, name) if ratios and max(map(min, (ratios, [-r for r in ratios]))) > 0 else None
    matters = ratios and as_ratio(abs(hodges_lehmann(ratios))) >= header["spec"]["margin"]
    return change if matters else None


def title(count: int) -> str:
    return f"First estimate after {count} block{'s' * (count != 1)}, not yet decided"


def ended(result: dict, records: Sequence[dict]) -> dict:
    """The result of a run that ended with its first estimate; unchanged if blocks were added since."""
    stops = [event for event in events(records, QUICK) if event["phase"] == "measure"]
    if not stops or result["blocks"] > stops[-1]["blocks"]:
        return result
    more = f"Stopped there, as --quick asks; hak resume {result['id']} goes on to a verdict."
    said = [f"{text}." for text in stops[-1]["estimate"]]
    return result | {"withheld": title(result["blocks"]), "so_far": [*said, more]}
