"""The commands about stored runs: resume, show, list, export, report, decide."""

import getpass
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import flags
from hakmem_lab.cli.flags import Format, JsonFile, Quiet, Require, RunName, StoreFolder
from hakmem_lab.cli.measure import check_format, check_output, check_verdict, finish, write_result
from hakmem_lab.errors import LabError, StoreError, nearest, one_line, refused

FORMATS = ("json", "csv", "openmetrics", "hyperfine")


def register(app: typer.Typer) -> None:
    app.command("resume")(resume)
    app.command("report")(report)
    app.command("show")(show)
    app.command("list")(list_runs)
    app.command("export")(export)
    app.command("decide")(decide)


def _store(folder: Path | None):
    from hakmem_lab.store.runs import Store, default_folder

    return Store(folder or default_folder())


def resume(
    run: RunName = "last",
    more: Annotated[int, typer.Option(help="Number of blocks to add to those planned; also after a verdict")] = 0,
    store: StoreFolder = None, json: JsonFile = None, format_: Format = None, require: Require = None,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Continue a run that was interrupted, killed or out of space."""
    from hakmem_lab import kinds
    from hakmem_lab.judge.planning import check_more
    from hakmem_lab.run.endings import Progress

    check_output(json, format_, require)
    file = _store(store).find(run)
    if require is not None:
        check_verdict(kinds.stored_spec(file))
    if more:
        check_more(file.header(), more, list(file.records()))
    finish(kinds.resume(file, Progress(quiet=quiet), more), json, require, format_)


def show(
    run: RunName = "last", store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every warning, not only the most severe")] = False,
) -> None:  # fmt: skip
    """The result of a stored run."""
    from hakmem_lab import kinds

    write_result(kinds.result_of(_store(store).find(run)), json, format_, verbose)


def list_runs(store: StoreFolder = None, json: JsonFile = None) -> None:
    """All stored runs, oldest first."""
    from hakmem_lab.show import formats
    from hakmem_lab.store.runs import readable

    found, rows = _store(store), []
    files = sorted(readable(found.runs()), key=lambda file: str(file.header().get("created") or ""))
    for file in files:
        header, result = file.header(), file.result()
        arms = " ".join(arm["name"] for arm in header["arms"])
        about = header["question"] or (header.get("spec") or {}).get("trace") or " ".join(header["command"]["argv"])
        state = (result.get("verdict") or "-") if result else "unfinished"
        blocks = str((result or {}).get("blocks", ""))
        rows.append((header["id"], header["kind"], state, blocks, arms, about))
    listed = [dict(zip(LISTED, row, strict=True)) for row in rows]
    formats.put({"folder": str(found.folder), "runs": listed}, json, partial(_show_list, found.folder, rows))


LISTED = ("run", "kind", "state", "blocks", "arms", "about")


def _show_list(folder: Path, rows: list[tuple]) -> None:
    from hakmem_lab.show.terminal import output, table_of

    if not rows:
        print(f"no runs in {folder}")
        return
    short = [(*row[:-2], *(one_line(text)[:60] for text in row[-2:])) for row in rows]
    output().print(table_of("", ("run", "kind", "verdict", "blocks", "sides", "question or command"), short))


def export(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs to export (default: all)", show_default=False, autocompletion=flags.runs),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="json, csv, openmetrics or hyperfine")] = "json",
    sql: Annotated[
        str | None, typer.Option(help="A query over the tables headers, arms, runs, blocks, samples, events, results")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File, instead of standard output")] = None,
    store: StoreFolder = None,
) -> None:
    """Raw runs as JSON or CSV, or the answer of an SQL query over all of them."""
    from hakmem_lab.show import formats, hyperfine
    from hakmem_lab.store import query
    from hakmem_lab.store.runs import readable

    if format_ not in FORMATS:
        raise LabError(f"--format: there is no format '{format_}': {nearest(format_, FORMATS)}")
    found = _store(store)
    files = [found.find(name) for name in runs] if runs else list(readable(found.runs()))
    if format_ == "hyperfine" and sql is None:
        text = hyperfine.exported(files)
    else:
        text = _metrics(files, sql) if format_ in FORMATS[2:] else query.answer(files, sql, format_)
    if output is None:
        sys.stdout.write(text)
    else:
        formats.write_text(text, output, "--output")


def _metrics(files: list, sql: str | None) -> str:
    from hakmem_lab import kinds
    from hakmem_lab.show import formats

    if sql is not None:
        raise LabError("--sql: the answer of a query has the format json or csv")
    return formats.text("openmetrics", [kinds.result_of(file) for file in files])


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs (default: the last one), or one *.json reading that explain wrote",
            show_default=False,
            autocompletion=flags.runs,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file")] = Path("hak-report.html"),
    format_: Format = None,
    store: StoreFolder = None,
    json: JsonFile = None,
) -> None:
    """One self-contained HTML file: verdicts, pictures, raw data, environment; with --format, text instead."""
    from hakmem_lab import kinds
    from hakmem_lab.inside import explain
    from hakmem_lab.show import formats
    from hakmem_lab.show import report as pages

    check_format(format_, json)
    names = runs or ["last"]
    if format_ is not None:
        formats.write_format([kinds.result_of(_store(store).find(name)) for name in names], format_)
        return
    if len(names) == 1 and names[0].endswith(".json"):
        pages.write_reading(explain.load(Path(names[0]), "hak runs report"), output, "--output")
    else:
        pages.write_files([_store(store).find(name) for name in names], output)
    formats.put({"page": str(output), "runs": names}, json, lambda: print(output))


def decide(
    run: RunName,
    text: Annotated[str, typer.Argument(help="The decision and its reason, such as 'adopt: simpler code'")],
    store: StoreFolder = None,
    json: JsonFile = None,
) -> None:
    """Record a human's decision on a run, for instance to adopt something NEUTRAL."""
    from hakmem_lab.show import formats
    from hakmem_lab.store.runs import now_utc

    if not text.strip():
        raise LabError("TEXT is empty; say what was decided and why")
    file = _store(store).find(run)
    file.header()
    file.continue_writing()
    with closing(file), refused(f"cannot write to {file.path}", kind=StoreError):
        decision = {"time": now_utc(), "who": getpass.getuser(), "text": text}
        file.append({"type": "decision", **decision})
    formats.put({"run": file.id} | decision, json, lambda: print(f"recorded on {file.id}"))
