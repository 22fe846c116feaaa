"""The tables of the report, as text: numbers, arms, environment, failures.

May import: model, numbers, svg (for Table), pictures (for names of rows), terminal.replay (for its cells).
"""

from __future__ import annotations

from dataclasses import dataclass

from hakmem_lab.show import answers, hosts
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun, Record
from hakmem_lab.show.report.numbers import UNKNOWN, finite
from hakmem_lab.show.report.pictures.effects import comparison_name
from hakmem_lab.show.report.pictures.scores import figure_text, ratio_text, row_arms, row_name
from hakmem_lab.show.report.svg import Table
from hakmem_lab.show.terminal import replay as replays

FAILURE_ROWS = 200


@dataclass(frozen=True)
class Cell:
    """A cell that is also tinted; its text says the same without the tint."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


_TONES = {"GO": "go", "NO-GO": "no-go", "NEUTRAL": "neutral", "INCONCLUSIVE": "inconclusive", "open": "inconclusive"}
_STATUS = {"held": ("✓ held", "go"), "failed": ("✕ failed", "no-go"), "open": ("? open", "inconclusive")}


def _text(value: object) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


def _verdict_cell(word: object) -> str | Cell:
    """A verdict, or a suite's pass, miss or open; a ~ says that the target lies inside the interval."""
    text = str(word or "")
    tone = _TONES.get(text)
    for start, mark, meaning in (("pass", "✓", "go"), ("miss", "✕", "no-go")):
        if text.startswith(start):
            text, tone = f"{mark} {text}", "inconclusive" if "~" in text else meaning
    return Cell(text, tone) if tone else _text(word)


def _comparisons(result: Record) -> Table | None:
    records = result.get("comparisons") or []
    rows = [
        [
            comparison_name(c),
            answers.metric(result, c),
            *_told(result, c),
            numbers.percent(c.get("level")),
            _verdict_cell(c.get("verdict")),
            _text(c.get("note")),
        ]
        for c in records
    ]
    columns = ["Comparison", "Metric", "Change", "Interval", "Level", "Verdict", "Note"]
    return _known(Table("Comparisons", columns, rows)) if rows else None


def _known(table: Table) -> Table:
    """The table without the columns that say nothing."""
    kept = [i for i in range(len(table.columns)) if i == 0 or any(str(row[i]) != UNKNOWN for row in table.rows)]
    return Table(table.caption, [table.columns[i] for i in kept], [[row[i] for i in kept] for row in table.rows])


def _effects(result: Record) -> Table | None:
    rows = [[_text(e.get("name")), *_told(result, e), _text(e.get("reading"))] for e in result.get("effects") or []]
    return _known(Table("What the effects say", ["Effect", "Change", "Interval", "Reading"], rows)) if rows else None


def _told(result: Record, record: Record) -> list[str]:
    """A change and its interval, in words."""
    found = answers.change_of(result, record)
    return [found.short, found.between or UNKNOWN] if found else [UNKNOWN, UNKNOWN]


def _hosts(result: Record) -> list[Table | None]:
    """Of a fleet: who gains, who loses; who is missing."""
    if not result.get("fleet"):
        return []
    rows = [
        [line.name, line.group, _text(line.blocks), line.change.short, line.change.between or UNKNOWN, line.reading]
        for line in hosts.lines(result)
    ]
    gone = [list(map(str, text.partition(": ")[::2])) for text in hosts.missing(result)]
    columns = ["Host", "Group", "Blocks", "Change", "Interval", "Shown"]
    return [
        Table("Hosts of the fleet", columns, rows) if rows else None,
        Table("Hosts that are missing", ["What", "Which and why"], gone) if gone else None,
    ]


def _guardrails(result: Record) -> Table | None:
    rows = []
    for guardrail in result.get("guardrails") or []:
        text, tone = _STATUS.get(str(guardrail.get("status")), (_text(guardrail.get("status")), "neutral"))
        rows.append(
            [
                answers.metric(result, guardrail),
                answers.tolerated(result, guardrail) or UNKNOWN,
                *_told(result, guardrail),
                Cell(text, tone),
            ]
        )
    columns = ["Guardrail", "Tolerated", "Change", "Interval", "Status"]
    if any(guardrail.get("arm") for guardrail in result.get("guardrails") or []):
        columns = ["Arm", *columns]
        rows = [[_text(guardrail.get("arm")), *row] for guardrail, row in zip(result["guardrails"], rows, strict=True)]
    return Table("Guardrails: a failed one forbids GO", columns, rows) if rows else None


