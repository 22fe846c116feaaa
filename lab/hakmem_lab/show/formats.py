"""Writes results for --json, --format and --output: as one object, or for other tools as a comment on a change,
annotations of a build, or a test report.

Every kind of result yields a list of judgements: a name, one of the four verdicts, and the reason.
"""

import importlib
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hakmem_lab.errors import one_line, refused
from hakmem_lab.judge import explain, unseen, words
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.show import figures, kinds, numbers
from hakmem_lab.show.kinds import tune
from hakmem_lab.store import runs
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Comparison, Result, Summary
from hakmem_lab.system import files

SUMMARY_KEYS = ("verdict", "final", "margin", "alpha", "blocks", "metric", "schedule", "question", "kind")
PARTS = [kind.part for kind in KINDS.values() if kind.part]
DETAIL_KEYS = ("comparisons", "conditions", "guardrails", "looks", "builds", "effects", "hidden", "selection", *PARTS,
               "scan", "limits", "money", "earlier", "failures", "warnings")  # fmt: skip


def summary(result: Result) -> Summary:
    """The object of --json: the first comparison's figures at the top level, everything else in nested keys."""
    first: Comparison = (result.get("comparisons") or [{}])[0]
    found: Record = {key: result.get(key) for key in SUMMARY_KEYS} | {**explain.explain(result).record()}
    found |= {key: first.get(key) for key in ("estimate", "ci_low", "ci_high", "level")}
    found |= {"slow_runs_unseen_one_in": unseen.one_in(result)}
    found |= {"arms": result.get("arms", []), "run": result["id"]}
    return cast(Summary, found | {key: result.get(key) for key in DETAIL_KEYS if key in result})


def write_text(text: str, path: Path, option: str, hint: str = "") -> None:
    """Writes the text. Raises LabError, which names the option that gave the path."""
    with refused(f"{option}: cannot write {path}", hint):
        files.write(path, text)


def write_object(found: object, path: Path, hint: str = "") -> None:
    """Writes one JSON object to the path of --json; - is standard output."""
    text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_text(text, path, "--json", hint)


def put(found: object, json_file: Path | None, show: Callable[[], None]) -> None:
    """Writes --json, then calls `show`, unless --json went to stdout. JSON comes first, since the reader of the other
    output may close it early."""
    if json_file is not None:
        write_object(found, json_file)
    if str(json_file) != "-":
        show()


GO, NEUTRAL, NO_GO, INCONCLUSIVE = VERDICTS = ("GO", "NEUTRAL", "NO-GO", "INCONCLUSIVE")
OF_GUARDRAIL = {"held": GO, "failed": NO_GO, "open": INCONCLUSIVE}


@dataclass(frozen=True)
class Judgement:
    """name: the judged thing, unique in its result. text: the figures, or the sentence of the whole result. schedule:
    that of the figures, if sides ran together."""

    name: str
    verdict: str
    text: str
    schedule: str = ""


def judgements(result: Result) -> list[Judgement]:
    """All judgements of a result. Where nothing was judged, one judgement says that there is no verdict."""
    whole = explain.explain(result).words
    found = [*_whole(result, whole), *_each(result), *_unjudged(result), *_guardrails(result)]
    own = (case for cases in kinds.of(result, "cases") for case in cases(result))
    found += [Judgement(name, verdict, figures or whole) for name, verdict, figures in own]
    return found or [Judgement(result["kind"], INCONCLUSIVE, whole)]


def _whole(result: Result, words: str) -> Iterator[Judgement]:
    """The verdict of the whole run, unless several comparisons were judged one by one."""
    if result["verdict"] and not _several(result):
        first = next(iter(result.get("comparisons") or []), None)
        names = f"{result['kind']}: {', '.join(arm['name'] for arm in result['arms'])}"
        name = f"{first['name']}: {figures.metric(result, first)}" if first else names
        yield Judgement(name, result["verdict"], words, figures.schedule(result, first))


def _several(result: Result) -> bool:
    """Whether several comparisons were judged one by one, so that the run's verdict is only the worst of them."""
    rows = result.get("comparisons") or []
    return len(result.get("unjudged") or []) + sum(bool(row.get("verdict")) for row in rows) > 1


def _unjudged(result: Result) -> Iterator[Judgement]:
    """Names without a comparison of their own, and why."""
    if _several(result):
        for name, why in result.get("unjudged") or []:
            yield Judgement(name, INCONCLUSIVE, why)


