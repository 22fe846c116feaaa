"""Stored runs as tables: `headers` (a row a run), `arms`, `runs` (a row a program run), `results`. Imports store and errors."""

import csv
import io
import json
from collections.abc import Sequence

from .errors import LabError
from .store import RunFile

HEADER_KEYS = ("id", "kind", "created", "question", "spec_hash", "seed", "lab_version")
RESULT_KEYS = ("verdict", "headline", "final", "blocks", "more_blocks", "margin", "alpha")
RUN_KEYS = (
    "id", "kind", "phase", "block", "attempt", "position", "arm", "started", "repeat", "ok", "why", "exit", "signal",
    "timed_out", "wall_s", "cpu_s", "user_s", "system_s", "rss_peak_kib", "rss_mean_kib", "minor_faults", "major_faults",
    "voluntary_switches", "involuntary_switches", "value", "mapped", "pad_bytes", "load_1m", "steal_percent", "metrics",
)  # fmt: skip
ARM_KEYS = ("id", "name", "text", "allocator", "library", "sha256", "version", "configuration", "variables")
NUMBERS = ("block", "attempt", "position", "repeat", "exit", "signal", "seed", "blocks", "more_blocks", "pad_bytes", "minor_faults",
           "major_faults", "voluntary_switches", "involuntary_switches", "rss_peak_kib")  # fmt: skip
TRUTHS = ("ok", "timed_out", "mapped", "final")
REALS = ("started", "wall_s", "cpu_s", "user_s", "system_s", "rss_mean_kib", "value", "load_1m", "steal_percent", "margin", "alpha",
         "estimate", "ci_low", "ci_high")  # fmt: skip


def tables(files: Sequence[RunFile]) -> dict[str, list[dict]]:
    """All rows of all runs."""
    found: dict[str, list[dict]] = {"headers": [], "arms": [], "runs": [], "results": []}
    for file in files:
        header = file.header()
        key = {"id": header["id"], "kind": header["kind"]}
        row = {name: header.get(name) for name in HEADER_KEYS}
        row["command"] = " ".join(header["command"]["argv"])
        row |= {name: header["machine"].get(name) for name in ("cpu", "processors", "kernel")}
        row["revision"] = (header.get("git") or {}).get("revision")
        found["headers"].append(row)
        found["arms"] += [{name: (key | arm).get(name) for name in ARM_KEYS} for arm in header["arms"]]
        last = None
        for record in file.records():
            if record["type"] == "run":
                found["runs"].append({name: (record | key).get(name) for name in RUN_KEYS})
            last = record if record["type"] == "result" else last
        if last:
            first = (last.get("comparisons") or [{}])[0]
            row = key | {name: last.get(name) for name in RESULT_KEYS}
            found["results"].append(row | {name: first.get(name) for name in ("estimate", "ci_low", "ci_high")})
    return found


def answer(files: Sequence[RunFile], sql: str | None, format_: str) -> str:
    """The rows of `runs`, or of the query, in the format. Raises LabError for a query that DuckDB refuses."""
    found = tables(files)
    rows = _query(found, sql) if sql else found["runs"]
    if format_ == "json":
        return json.dumps(rows, indent=1, ensure_ascii=False, default=str) + "\n"
    text = io.StringIO()
    columns = list(rows[0]) if rows else []
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: json.dumps(v) if isinstance(v, dict | list) else v for name, v in row.items()} for row in rows
    )
    return text.getvalue()


def _type(name: str) -> str:
    if name in NUMBERS:
        return "BIGINT"
    if name in TRUTHS:
        return "BOOLEAN"
    return "DOUBLE" if name in REALS else "VARCHAR"


def _query(found: dict[str, list[dict]], sql: str) -> list[dict]:
    """Through files of JSON lines, which DuckDB reads faster than single inserts."""
    import tempfile
    from pathlib import Path

    import duckdb

    with tempfile.TemporaryDirectory(prefix="hak-") as folder, duckdb.connect() as database:
        for name, rows in found.items():
            path = Path(folder) / f"{name}.jsonl"
            keys = {"headers": [*HEADER_KEYS, "command", "cpu", "processors", "kernel", "revision"], "arms": ARM_KEYS,
                    "runs": RUN_KEYS, "results": ["id", "kind", *RESULT_KEYS, "estimate", "ci_low", "ci_high"]}[name]  # fmt: skip
            flat = ({k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()} for row in rows)
            path.write_text("".join(json.dumps(row) + "\n" for row in flat), encoding="utf-8")
            columns = ", ".join(f"'{key}': '{_type(key)}'" for key in keys)
            database.execute(
                f"CREATE TABLE {name} AS SELECT * FROM read_json('{path}', format='newline_delimited', columns={{{columns}}})"
            )
        # The query is the user's own and may read what the user may; it just must not change files by mistake.
        database.execute("SET enable_external_access = false")
        try:
            cursor = database.execute(sql)
            names = [column[0] for column in cursor.description or []]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except duckdb.Error as error:
            raise LabError(f"--sql: {str(error).strip().splitlines()[0]}; the tables are {', '.join(found)}") from None
