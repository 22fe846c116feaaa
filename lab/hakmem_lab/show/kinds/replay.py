"""A replay: its predictions for the live program, and how they compare with live runs."""

from collections.abc import Iterator

from hakmem_lab.judge.words import change as change_of
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.model import Table
from hakmem_lab.show.terminal import filled, number, traced
from hakmem_lab.store.results import Prediction, Ranking, Replay, Result, Stacks

STACK_COLUMNS = ("where", "side", "of a block [95 % interval]", "effect", "gained", "verdict")
TITLES = {"wall": "wall", "cpu": "CPU", "rss": "peak RSS"}


def tables(result: Result) -> Iterator[object]:
    """The replayed operations, the predictions, and whether the arms rank as in the live runs."""
    found = result["replay"]
    yield replayed(found)
    if (stacks := found.get("stacks")) and stacks["rows"]:
        yield from filled(stacks_title(stacks), STACK_COLUMNS, stack_rows(stacks))
    if found["base"] is None:
        yield _no_base(found)
        return
    if found["touch"] != "recorded" and not found["live"]:
        yield f"no prediction for the live program: it touched its memory otherwise than --touch {found['touch']} does"
        return
    yield from _predictions(found)
    for quantity in found["quantities"]:
        if ranking := quantity["ranking"]:
            yield ranked(TITLES[quantity["name"]], ranking)


def stacks_title(stacks: Stacks) -> str:
    left = f"; {traced.many(stacks['left_out'], 'stack')} with less left out" if stacks["left_out"] else ""
    level = f"{100 * stacks['level']:.4g} %"
    return f"By stack, a block's allocation and free, against {stacks['control']} [{level} interval]{left}"


def stack_rows(stacks: Stacks) -> Iterator[list[str]]:
    """A row of text for each stack and arm; only the first row of a stack names it."""
    for row in stacks["rows"]:
        where = traced.called(row["frames"])
        for arm in row["arms"]:
            cost = number(arm["ns"] / 1e9, "s")
            low, high = finite(arm["low"]), finite(arm["high"])
            if low is not None and high is not None:
                cost += f" [{number(low / 1e9, 's')}, {number(high / 1e9, 's')}]"
            change = change_of(arm, "cpu")
            told = (change.told(), number(arm["gain_s"], "s"), str(arm["verdict"])) if change else ("", "", "")
            yield [where, arm["arm"], cost, *told]
            where = ""


def replayed(found: Replay) -> str:
    processes = found["processes"] or []
    operations = sum(each["operations"] for each in processes)
    threads = sum(each["threads"] for each in processes)
    text = f"replayed: {traced.many(operations, 'operation')} of {traced.many(threads, 'thread')}"
    text += f" in {traced.many(len(processes), 'process', 'processes')}"
    if found["left_out"]:
        left = traced.many(found["left_out"], "process", "processes")
        text += f"; left out: {left} with {found['left_out_operations']:,} operations"
    for key, words in (("skipped", "frees of blocks that are not in the trace"),
                       ("unordered", "waits for what the trace lacks")):  # fmt: skip
        if count := sum(each[key] for each in processes):
            text += f"; {count:,} {words}"
    return text


def _no_base(found: Replay) -> str:
    served = {each["allocator"].rpartition("/")[2] or "glibc" for each in found["recorded"]["processes"]}
    names = " and ".join(sorted(served)) or "its allocator"
    return f"no prediction for the live program: {names}, which served it when it was recorded, is not among the sides"


def _predictions(found: Replay) -> Iterator[object]:
    live = found["live"]
    heads = ["side", "metric", "predicted [95 % interval]", *(["live", "error"] if live else [])]
    told = "beside what it is" if live else f"from what it was on {found['base']} when it was recorded"
    yield from filled(f"The live program as the replay predicts it, {told}", heads, predictions(found))


def predictions(found: Replay) -> list[list[str]]:
    return [
        [row["arm"], TITLES[quantity["name"]], *cells(row, quantity["unit"], bool(found.get("live")))]
        for quantity in found.get("quantities", [])
        for row in quantity["rows"]
    ]


def cells(row: Prediction, unit: str, live: bool) -> list[str]:
    """The prediction; with live runs also their value and the prediction's error."""
    interval = f"{number(row['predicted'], unit)} [{number(row['low'], unit)}, {number(row['high'], unit)}]"
    if row["base"]:
        return [number(row["predicted"], unit), *(["the base", ""] if live else [])]
    if not live:
        return [interval]
    outside = "" if row["inside"] else ", outside"
    return [interval, number(row["live"], unit), f"{100 * row['error']:+.1f} %{outside}"]


def ranked(title: str, ranking: Ranking) -> str:
    agree, contrary, unsure = len(ranking["agree"]), ranking["contrary"], len(ranking["unsure"])
    chance = f"; {traced.many(unsure, 'pair')} more may do so by chance" if unsure else ""
    if not agree and not contrary:
        return f"order by {title}: no two sides differ by more than 3 % live{chance}"
    pairs = f"of {traced.many(agree + len(contrary), 'pair')} of sides that differ by more than 3 % live"
    if not contrary:
        return f"order by {title}: as live, {pairs} all{chance}"
    wrong = ", ".join(" and ".join(pair) for pair in contrary)
    return f"order by {title}: {pairs}, {len(contrary)} the other way round: {wrong}{chance}"


def findings(result: Result) -> Iterator[Table]:
    """The predictions for the live program, beside the live values where it was run."""
    found = result["replay"]
    live = bool(found.get("live"))
    columns = ["Side", "Metric", "Predicted [95 % interval]", *(["Live", "Error"] if live else [])]
    yield Table("The live program as the replay predicts it", columns, predictions(found))
    if (stacks := found.get("stacks")) and stacks["rows"]:
        yield Table(stacks_title(stacks), [*STACK_COLUMNS], [*stack_rows(stacks)])