def _each(result: Result) -> Iterator[Judgement]:
    """The verdict of each arm or benchmark that is compared with the baseline."""
    for row in result.get("comparisons") or []:
        if (verdict := row.get("verdict")) and (not result["verdict"] or _several(result)):
            name = f"{row['name']}: {figures.metric(result, row)}"
            yield Judgement(name, verdict, figures.told(result, row), figures.schedule(result, row))


def _guardrails(result: Result) -> Iterator[Judgement]:
    """The guardrails; if there are several arms, each names its arm."""
    several = figures.of_several(result.get("guardrails") or [])
    for row in result.get("guardrails") or []:
        name = f"guardrail: {figures.metric(result, row)}" + (f" of {row['arm']}" if several else "")
        text = f"{figures.told(result, row)}, {row['status']}"
        yield Judgement(name, OF_GUARDRAIL[row["status"]], text, figures.schedule(result, row))


LEVELS = {NO_GO: "error", INCONCLUSIVE: "warning"}


def github(results: Sequence[Result]) -> str:
    lines = []
    for result in results:
        lines += [f"::warning title=hak::{_data(words)}\n" for words in result["warnings"]]
        for case in judgements(result):
            level = LEVELS.get(case.verdict, "notice")
            schedule = f", schedule {case.schedule}" if case.schedule else ""
            words = f"{case.text} (run {result['id']}{schedule})"
            title = _data(f"{case.verdict}: {case.name}").replace(":", "%3A").replace(",", "%2C")
            lines.append(f"::{level} title={title}::{_data(words)}\n")
    return "".join(lines)


def _data(words: str) -> str:
    """Text of a workflow command: one line, with percent signs escaped."""
    return one_line(words).replace("%", "%25")


