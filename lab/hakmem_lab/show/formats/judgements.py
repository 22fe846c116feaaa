"""What a result judges, whatever its kind: a name, one of the four verdicts, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from hakmem_lab.show import answers

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
        found.append(Judgement("this machine", GO if aa["fit"] else NO_GO, sentence(result)))
    return found or [Judgement(result["kind"], INCONCLUSIVE, sentence(result))]


def sentence(result: dict) -> str:
    """The answer and what is to be said besides, without the verdict's word."""
    return answers.in_one_line(result | {"verdict": None})


def _whole(result: dict) -> Iterator[Judgement]:
    """The verdict that the run has as a whole."""
    if result["verdict"]:
        first = (result.get("comparisons") or [None])[0]
        name = f"{first['name']}: {answers.metric(result, first)}" if first else _subject(result)
        yield Judgement(name, result["verdict"], sentence(result))


def _subject(result: dict) -> str:
    return f"{result['kind']}: {', '.join(arm['name'] for arm in result['arms'])}"


def _each(result: dict) -> Iterator[Judgement]:
    """Of several arms against one, each has a verdict of its own."""
    for row in result.get("comparisons") or []:
        if row.get("verdict") and not result["verdict"]:
            name = f"{row['name']}: {answers.metric(result, row)}"
            yield Judgement(name, row["verdict"], answers.told(result, row))


def _guardrails(result: dict) -> Iterator[Judgement]:
    """Where several arms have them, each names its arm."""
    for row in result.get("guardrails") or []:
        name = f"guardrail: {answers.metric(result, row)}" + (f" of {row['arm']}" if "arm" in row else "")
        yield Judgement(name, OF_GUARDRAIL[row["status"]], f"{answers.told(result, row)}, {row['status']}")


def _card(result: dict) -> Iterator[Judgement]:
    """The bars and guardrails of a suite; one that the interval holds is open."""
    for row in (result.get("suite") or {}).get("rows", []):
        if row["verdict"]:
            text = f"{row['measured']}, to reach: {row['to_reach']}"
            yield Judgement(
                f"{row['workload']}: {row['metric']} {row['to_reach']}", OF_BAR.get(row["verdict"], INCONCLUSIVE), text
            )
