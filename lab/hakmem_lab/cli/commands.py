"""The commands of `hak`, in groups, with an example each, in the order in which a user meets them."""

import copy
import importlib
import sys
import textwrap
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_command_name
from typer.models import CommandInfo

from hakmem_lab import __version__
from hakmem_lab.cli import bench, heap, init, inspect, kinds, mcp, programs, share, traces
from hakmem_lab.plan.kinds import KINDS

ABOUT = "hak: which allocator, and which of its settings, make a program faster or leaner."
# Group -> command -> (what it does, the rest of the line of an example).
GROUPS = {
    "Is it served, is this machine fit?": {
        "doctor": (
            "is a program or a process served, and if not, what to do; --machine: is the machine fit",
            "-- ./program args",
        ),
        "run": ("a program on an allocator that is checked to serve it", "--allocator hakmem -- ./program args"),
    },
    "Where did the memory go?": {
        "heap explain": ("every resident kilobyte of a process or a core file, by owner", "PID"),
        "heap profile": ("which stacks allocated what is in use: for pprof, or as text", "-o heap.txt PID"),
        "heap top": ("memory by owner, class and thread, live; can also change options", "PID"),
        "heap metrics": ("figures of the heap for monitoring, as OpenMetrics text", "PID --listen 9464"),
    },
    "Record once, ask later": {
        "record": ("what a program asks of its allocator, into a file", "-o program.trace -- ./program args"),
        "trace": ("what is in a trace: operations, sizes, lifetimes, threads", "program.trace"),
        "replay": ("the time and memory that a trace would take on other allocators", "program.trace"),
    },
    "Which one is better?": {
        "share": ("the share of a program's instructions in its allocator: what there is to gain", "-- ./program args"),
        "compare": (
            "allocators, settings, builds or commands: time, CPU, memory, faults, with verdicts",
            "-- ./program args",
        ),
        "tune": (
            "allocators and their options: the best one, confirmed, as a line for the service file",
            "--least rss --subject-to wall=+2% -- ./program args",
        ),
        "suite": ("workloads of your own on several allocators, bars to reach", "mine.toml"),
        "bench": ("this project's suites: scorecard, demo, gallery, or workloads by name", "redis"),
        "judge": ("what Google Benchmark or hyperfine has measured", "old.json new.json"),
    },
    "Closer questions, each with a spec": {
        "init": ("a spec with comments for your program: ab, matrix, suite, soak, latency", "suite -- ./program args"),
        "matrix": ("settings that act together: 2x2 and 2^k designs", "spec.toml"),
        "latency": ("tail latency of requests that arrive at a fixed rate", "experiments/tail_latency.toml"),
        "soak": ("one process for minutes to hours: does it grow?", "experiments/rebase_soak.toml"),
        "syscalls": ("system calls per operation", "-- ./program args"),
    },
    "Runs that are kept": {
        "runs report": ("one HTML file: verdicts, pictures, raw data", "last -o report.html"),
        "runs show": ("the result of a stored run", "last"),
        "runs list": ("all stored runs", ""),
        "runs resume": ("go on with a run that was interrupted", "last"),
        "runs export": ("raw runs as JSON or CSV, or an SQL query's answer", "last --format csv"),
        "runs decide": ("record a human's decision on a run", "last 'adopt: simpler code'"),
        "runs keep": ("a build in a file, to measure it again beside a later one", "main.baseline"),
        "mcp": ("these commands for agents, by the Model Context Protocol", ""),
    },
}
# Former name -> the words that replace it; they go with the next minor version.
MOVED = {name.split()[1]: name for commands in GROUPS.values() for name in commands if " " in name}
MOVED |= {name: f"bench {name}" for name in ("scorecard", "gallery")}
# Former command, hidden but as it was -> what a user types instead.
FORMER = {
    "ab": "compare --control SIDE --treatment SIDE",
    "aa": "doctor --machine -- COMMAND",
    "system": "doctor --machine",
    "sweep": "compare SPEC.toml",
    "baseline": "compare --control baseline:FILE --treatment SIDE",
}
WIDTH = 110
FIRST = ("doctor", "share", "compare", "tune", "heap explain", "runs report")
MORE = """\
A side is ALLOCATOR[,NAME=VALUE...], such as hakmem, jemalloc, ./libmine.so or hakmem,HAKMEM_PROFILE=lean.
hak COMMAND --help shows a command's flags, hak --version the version, hak --install-completion completes
commands, flags, sides and runs on the Tab key."""


def overview(every: bool = False) -> str:
    """The help text: the commands that most users need, or all commands in their groups."""
    known = {name: text for commands in GROUPS.values() for name, text in commands.items()}
    lines = [ABOUT]
    for title, names in GROUPS.items() if every else [("Begin with", FIRST)]:
        lines += ["", title]
        for name in names:
            what, words = known[name]
            lines += [f"  {name:<13} {what}", f"  {'':<13}   hak {name} {words}".rstrip()]
    first = list(dict.fromkeys(name.split()[0] for name in known))
    rest = [] if every else [textwrap.fill(f"hak --all shows all {len(first)} commands: {', '.join(first)}.", WIDTH)]
    return "\n".join([*lines, "", *rest, MORE])


class Commands(TyperGroup):
    """The group of all commands. Its help is the overview, which shows the first ones."""

    def format_help(self, ctx, formatter) -> None:
        formatter.write(overview() + "\n")


app = typer.Typer(
    name="hak",
    cls=Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
for module in (programs, traces, kinds, bench, share, init, mcp):
    module.register(app)
for name, about, module in (("heap", "Where did the memory of a process go?", heap), ("runs", "Stored runs.", inspect)):
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)
    module.register(group)
    app.add_typer(group, name=name)
kinds.register_keep(group)
for kind in KINDS.values():
    if kind.package:
        command = importlib.import_module(f"{kind.package}.command")
        command.register(app)
        GROUPS["Which one is better?"][kind.name] = command.OVERVIEW


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"hak {__version__}")
        raise typer.Exit


def _say_all(wanted: bool) -> None:
    if wanted:
        print(overview(every=True))
        raise typer.Exit


@app.callback()
def _options(
    every: Annotated[bool, typer.Option("--all", callback=_say_all, is_eager=True, help="All commands")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="The version")
    ] = False,
) -> None:
    """The options that `hak` accepts before the name of a command."""


def renamed(words: list[str]) -> list[str]:
    """The words with the present name of their command. A terminal shows a line that names it."""
    if not words or words[0] not in {**MOVED, **FORMER}:
        return words
    if sys.stderr.isatty():
        now = MOVED.get(words[0]) or FORMER[words[0]]
        print(f"hak: hak {words[0]} is hak {now} now; the old name goes with the next minor version", file=sys.stderr)
    return [*MOVED[words[0]].split(), *words[1:]] if words[0] in MOVED else words


def chosen(words: Sequence[str]) -> typer.Typer:
    """The app with only the command that the words name: to build every parser takes as long as to import typer.

    If the words name no command, the app has all of them, because the error message suggests names.
    """
    named = [info for info in app.registered_commands if words and _name(info) == words[0]]
    groups = [group for group in app.registered_groups if words and group.name == words[0]]
    if not named and not groups:
        return app
    one = copy.copy(app)
    one.registered_commands, one.registered_groups = named, groups
    return one


def _name(info: CommandInfo) -> str:
    return info.name or get_command_name(getattr(info.callback, "__name__", ""))
