"""The flags of all commands, one row for each; commands made of these flags; and completion on the Tab key.

Completion offers arms, metrics, verdicts and stored runs; if none matches, the shell offers files.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

import typer

from hakmem_lab.errors import LabError

VERDICTS = ("GO", "NEUTRAL", "NO-GO", "INCONCLUSIVE")


def beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def arms(incomplete: str) -> list[str]:
    from hakmem_lab.plan import peers

    return beginning(incomplete, peers.names())


def _words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes `--allocators A B C`: to the parser, every word after the first is a word without a flag."""
    return arms(incomplete) if ctx.params.get("allocators") else []


def metrics(incomplete: str) -> list[str]:
    from hakmem_lab.plan.metrics import METRICS, SERVER_METRICS

    return beginning(incomplete, (*METRICS, *SERVER_METRICS, "regex:"))


def _verdicts(incomplete: str) -> list[str]:
    return beginning(incomplete, VERDICTS)


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    from hakmem_lab.store.runs import Store, default_folder

    try:
        found = Store(Path(ctx.params.get("store") or default_folder())).runs()
    except (LabError, OSError):
        return []
    return beginning(incomplete, ["last", *(run.id for run in reversed(found))])


def seconds(value: float | None) -> float | None:
    """Reject `nan`, `inf` and very long times, which the parser accepts as numbers."""
    from hakmem_lab.plan.spec import LONGEST_S

    if value is not None and not value <= LONGEST_S:
        raise typer.BadParameter(f"{value:g} is no number of seconds up to {LONGEST_S:.0f}")
    return value


def option(kind: Any, *names: str, **details: Any) -> Any:
    """A flag; without names, it is named after its parameter."""
    return Annotated[kind, typer.Option(*names, **details)]


