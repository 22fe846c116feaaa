"""Stored runs as tables: `headers` (a row a run), `arms`, `runs` (a row a program run), `blocks`, `samples` (of soaks),
`events`, `results`.

Also the blocks of one run, from its records (pure), and earlier runs of the same question in the store: every further
try is one more chance of a false verdict.

The question covers the compared arms, the program and the metric, but not the time, length or strictness of the run.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from hakmem_lab import extras
from hakmem_lab.errors import LabError
from hakmem_lab.store.records import COLUMNS, INTEGER, REAL, TABLE_OF, Event, Record, Run, Sample
from hakmem_lab.store.runs import DESCRIBED, RunFile, Store, plain

ASKED = ("kind", "command", "env", "cwd", "metric", "higher-is-better", "server", "control", "treatment", "allocators",
         "baseline", "base", "factors", "default", "candidates", "rate", "duration", "ops",
         "workload", "only", "readings", "commands", "prepare")  # fmt: skip


def question_hash(header: Record) -> str:
    """A hash that is equal for runs with the same question on the same programs and libraries."""
    spec = {key: header["spec"][key] for key in ASKED if key in header["spec"]}
    libraries = [(arm["name"], arm.get("sha256")) for arm in header["arms"]]
    asked = [spec, libraries, (header.get("command") or {}).get("sha256")]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def earlier_runs(folder: Path, header: Record) -> list[Record]:
    """Id and verdict (None: not yet judged) of the runs in the folder that asked the same question, oldest first."""
    found = []
    for run in [run for run in Store(folder).runs() if f"-{header['spec']['kind']}-" in run.id]:
        try:
            other = run.header("spec", "arms")
        except LabError:
            continue
        if other.get("question_hash") == header["question_hash"]:
            found.append({"id": run.id, "verdict": (run.result() or {}).get("verdict")})
    return found


def sentence(runs: list[Record], prolonged: bool) -> str | None:
    """A sentence about earlier runs; None if there are none. prolonged: whether such a run can be prolonged."""
    if not runs:
        return None
    tries = ", ".join(f"{run['id']} ({run['verdict'] or 'no verdict'})" for run in runs)
    times = "once" if len(runs) == 1 else f"{len(runs)} times"
    return (
        f"this question was asked {times} before: {tries}; every try is one more chance to be wrong"
        + ", where hak runs resume --more goes on with the same one" * prolonged
    )


Blocks = list[dict[str, list[Run]]]
BESIDE = "beside"  # phase: blocks for figures that the measured blocks cannot give
SCHEDULE = "schedule"  # event: the schedule of the blocks, chosen after the trials or changed after a failure


def events(records: Iterable[Record], what: str) -> list[Event]:
    found = [record for record in records if record["type"] == "event" and record.get("what") == what]
    return cast(list[Event], found)


def samples_of(records: Iterable[Record]) -> list[Sample]:
    return cast(list[Sample], [record for record in records if record["type"] == "sample"])


def runs_of(blocks: Blocks, arm: str) -> list[Run]:
    return [run for block in blocks for run in block.get(arm, [])]


def finished_blocks(records: Iterable[Record], phase: str) -> Blocks:
    """The runs of each arm in every successful and complete block, in order."""
    runs: dict[tuple[int, int], dict[str, list[Run]]] = {}
    done: dict[int, dict[str, list[Run]]] = {}
    for record in records:
        if record.get("phase") != phase:
            continue
        if record["type"] == "run":
            block = runs.setdefault((record["block"], record["attempt"]), {})
            block.setdefault(record["arm"], []).append(cast(Run, record))
        elif record["type"] == "block" and record["ok"]:
            found = runs.get((record["block"], record["attempt"]), {})
            if sorted(record["order"]) == sorted(arm for arm, entries in found.items() for _ in entries):
                done[record["block"]] = found
    return [done[index] for index in sorted(done)]


def attempts_made(records: Iterable[Record], phase: str) -> dict[int, int]:
    """Block -> number of attempts."""
    made: dict[int, int] = {}
    for record in records:
        if record["type"] == "run" and record.get("phase") == phase:
            made[record["block"]] = max(made.get(record["block"], 0), record["attempt"] + 1)
    return made


def tables(files: Sequence[RunFile]) -> dict[str, list[Record]]:
    """All rows of all runs. Raises LabError where one of the files is no run."""
    found: dict[str, list[Record]] = {table: [] for table in COLUMNS}
    for file in files:
        header = file.header(*DESCRIBED)
        key = {"id": header["id"], "kind": header["kind"]}
        command = {"command": " ".join(header["command"]["argv"])}
        _add(found, "headers", (header.get("git") or {}) | header["machine"] | header | command)
        for arm in header["arms"]:
            _add(found, "arms", key | arm)
        for record in file.records():
            if table := TABLE_OF.get(record["type"]):
                _add(found, table, record | key | {"arms_in_order": record.get("order")})
        if last := file.result():
            first = (last.get("comparisons") or [{}])[0]
            _add(found, "results", {**first, **last, **key})
    return found


def _add(found: dict[str, list[Record]], table: str, values: Record) -> None:
    found[table].append({name: _utf8(values.get(name)) for name in COLUMNS[table]})


def _utf8(value: object) -> object:
    """Text with invalid UTF-8 as escapes, since DuckDB reads only UTF-8. Words of a command may hold such bytes."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def flat(value: object, kind: str) -> object:
    """The value as a single value of its column's type; a list or a table becomes JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    if value is None:
        return None
    return {REAL: float, INTEGER: int}.get(kind, lambda known: known)(value)


def answer(files: Sequence[RunFile], sql: str | None, format_: str) -> str:
    """The rows of `runs`, or of the query, in the format. Raises LabError for a query that DuckDB refuses."""
    found = tables(files)
    rows = found["runs"] if sql is None else _query(found, sql)
    if format_ == "json":
        return json.dumps(plain(rows), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    text = io.StringIO()
    columns = list(rows[0]) if rows else []
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_single, rows))
    return text.getvalue()


def _single(row: Record) -> Record:
    """The row with single values; a list or a table becomes JSON."""
    return {name: json.dumps(v) if isinstance(v, dict | list) else v for name, v in row.items()}


def _query(found: dict[str, list[Record]], sql: str) -> list[Record]:
    """Runs the query. The rows go through files of JSON lines, which DuckDB reads faster than single inserts."""
    import tempfile
    from pathlib import Path

    extras.need("sql", "hak runs export --sql")
    import duckdb

    with tempfile.TemporaryDirectory(prefix="hak-") as folder, duckdb.connect() as database:
        for name, rows in found.items():
            path = Path(folder) / f"{name}.jsonl"
            path.write_text("".join(json.dumps(_single(row)) + "\n" for row in rows), encoding="utf-8")
            columns = ", ".join(f"'{column}': '{kind}'" for column, kind in COLUMNS[name].items())
            source = f"read_json('{path}', format='newline_delimited', columns={{{columns}}})"
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}")
        # The user's own query needs no protection, but must not change files by mistake.
        database.execute("SET enable_external_access = false")
        try:
            statements = duckdb.extract_statements(sql)
            if not statements or statements[-1].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
                raise LabError(f"--sql: there is no query in '{sql}'")
            cursor = database.execute(sql)
            names = [column[0] for column in cursor.description or []]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except duckdb.Error as error:
            raise LabError(f"--sql: {str(error).strip().splitlines()[0]}; the tables are {', '.join(found)}") from None
