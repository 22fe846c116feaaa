"""The flags that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import complete

Words = Annotated[
    list[str] | None,
    typer.Argument(help="SPEC.toml, or -- and the command to run", show_default=False, autocompletion=complete.words),
]
Allocators = Annotated[
    list[str] | None,
    typer.Option(help="Arms: --allocators hakmem glibc 'hakmem,NAME=VALUE'", autocompletion=complete.arms),
]
Arm = Annotated[str | None, typer.Option(metavar="ARM", help="ALLOCATOR[,NAME=VALUE...]", autocompletion=complete.arms)]
Keys = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A key of the spec; repeatable")]
Metric = Annotated[
    str | None,
    typer.Option(help="wall, cpu, rss, pss, faults, tree-memory … or 'regex:PATTERN'", autocompletion=complete.metrics),
]
Label = Annotated[str | None, typer.Option(help="What the metric is called, such as 'time per operation'")]
Unit = Annotated[str | None, typer.Option(help="What the metric is counted in, such as ns")]
Higher = Annotated[bool | None, typer.Option("--higher-is-better", help="The metric is a rate, not a cost")]
Margin = Annotated[str | None, typer.Option(help="Smallest difference that matters, such as 1%")]
Alpha = Annotated[float | None, typer.Option(help="Share of false verdicts that is accepted")]
Looks = Annotated[int | None, typer.Option(help="Planned looks at the data")]
MaxBlocks = Annotated[int | None, typer.Option(help="Most blocks")]
Detect = Annotated[str | None, typer.Option(help="Plan the blocks to show a difference of this size, such as 2%")]
Rare = Annotated[str | None, typer.Option(help="Blocks enough to see what happens to this share of runs, such as 1%")]
WarmUp = Annotated[int | None, typer.Option(help="Runs of each arm that do not count")]
Repeat = Annotated[str | None, typer.Option(help="Executions that make up one run; auto: at least 100 ms")]
Pin = Annotated[str | None, typer.Option(help="Processors to run on, such as 0 or 0,1")]
Timeout = Annotated[str | None, typer.Option(help="Longest time of one execution, such as 90s")]
Callgrind = Annotated[bool, typer.Option("--callgrind", help="Count instructions instead, in one run of each arm")]
Ops = Annotated[str | None, typer.Option(metavar="N,N", help="With --callgrind: two lengths that {ops} stands for")]
Duet = Annotated[bool | None, typer.Option("--duet", help="Both arms of a pair at once, each on half the processors")]
Also = Annotated[list[str] | None, typer.Option(metavar="METRIC", help="Measured, but not judged; repeatable")]
Seed = Annotated[int | None, typer.Option(help="Seed of the schedule")]
Guardrail = Annotated[
    list[str] | None, typer.Option(metavar="METRIC=PERCENT", help="Must not get worse by more; repeatable")
]
Builds = Annotated[int | None, typer.Option(help="Builds of each arm, with their functions in random places")]
Env = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable for every arm; repeatable")]
Input = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help="Standard input of the program, in every run")
]
Question = Annotated[str | None, typer.Option(help="What is asked, for the record")]
RunName = Annotated[
    str, typer.Argument(help="A run: its id, the beginning of it, a file, or last", autocompletion=complete.runs)
]
Setup = Annotated[str | None, typer.Option(metavar="LINE", help="For the shell, once before the first run")]
Prepare = Annotated[str | None, typer.Option(metavar="LINE", help="For the shell, before every run; not measured")]
Cleanup = Annotated[str | None, typer.Option(metavar="LINE", help="For the shell, once after the last run")]
Scan = Annotated[
    list[str] | None,
    typer.Option("--scan", metavar="NAME=V,V...", help="The same for every value of {NAME}"),
]
Commands = Annotated[
    list[str] | None, typer.Option(metavar="CMD CMD", help="These commands against each other, as they are")
]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", help="Where runs are kept (default: $HAK_STORE or the user's data folder)")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result there as one JSON object; - for standard output")
]
Format = Annotated[
    str | None, typer.Option("--format", help="On standard output: markdown, junit, github, openmetrics, json")
]
Require = Annotated[
    str | None,
    typer.Option(help="Exit with 1 unless this is the verdict, such as GO", autocompletion=complete.verdicts),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress")]