def _looks(result: Record) -> Table | None:
    rows = [
        [
            f"{_text(look.get('look'))} of {_text(look.get('of'))}",
            numbers.number(look.get("blocks")),
            *_told(result, look),
            _verdict_cell(look.get("verdict")),
        ]
        for look in result.get("looks") or []
    ]
    return Table("Planned looks", ["Look", "Blocks", "Change", "Interval", "Verdict"], rows) if rows else None


def _suite(result: Record) -> list[Table | None]:
    card = result.get("suite") or {}
    rows = card.get("rows") or []
    arms = row_arms(rows)
    body = [
        [
            row_name(row),
            *(_heat((row.get("arms") or {}).get(arm) or {}, row) for arm in arms),
            _text(row.get("best_peer")),
            _text(row.get("to_reach") or (ratio_text(row["bar"]) if row.get("bar") else None)),
            _text(row.get("measured")),
            _verdict_cell(row.get("verdict")),
        ]
        for row in rows
    ]
    milestones = [
        [
            _text(m.get("name")),
            _plain(m.get("target")),
            _plain(m.get("value")),
            _met(m),
        ]
        for m in card.get("milestones") or []
    ]
    columns = ["Workload", *arms, "Best peer", "To reach", "Reached", "Verdict"]
    return [
        Table("Milestones", ["Milestone", "Target", "Value", "Met"], milestones) if milestones else None,
        Table(f"{_against(card)} (▲ better, ▼ worse, ≈ not shown, ? too few blocks for an interval)", columns, body)
        if body
        else None,
        _means(card.get("means") or []),
    ]


def _against(card: Record) -> str:
    """What the rows of a suite compare with what."""
    if card.get("table") == "reference":
        return f"Against {card.get('reference')}"
    return f"{card.get('subject') or 'The subject'} against each"


def _means(means: list[Record]) -> Table | None:
    """Geometric means of the ratios, of each group and of all workloads."""
    arms = row_arms(means)
    rows = [
        [
            _text(mean.get("group") or "all"),
            _text(mean.get("what")),
            numbers.number(mean.get("workloads")),
            *(_heat((mean.get("arms") or {}).get(arm) or {}, mean) for arm in arms),
        ]
        for mean in means
    ]
    return Table("Geometric means of the ratios", ["Group", "Of", "Workloads", *arms], rows) if rows else None


def _met(milestone: Record) -> Cell:
    """Open where the target lies inside the interval, or the machine gives no verdict."""
    if milestone.get("met"):
        return Cell("✓ met", "go")
    missed = milestone.get("verdict") in (None, "miss")
    return Cell("✕ not met", "no-go") if missed else Cell("? open", "inconclusive")


def _plain(value: object) -> str:
    return numbers.number(value) if finite(value) is not None else _text(value)


def _heat(record: Record, row: Record) -> str | Cell:
    """A ratio with a mark and a tint that agree: only a ratio whose interval leaves out 1 is called better or worse."""
    ratio = finite(record.get("ratio"))
    if ratio is None:
        return UNKNOWN
    low, high = finite(record.get("ci_low")), finite(record.get("ci_high"))
    if low is None and high is None:
        return Cell(f"? {figure_text(record, row)}", "inconclusive")
    better, worse = low is not None and low > 1, high is not None and high < 1
    mark, tone = ("▲", "go") if better else ("▼", "no-go") if worse else ("≈", "neutral")
    strong = (better or worse) and not 1 / 1.1 <= ratio <= 1.1
    return Cell(f"{mark} {figure_text(record, row)}", tone + " strong" * strong)


def _causes(result: Record) -> Table | None:
    rows = [
        [row["percentile"], row["arm"], str(row["requests"]), row["text"]]
        for row in (result.get("latency") or {}).get("causes") or []
    ]
    columns = ["Beyond", "Arm", "Requests", "Cause"]
    return Table("What the slowest requests did", columns, rows) if rows else None


