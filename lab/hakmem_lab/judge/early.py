"""The first estimate of a comparison, from its first blocks, long before a verdict is possible. Pure.

So few blocks give no interval at any useful level. The sentences therefore claim nothing about other runs: they give
the estimate, the range of single blocks, and changes that every block shows. One or two blocks give no estimate. Where
the sides share a processor, each round of a block is steady by itself and counts as one.
"""

from collections.abc import Sequence

from hakmem_lab.judge import words
from hakmem_lab.judge.analysis import described, log_ratios, metric_of
from hakmem_lab.judge.statistics.paired import as_ratio, hodges_lehmann
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.plan import schedule
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result

FIRST, LEAST = 5, 3  # blocks with which a quick run ends; below LEAST there is no estimate
SHARED = 2  # blocks of a shared schedule, and so four rounds, before the first estimate of a run that goes on
QUICK_S = 30.0  # from the command's start to the last block of a quick run
QUICK = "quick"  # event: the run ended with its first estimate, as requested


def _single(blocks: Blocks) -> tuple[Blocks, str]:
    """(what gives one ratio each, its name): the blocks, or their rounds if the sides of each ran at the same time."""
    runs = [run for block in blocks for each in block.values() for run in each]
    if not all(run.get("schedule") in schedule.MEASURES for run in runs):
        return blocks, "block"
    rounds = range(schedule.ROUNDS)
    return [{name: each[at : at + 1] for name, each in block.items()} for block in blocks for at in rounds], "round"


def _seen(ratios: Sequence[float], metric: words.Described) -> words.Change | None:
    """The change, with the range of single blocks in place of an interval."""
    estimate, low, high = map(as_ratio, (hodges_lehmann(ratios), min(ratios), max(ratios)))
    return words.change({"estimate": estimate, "ci_low": low, "ci_high": high}, metric)


def estimate(header: Record, blocks: Blocks) -> list[str]:
    """A sentence for every arm that has enough blocks, compared with the first one; the best arm first."""
    first, *others = (arm["name"] for arm in header["arms"])
    found = []
    for name in others:
        there, noun = _single(shared(blocks, first, name))
        ratios = log_ratios(there, first, name, metric_of(header)) if len(there) >= LEAST else None
        if ratios:
            found.append((hodges_lehmann(ratios), _sentence(header, there, noun, (first, name), ratios)))
    return [text for _, text in sorted(found, reverse=True)]


def _sentence(header: Record, blocks: Blocks, noun: str, pair: tuple[str, str], ratios: Sequence[float]) -> str:
    metric, (control, treatment) = metric_of(header), pair
    change = _seen(ratios, described(metric, blocks, control))
    assert change is not None
    text = words.sentence(treatment, control, change, of=f"in single {noun}s")
    others = [name for name in words.BESIDE if name != metric.name]
    agreed = [f"{found.noun}{found.short}" for name in others if (found := _agreed(header, blocks, pair, name))]
    return f"{text}, in every {noun} {words.listed(agreed)}" if agreed else text


def _agreed(header: Record, blocks: Blocks, pair: tuple[str, str], name: str) -> words.Change | None:
    """The change of another metric, if every block shows its direction and it is at least the margin."""
    ratios = log_ratios(blocks, *pair, Metric(name))
    change = _seen(ratios, name) if ratios and max(map(min, (ratios, [-r for r in ratios]))) > 0 else None
    matters = ratios and as_ratio(abs(hodges_lehmann(ratios))) >= header["spec"]["margin"]
    return change if matters else None


def title(blocks: Blocks) -> str:
    if len(_single(blocks)[0]) >= LEAST:
        return f"First estimate after {len(blocks)} blocks, still undecided"
    runs = min(sum(len(block.get(name, ())) for block in blocks) for name in {*blocks[0]})
    return f"{runs} run{'s' * (runs != 1)} each: no estimate yet"


def left_to_resume(names: Sequence[str]) -> list[str]:
    """The sentence about sides that a quick run had no time to run; empty if there are none."""
    return [f"Not run yet, since {QUICK_S:g} s are too few for all sides: {words.listed(names)}"] if names else []


def ended(result: Result, records: Sequence[Record]) -> Result:
    """The result of a run that ended with its first estimate; unchanged if blocks were added since."""
    stops = [event for event in events(records, QUICK) if event["phase"] == "measure"]
    if not stops or result["blocks"] > stops[-1]["blocks"]:
        return result
    more = f"Stopped there, as --quick asks; hak runs resume {result['id']} goes on to a verdict."
    said = [f"{text}." for text in stops[-1]["estimate"]]
    return result | {"withheld": stops[-1]["text"], "so_far": [*said, more]}