Arm = option(str | None, metavar="SIDE", help="ALLOCATOR[,NAME=VALUE...]", autocompletion=arms)
RunName = Annotated[
    str, typer.Argument(help="A run: its id, the beginning of its id, a file, or last", autocompletion=runs)
]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", help="Folder of the runs (default: $HAK_STORE or the user's data folder)")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file as one JSON object; - for standard output")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Print the result in this format: markdown, junit, github, openmetrics, json"),
]
Require = Annotated[
    str | None, typer.Option(help="Exit with 1 unless the verdict is this one, like GO", autocompletion=_verdicts)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress")]

# Parameter -> its flag. A parameter is named after a key of the spec; a name that Python uses gets a final underscore.
FLAGS: Mapping[str, Any] = {
    "words": Annotated[
        list[str] | None,
        typer.Argument(help="SPEC.toml, or -- and the command to run", show_default=False, autocompletion=_words),
    ],
    "allocators": option(
        list[str] | None, help="What to compare: --allocators hakmem,glibc 'hakmem,NAME=VALUE'", autocompletion=arms
    ),
    **dict.fromkeys(("control", "treatment", "allocator"), Arm),
    "baseline": option(str | None, help="The side that the others are compared with", autocompletion=arms),
    "set_": option(list[str] | None, "--set", metavar="KEY=VALUE", help="Set a key of the spec; repeatable"),
    "metric": option(
        str | None,
        help="wall, cpu, rss, after-load, growth, allocated … or 'regex:PATTERN'; more after commas",
        autocompletion=metrics,
    ),
    "label": option(str | None, help="Name of the metric, like 'time per operation'"),
    "unit": option(str | None, help="Unit of the metric, like ns"),
    "higher_is_better": option(bool | None, "--higher-is-better", help="The metric is a rate, not a cost"),
    "margin": option(str | None, help="Smallest difference that matters, like 1%"),
    "alpha": option(float | None, help="Allowed error rate (default 0.05)"),
    "looks": option(int | None, help="Number of planned analyses"),
    "max_blocks": option(int | None, help="Maximum number of blocks"),
    "detect": option(str | None, help="Run enough blocks to show a difference of this size, like 2%"),
    "rare": option(str | None, help="Run enough blocks to see an event that occurs in this share of runs, like 1%"),
    "beside_load": option(bool | None, "--beside-load", help="Repeat the verdict beside two busy processes"),
    "precondition": option(bool | None, "--precondition", help="Repeat the verdict on a heap that was in use before"),
    "history": option(
        str | None, metavar="TRACE", help="Repeat the verdict on a heap that first served the recorded requests"
    ),
    "quick": option(bool | None, "--quick", help="Stop with a first estimate, after five blocks or 30 s"),
    "warm_up": option(int | None, help="Number of warm-up runs of each side, which do not count"),
    "repeat": option(str | None, help="Executions that make up one run; auto: enough for 100 ms"),
    "pin": option(str | None, help="Processors to run on, like 0 or 0,1"),
    "timeout": option(str | None, help="Longest time of one execution, like 90s"),
    "expect_exit": option(str | None, metavar="CODE,...", help="Exit codes of a run that ended well, like 0,1"),
    "check": option(
        str | None, metavar="LINE", help="Shell command that reads the output of a run, and fails where it is wrong"
    ),
    "callgrind": option(bool, "--callgrind", help="Count the instructions of one run of each side, not its time"),
    "ops": option(
        str | None,
        metavar="N,N",
        help="With --callgrind: two numbers of operations, the smaller first, to put in place of {ops} in the command",
    ),
    "duet": option(bool | None, "--duet", hidden=True),
    "also": option(list[str] | None, metavar="METRIC", help="A further metric, measured but not judged; repeatable"),
    "schedule": option(
        str | None,
        metavar="NAME",
        help="together: all sides at once on one processor; turns: of 10 ms, for threads and servers; one-by-one; auto "
        "(default)",
        autocompletion=lambda incomplete: beginning(incomplete, ("auto", "together", "turns", "one-by-one")),
    ),
    "after": option(
        str | None, metavar="TIME", help="With --metric after-load: time from the end of the load to the reading (30s)"
    ),
    "price": option(str | None, metavar="PRICE", help="What saved memory is worth, like '4.5 EUR/GiB-month'"),
    "gate": option(
        str | None, metavar="PERCENT", help="Exit with 1 unless no --metric gets worse by more than this, like 1%"
    ),
    "seed": option(int | None, help="Seed of the schedule"),
    "guardrail": option(
        list[str] | None,
        metavar="METRIC=PERCENT",
        help="A limit: the metric must not get worse by more than this; repeatable",
    ),
    "env": option(list[str] | None, metavar="NAME=VALUE", help="An environment variable for every side; repeatable"),
    "input_": option(Path | None, "--input", metavar="FILE", help="File that every run reads as standard input"),
    "question": option(str | None, help="Your question, kept with the result"),
    "server": option(
        str | None, metavar="COMMAND", help="A server to start; the command is its client. {port} stands for its port"
    ),
    "setup": option(str | None, metavar="LINE", help="Shell command to run once, before the first run"),
    "prepare": option(str | None, metavar="LINE", help="Shell command to run before every run; not measured"),
    "cleanup": option(str | None, metavar="LINE", help="Shell command to run once, after the last run"),
    "scan_": option(
        list[str] | None, "--scan", metavar="NAME=V,V...", help="One measurement for every value V of {NAME}"
    ),
    "link": option(
        str | None,
        metavar="LINE",
        help="Shell command that links {program} for musl with each allocator's {archive}, or by {linker}",
    ),
    "commands": option(list[str] | None, metavar="CMD CMD", help="Compare these commands, each on its own allocator"),
    "store": StoreFolder,
    "json": JsonFile,
    "format_": Format,
    "require": Require,
    "quiet": Quiet,
}


def command(names: str, run: Callable[[dict[str, Any]], None], hidden: str = "", **own: Any) -> Callable[..., None]:
    """A command with these parameters, in this order, which passes their values to `run` by name. hidden: those that
    its help leaves out. own: flags that only this command has, or that replace the flag of the same name in FLAGS."""

    def started(**values: Any) -> None:
        run(values)

    flags = {name: own.get(name) or FLAGS[name] for name in names.split()}
    flags |= {name: _hidden(flags[name]) for name in hidden.split() if name in flags}
    kinds = {name: get_args(flag)[0] for name, flag in flags.items()}
    started.__annotations__ = kinds
    vars(started)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_unless_given(kinds[name]), annotation=flag)
            for name, flag in flags.items()
        ]
    )
    return started


def _hidden(flag: Any) -> Any:
    kind, details = get_args(flag)
    made = copy.copy(details)
    made.hidden = True
    return Annotated[kind, made]


def _unless_given(kind: Any) -> Any:
    """The value of an option that was not given: None for an optional one, False for a switch."""
    return False if kind is bool else None if NoneType in get_args(kind) else inspect.Parameter.empty