def _replay(result: Record) -> list[Table | None]:
    """What a replay predicts of the live program, beside what it is where it was run."""
    found = result.get("replay") or {}
    live = bool(found.get("live"))
    columns = ["Arm", "Metric", "Predicted [95 % interval]", *(["Live", "Error"] if live else [])]
    rows = [
        [row["arm"], replays.TITLES[quantity["name"]], *replays.cells(row, quantity["unit"], live)]
        for quantity in found.get("quantities", [])
        for row in quantity["rows"]
    ]
    tables = [Table("The live program as the replay predicts it", columns, rows) if rows else None]
    if (stacks := found.get("stacks")) and stacks["rows"]:
        tables.append(Table(replays.stacks_title(stacks), [*replays.STACK_COLUMNS], [*replays.stack_rows(stacks)]))
    return tables


def findings(run: LoadedRun) -> list[Table]:
    """Tables of what was found, in the order of reading."""
    result = run.result
    tables = [_effects(result), _guardrails(result), _comparisons(result), _looks(result), *_hosts(result)]
    tables += [*_replay(result), *_suite(result), _causes(result)]
    return [table for table in tables if table is not None]


def arms(run: LoadedRun) -> list[Table]:
    """What each arm measured (medians), and what it was: version, library, hash, settings."""
    return [table for table in (_medians(run), _identities(run)) if table.rows]


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
    """The median of each measure with its interval; what no arm has is left out."""
    measured = run.result.get("arms") or []
    unit = (run.result.get("metric") or {}).get("unit")
    columns, rows = ["Arm", "Runs"], [[_text(arm.get("name")), numbers.number(arm.get("n"))] for arm in measured]
    # Of a program's own figure there is no other column.
    if str((run.result.get("metric") or {}).get("name")) not in ("wall", "cpu", "rss", "rss-mean"):
        columns.append(f"{run.metric_name}, median")
        for row, arm in zip(rows, measured, strict=True):
            row.append(numbers.between(arm.get("median"), arm.get("ci_low"), arm.get("ci_high"), unit))
    for name, title, its_unit in _MEASURES:
        columns.append(title)
        for row, arm in zip(rows, measured, strict=True):
            ends = (arm.get("intervals") or {}).get(name) or (None, None)
            row.append(numbers.between(arm.get(name), ends[0], ends[1], its_unit))
    table = _known(Table("Medians by arm, with 95\u202f% intervals", columns, rows))
    return table if len(table.columns) > 1 else Table(table.caption, [], [])


def _identities(run: LoadedRun) -> Table:
    by_name = {str(arm.get("name")): arm for arm in run.header.get("arms") or []}
    for arm in run.result.get("arms") or []:
        kept = {key: value for key, value in arm.items() if value is not None}
        by_name[str(arm.get("name"))] = by_name.get(str(arm.get("name")), {}) | kept
    rows = [
        [
            name,
            _text(arm.get("allocator")),
            _text(arm.get("version")),
            _settings(arm),
            _text(arm.get("configuration")),
            _text(arm.get("library")),
            _text(arm.get("sha256")),
        ]
        for name, arm in by_name.items()
    ]
    columns = ["Arm", "Allocator", "Version", "Settings", "Configuration", "Library", "SHA-256 of the library"]
    return _known(Table("What was measured", columns, rows))


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


def environment(run: LoadedRun) -> Table | None:
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
    return Table("The machine and the build", ["Fact", "Value"], rows) if rows else None


def _fact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return _text(value)


def failures(run: LoadedRun) -> Table | None:
    """Failed runs with the reason, at most FAILURE_ROWS of them; the caption says how many there were."""
    records = run.result.get("failures")
    if records is None:
        records = [record for record in run.runs if record.get("ok") is False]
    rows = [[_text(f.get("block")), _text(f.get("arm")), _text(f.get("why"))] for f in records[:FAILURE_ROWS]]
    caption = f"Failed runs: {len(records)}, their records kept"
    if len(records) > len(rows):
        caption += f"; the first {len(rows)} are shown"
    return Table(caption, ["Block", "Arm", "Why"], rows) if rows else None


def events(run: LoadedRun) -> Table | None:
    """Interruptions, load and what else happened while the run went on."""
    rows = [[_text(e.get("time")), _text(e.get("what")), _text(e.get("text"))] for e in run.events[:FAILURE_ROWS]]
    return Table("What happened while it ran", ["Time", "What", "Text"], rows) if rows else None


def decisions(run: LoadedRun) -> Table | None:
    """Decisions of people about the run."""
    rows = [[_text(d.get("time")), _text(d.get("who")), _text(d.get("text"))] for d in run.decisions]
    return Table("Decisions", ["Time", "Who", "Decision"], rows) if rows else None
