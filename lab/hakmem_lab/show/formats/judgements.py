"""What a result judges, whatever its kind: a name, one of the four verdicts, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from hakmem_lab.show.report import numbers

GO, NEUTRAL, NO_GO, INCONCLUSIVE = VERDICTS = ("GO", "NEUTRAL", "NO-GO", "INCONCLUSIVE")
OF_GUARDRAIL = {"held": GO, "failed": NO_GO, "open": INCONCLUSIVE}
OF_BAR = {"pass": GO, "miss": NO_GO}


@dataclass(frozen=True)
class Judgement:
    """name: what is judged, unique in its result. text: the figures, or the sentence."""

    name: str
    verdict: str
    text: str


def judgements(result: dict) -> list[Judgement]:
    """All of a result; one that says that there is no verdict where nothing was judged."""
    found = [*_whole(result), *_each(result), *_guardrails(result), *_card(result)]
    if aa := result.get("aa"):
        found.append(Judgement("this machine", GO if aa["fit"] else NO_GO, result["headline"]))
    return found or [Judgement(result["kind"], INCONCLUSIVE, result["headline"])]


def _whole(result: dict) -> Iterator[Judgement]:
    """The verdict that the run has as a whole."""
    if result["verdict"]:
        first = (result.get("comparisons") or [None])[0]
        name = f"{first['name']}: {metric_name(first['metric'])}" if first else _subject(result)
        yield Judgement(name, result["verdict"], result["headline"])


def _subject(result: dict) -> str:
    return f"{result['kind']}: {', '.join(arm['name'] for arm in result['arms'])}"


def _each(result: dict) -> Iterator[Judgement]:
    """Of several arms against one, each has a verdict of its own."""
    for row in result.get("comparisons") or []:
        if row.get("verdict") and not result["verdict"]:
            name = f"{row['name']}: {metric_name(row['metric'])}"
            yield Judgement(name, row["verdict"], numbers.estimate(row))


def _guardrails(result: dict) -> Iterator[Judgement]:
    """Where several arms have them, each names its arm."""
    for row in result.get("guardrails") or []:
        name = f"guardrail: {metric_name(row['metric'])}" + (f" of {row['arm']}" if "arm" in row else "")
        yield Judgement(name, OF_GUARDRAIL[row["status"]], f"{numbers.estimate(row)}, {row['status']}")


def _card(result: dict) -> Iterator[Judgement]:
    """The bars of a scorecard; one that the interval holds is open."""
    for row in (result.get("scorecard") or {}).get("rows", []):
        if row["verdict"]:
            text = f"{row['measured']}, to reach: {row['to_reach']}"
            yield Judgement(
                f"{row['workload']}: {row['metric']} {row['to_reach']}", OF_BAR.get(row["verdict"], INCONCLUSIVE), text
            )


def metric_name(metric: str) -> str:
    """A pattern is too long for a name."""
    return "output" if metric.startswith("regex:") else metric
