"""The tables of the report, as text: numbers, arms, environment, failures; the facts beside a verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from hakmem_lab.judge import explain
from hakmem_lab.show import figures, kinds, numbers, tables
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.model import LoadedRun, Table, text_of, verdict_cell
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result

FAILURE_ROWS = 200


def _texts(caption: str, columns: dict[str, str], records: Sequence[Mapping[str, Any]]) -> Table:
    """columns: heading -> key; each record has a text under that key."""
    return Table(caption, list(columns), [[text_of(each.get(key)) for key in columns.values()] for each in records])


def _looks(result: Result) -> Table:
    rows = [
        [f"{text_of(look.get('look'))} of {text_of(look.get('of'))}", numbers.number(look.get("blocks")),
         *figures.cells(result, look), verdict_cell(look.get("verdict"))]
        for look in result.get("looks") or []
    ]  # fmt: skip
    return Table("Planned looks", ["Look", "Blocks", "Change", "Interval", "Verdict"], rows)


def findings(run: LoadedRun) -> list[Table]:
    result = run.result
    found = [*tables.of(result), _looks(result)]
    found += [table for tables_of in kinds.of(result, "findings") for table in tables_of(result)]
    return [table for table in found if table]


def arms(run: LoadedRun) -> list[Table]:
    """The medians of each arm, and its version, library, hash and settings."""
    return [table for table in (_medians(run), _identities(run)) if table]


_MEASURES = (
    ("wall_s", "Time", "s"),
    ("cpu_s", "CPU", "s"),
    ("rss_peak_kib", "Peak memory", "KiB"),
    ("rss_mean_kib", "Mean memory", "KiB"),
    ("rss_area_kib_s", "Memory × time", "KiB s"),
    ("minor_faults", "Minor faults", ""),
    ("major_faults", "Major faults", ""),
)


def _medians(run: LoadedRun) -> Table:
    """The median of each measure with its interval. A measure that no arm has is left out."""
    measured = run.result.get("arms") or []
    unit = (run.result.get("metric") or {}).get("unit")
    columns, rows = ["Side", "Runs"], [[text_of(arm.get("name")), numbers.number(arm.get("n"))] for arm in measured]
    # A figure that the program prints has no other column.
    if str((run.result.get("metric") or {}).get("name")) not in ("wall", "cpu", "rss", "rss-mean"):
        columns.append(f"{run.metric_name}, median")
        for row, arm in zip(rows, measured, strict=True):
            row.append(numbers.between(arm.get("median"), arm.get("ci_low"), arm.get("ci_high"), unit))
    for name, title, its_unit in _MEASURES:
        columns.append(title)
        for row, arm in zip(rows, measured, strict=True):
            ends = (arm.get("intervals") or {}).get(name) or (None, None)
            row.append(numbers.between(arm.get(name), ends[0], ends[1], its_unit))
    table = tables.known(Table("Medians by side, with 95\u202f% intervals", columns, rows))
    return table if len(table.columns) > 1 else Table(table.caption, [], [])


def _identities(run: LoadedRun) -> Table:
    by_name = {str(arm.get("name")): arm for arm in run.header.get("arms") or []}
    for arm in run.result.get("arms") or []:
        kept = {key: value for key, value in arm.items() if value is not None}
        by_name[str(arm.get("name"))] = by_name.get(str(arm.get("name")), {}) | kept
    columns = {"Side": "name", "Allocator": "allocator", "Version": "version", "Settings": "settings",
               "Configuration": "configuration", "Library": "library", "SHA-256 of the library": "sha256"}  # fmt: skip
    arms = [arm | {"name": name, "settings": _settings(arm)} for name, arm in by_name.items()]
    return tables.known(_texts("What was measured", columns, arms))


def _settings(arm: Record) -> str:
    settings = (arm.get("variables") or {}) | (arm.get("gates") or {})
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "none"


_MACHINE_NAMES = {
    "cpu": "Processor",
    "memory_mib": "Memory, MiB",
    "thp": "Transparent huge pages",
    "aslr": "Address space randomisation",
    "page_bytes": "Page, bytes",
    "load_1m": "Load at the start (1 min)",
    "steal_percent": "Steal, %",
}


def environment(run: LoadedRun) -> Table:
    """Facts about the machine, the command, the build and the revision, as name and value."""
    header = run.header
    rows = [
        [_MACHINE_NAMES.get(name, name.replace("_", " ").capitalize()), _fact(value)]
        for name, value in (header.get("machine") or {}).items()
    ]
    command, git, build = (header.get(name) or {} for name in ("command", "git", "build"))
    extra = {
        "Program": command.get("program"),
        "SHA-256 of the program": command.get("sha256"),
        "Revision": (str(git.get("revision")) + (" with changes" if git.get("dirty") else "")) if git else None,
        "Build": ", ".join(f"{name} {value}" for name, value in build.items() if value) or None,
        "Laboratory": header.get("lab_version"),
        "Seed": header.get("seed"),
        "Hash of the specification": header.get("spec_hash"),
        "Started": header.get("created"),
    }
    rows += [[name, _fact(value)] for name, value in extra.items() if value is not None]
    return Table("The machine and the build", ["Fact", "Value"], rows)


def _fact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return text_of(value)


def failures(run: LoadedRun) -> Table:
    """Failed runs with the reason, at most FAILURE_ROWS of them; the caption says how many there were."""
    records: Sequence[Mapping[str, Any]] | None = run.result.get("failures")
    if records is None:
        records = [record for record in run.runs if record.get("ok") is False]
    caption = f"Failed runs: {len(records)}, their records kept"
    if len(records) > FAILURE_ROWS:
        caption += f"; the first {FAILURE_ROWS} are shown"
    return _texts(caption, {"Block": "block", "Side": "arm", "Why": "why"}, records[:FAILURE_ROWS])


def events(run: LoadedRun) -> Table:
    """Events of the run: interruptions, load and others."""
    columns = {"Time": "time", "What": "what", "Text": "text"}
    return _texts("What happened while it ran", columns, run.events[:FAILURE_ROWS])


def decisions(run: LoadedRun) -> Table:
    return _texts("Decisions", {"Time": "time", "Who": "who", "Decision": "text"}, run.decisions)


EARLIER_NAMED = 5


def facts(run: LoadedRun) -> list[tuple[str, str]]:
    """The few numbers beside the verdict, as (name, text)."""
    result = run.result
    shown: list[tuple[str, str]] = []
    comparison = explain.lead(result)
    single = len(result.get("comparisons") or []) == 1 or result.get("verdict") or "selection" in result
    found = explain.change_of(result, comparison) if comparison and single else None
    if comparison and found:
        level = finite(comparison.get("level"))
        name = "Interval" if level is None else f"{level * 100:.3g}{numbers.THIN}% interval"
        shown.append(("Change", f"{found.noun}{found.short}"))
        shown.append((name, found.interval or "too few blocks for one"))
    shown += [fact for facts_of in kinds.of(result, "facts") for fact in facts_of(result)]
    if finite(result.get("margin")) is not None and (result.get("comparisons") or result.get("effects")):
        shown.append(("Margin that matters", f"±{explain.margin_text(result)}"))
    metric = result.get("metric") or {}
    if metric.get("name"):
        better = "higher is better" if metric.get("higher_is_better") else "lower is better"
        shown.append(("Metric", f"{run.metric_name} ({better})"))
    if (finite(result.get("blocks")) or 0) > 1:
        most = finite(result.get("max_blocks"))
        shown.append(("Blocks", numbers.number(result["blocks"]) + (f" of {numbers.number(most)}" if most else "")))
    return shown


def earlier(run: LoadedRun) -> str:
    """A note on earlier runs of the same question: each was another chance for a false verdict."""
    header = run.header
    before = header.get("earlier") or header.get("earlier_runs")
    known = before if isinstance(before, (list, tuple)) else ()
    count = len(known) or finite(before)
    if not count:
        return ""
    named = ", ".join(map(_try, known[:EARLIER_NAMED]))
    more = f" and {len(known) - EARLIER_NAMED} more" if len(known) > EARLIER_NAMED else ""
    times = f"{count:.0f} earlier run{'s' if count > 1 else ''} of the same question"
    return f"{times}{f' ({named}{more})' if named else ''}: of many tries one looks good by chance."


def _try(each: object) -> str:
    """An earlier run: its id, with the verdict where it is known."""
    if not isinstance(each, dict):
        return str(each)
    return f"{each.get('id')}: {each.get('verdict') or 'no verdict'}"
