"""The commands of `hak`, in groups, with an example each, in the order in which a user meets them."""

import copy
import importlib
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
    "Is this machine fit?": {
        "system": ("the machine's settings: look, make them quiet, put them back", "check"),
        "aa": ("one side against itself: noise, and the smallest effect that can be seen", "-- ./program args"),
    },
    "Use an allocator": {
        "run": ("a program on an allocator that is checked to serve it", "--allocator hakmem -- ./program args"),
        "doctor": ("is a program or a process served, and if not, what to do", "-- ./program args"),
    },
    "Where did the memory go?": {
        "explain": ("every resident kilobyte of a process or a core file, by owner", "PID"),
        "profile": ("which stacks allocated what is in use: for pprof, or as text", "-o heap.txt PID"),
        "top": ("memory by owner, class and thread, live; can also change options", "PID"),
        "metrics": ("figures of the heap for monitoring, as OpenMetrics text", "PID --listen 9464"),
    },
    "Record once, ask later": {
        "record": ("what a program asks of its allocator, into a file", "-o program.trace -- ./program args"),
        "trace": ("what is in a trace: operations, sizes, lifetimes, threads", "program.trace"),
        "replay": ("the time and memory that a trace would take on other allocators", "program.trace"),
    },
    "Which one is better?": {
        "share": ("the share of a program's instructions in its allocator: what there is to gain", "-- ./program args"),
        "compare": ("several allocators: time, CPU, memory, faults", "-- ./program args"),
        "ab": (
            "one treatment against one control: a verdict with its interval",
            "--control glibc --treatment hakmem -- ./program args",
        ),
        "tune": (
            "allocators and their options: the best one, confirmed, as a line for the service file",
            "--least rss --subject-to wall=+2% -- ./program args",
        ),
        "suite": ("workloads of your own on several allocators, bars to reach", "mine.toml"),
        "bench": ("this project's suites: scorecard, demo, gallery, or workloads by name", "redis"),
        "judge": (
            "what another tool has measured: Google Benchmark, go test, pytest-benchmark, hyperfine",
            "old.json new.json",
        ),
        "baseline": ("keep a build in a file, and measure it again beside a later one", "save main.baseline"),
    },
    "Closer questions, each with a spec": {
        "init": ("a spec with comments for your program: ab, matrix, suite, soak, latency", "suite -- ./program args"),
        "matrix": ("settings that act together: 2x2 and 2^k designs", "spec.toml"),
        "sweep": ("the best of several settings, confirmed on fresh runs", "spec.toml"),
        "latency": ("tail latency of requests that arrive at a fixed rate", "experiments/tail_latency.toml"),
        "soak": ("one process for minutes to hours: does it grow?", "experiments/rebase_soak.toml"),
        "syscalls": ("system calls per operation", "-- ./program args"),
    },
    "Runs that are kept": {
        "report": ("one HTML file: verdicts, pictures, raw data", "last -o report.html"),
        "show": ("a stored run, analysed again", "last"),
        "list": ("all stored runs", ""),
        "resume": ("go on with a run that was interrupted", "last"),
        "export": ("raw runs as JSON or CSV, or an SQL query's answer", "last --format csv"),
        "mcp": ("these commands for agents, by the Model Context Protocol", ""),
        "decide": ("record a human's decision on a run", "last 'adopt: simpler code'"),
    },
}
WIDTH = 110
FIRST = ("doctor", "share", "compare", "ab", "explain", "report")
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
            lines += [f"  {name:<10} {what}", f"  {'':<10}   hak {name} {words}".rstrip()]
    rest = [] if every else [textwrap.fill(f"hak --all shows all {len(known)} commands: {', '.join(known)}.", WIDTH)]
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
for module in (programs, heap, traces, kinds, bench, share, init, inspect, mcp):
    module.register(app)
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


def chosen(words: Sequence[str]) -> typer.Typer:
    """The app with only the command that the words name: to build every parser takes as long as to import typer.

    If the words name no command, the app has all of them, because the error message suggests names.
    """
    named = [info for info in app.registered_commands if words and _name(info) == words[0]]
    if not named:
        return app
    one = copy.copy(app)
    one.registered_commands, one.registered_groups = named, []
    return one


def _name(info: CommandInfo) -> str:
    return info.name or get_command_name(getattr(info.callback, "__name__", ""))