def junit(results: Sequence[Result]) -> str:
    root = ET.Element("testsuites", name="hak")
    for result in results:
        _junit_suite(root, result)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_suite(root: ET.Element, result: Result) -> None:
    found, unfinished = judgements(result), result.get("incomplete") or []
    count = {verdict: sum(case.verdict == verdict for case in found) for verdict in (NO_GO, INCONCLUSIVE)}
    suite = ET.SubElement(
        root, "testsuite", name=f"hak {result['kind']}", tests=str(len(found) + len(unfinished)),
        errors=str(len(unfinished)), failures=str(count[NO_GO]), skipped=str(count[INCONCLUSIVE]),
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for name in ("id", "question", "blocks"):
        ET.SubElement(properties, "property", name=name, value=one_line(str(result[name])))
    for case in found:
        words = one_line(case.text)
        element = ET.SubElement(suite, "testcase", classname=f"hak.{result['kind']}", name=one_line(case.name))
        if case.verdict == NO_GO:
            ET.SubElement(element, "failure", type=NO_GO, message=words).text = words
        elif case.verdict == INCONCLUSIVE:
            ET.SubElement(element, "skipped", message=words)
        schedule = f" (schedule {case.schedule})" if case.schedule else ""
        ET.SubElement(element, "system-out").text = f"{case.verdict}: {words}{schedule}"
    for text in map(one_line, unfinished):
        element = ET.SubElement(suite, "testcase", classname=f"hak.{result['kind']}", name=text.partition(": ")[0])
        ET.SubElement(element, "error", type="unfinished", message=text).text = text


SHOWN_CARD_ROWS = 40


def markdown(results: Sequence[Result]) -> str:
    return "\n---\n\n".join("\n\n".join(_paragraphs(result)) + "\n" for result in results)


def plain(text: object) -> str:
    """Text with all Markdown characters escaped, on one line."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", one_line(str(text)))


def code(words: object, cell: bool = True) -> str:
    """Text of a program as code, so that no part becomes a link or a mention. cell: also escape bars, which would end a
    table's cell."""
    inner = one_line(str(words)).replace("|", "\\|" if cell else "|")
    fence = "`" * (max((len(run) for run in re.findall("`+", inner)), default=0) + 1)
    return f"{fence} {inner} {fence}" if "`" in inner else f"`{inner}`"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table if there are rows. The first column holds words, the others hold figures."""
    if rows:
        first, *others = ("| " + " | ".join(row) + " |" for row in (heads, *rows))
        yield "\n".join([first, "| --- |" + " ---: |" * (len(heads) - 1), *others])


def _paragraphs(result: Result) -> Iterator[str]:
    said = explain.explain(result)
    yield f"### {f'{said.verdict}: ' if said.verdict else ''}{plain(said.headline)}"
    if said.reasons:
        yield plain(" ".join(said.reasons))
    worst, *others = [*result["warnings"], *said.caveats] or [""]
    yield from (f"Warning: {plain(text)}" for text in [worst] if text)
    if result["question"]:
        yield f"*{plain(result['question'])}*"
    yield from _comparisons(result)
    yield from _effects(result)
    yield from _judged(result)
    for where, line in tune.service_lines(result):
        yield f"{plain(where)} {code(line, cell=False)}"
    yield f"<details><summary>Run {result['id']}, {result['blocks']} blocks</summary>"
    yield from _arms(result)
    yield from _notes(result, others)
    yield "</details>"


def _comparisons(result: Result) -> Iterator[str]:
    rows = result.get("comparisons") or []
    if rows:
        head = f"against {code(rows[0]['control'])}, {100 * (rows[0]['level'] or 0.0):.4g} % interval"
        (effects, note), schedules = figures.told_cells(result, rows), figures.schedules(result)
        heads = ["side", "metric", head, "verdict", *(["schedule"] if any(schedules) else [])]
        cells = [
            [code(row["treatment"]), plain(figures.metric(result, row)), plain(effect), row.get("verdict") or ""]
            + ([schedule] if any(schedules) else [])
            for row, effect, schedule in zip(rows, effects, schedules, strict=True)
        ]
        yield from table(heads, cells)
        yield from filter(None, [note])


def _effects(result: Result) -> Iterator[str]:
    rows = result.get("effects") or []
    yield from table(
        ("effect", "kind", "size and interval", "reading"),
        [(plain(row["name"]), row["kind"], plain(figures.told(result, row)), row["reading"] or "") for row in rows],
    )


def _judged(result: Result) -> Iterator[str]:
    """Judgements other than the headline: guardrails, and the bars of a suite."""
    rows = [row for row in judgements(result) if row.text != explain.explain(result).words]
    if result.get("guardrails") or result.get("suite"):
        shown = [(plain(row.name), plain(row.text), row.verdict) for row in rows]
        yield from table(("judged", "figures", "verdict"), shown[:SHOWN_CARD_ROWS])
        if len(shown) > SHOWN_CARD_ROWS:
            yield f"and {len(shown) - SHOWN_CARD_ROWS} more"


def _arms(result: Result) -> Iterator[str]:
    heads, rows = figures.arms_table(result)
    rows, more = tune.foremost(result, rows, "name")
    cells = [(code(arm["name"]), *figures.arm_figures(result, arm, _figure, numbers.measure)) for arm in rows]
    yield from table(("median of", *map(plain, heads)), cells)
    if more:
        yield plain(more)


def _figure(value: object, unit: str) -> str:
    if unit == "s":
        return numbers.seconds(value)
    return numbers.memory(value) if unit == "KiB" else numbers.number(value)


def _notes(result: Result, warnings: Sequence[str]) -> Iterator[str]:
    notes = [f"- warning: {plain(text)}" for text in warnings]
    notes += [f"- {plain(text)}" for text in tune.notes(result)]
    if builds := words.builds(result):
        notes.append(f"- {plain(builds)}")
    if failures := result["failures"]:
        first = failures[0]
        notes.append(
            f"- {len(failures)} failed run{'s' * (len(failures) != 1)}, the first: "
            f"{code(first['arm'], False)}: {code(first['why'], False)}"
        )
    if notes:
        yield "\n".join(notes)


WRITERS = {"markdown": markdown, "junit": junit, "github": github}
FORMATS = (*WRITERS, "openmetrics", "json")


def write_json(result: Result, path: Path) -> None:
    write_object(runs.plain(summary(result)), path, f"; the result is kept: hak runs show {result['id']}")


def write_format(results: Sequence[Result], name: str) -> None:
    """Writes the results to standard output in one of FORMATS; JSON has one object a result."""
    if name == "json":
        for result in results:
            write_json(result, Path("-"))
    else:
        sys.stdout.write(text(name, results))


def text(name: str, results: Sequence[Result]) -> str:
    """The results in the named format. An infinite end of an interval is left open."""
    written = WRITERS.get(name) or importlib.import_module("hakmem_lab.show.openmetrics").openmetrics
    found: Any = runs.plain(list(results))
    return written(found)
