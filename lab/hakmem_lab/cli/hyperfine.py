"""`hak bench` with a command line as for hyperfine: commands in quotes and hyperfine's common options.

Unlike hyperfine, it also measures memory, CPU time and page faults, alternates the commands' runs, and gives a verdict.
A single command is compared on its default allocator and on hakmem.
"""

import math
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from hakmem_lab.cli.flags import FLAGS, option
from hakmem_lab.cli.measure import expanded, measure
from hakmem_lab.errors import LabError
from hakmem_lab.plan.values import words_of

OF_A_SHELL = re.compile(r"[|&;<>()$`*?\[\]~\n]")
ANY_EXIT = ",".join(map(str, range(256)))
OPTIONS: dict[str, Any] = {
    "warmup": option(
        int | None, "-w", "--warmup", min=0, help="Commands: number of warm-up runs of each command [default: 0]"
    ),
    "runs": option(
        int | None, "-r", "--runs", min=1, help="Commands: number of executions of each command, after a trial"
    ),
    "min_runs": option(
        int | None, "-m", "--min-runs", min=1, help="Commands: least number of executions of each command"
    ),
    "max_runs": option(
        int | None, "-M", "--max-runs", min=1, help="Commands: largest number of executions of each command"
    ),
    "setup": option(str | None, "-s", "--setup", metavar="LINE", help=FLAGS["setup"].__metadata__[0].help),
    "prepare": option(str | None, "-p", "--prepare", metavar="LINE", help=FLAGS["prepare"].__metadata__[0].help),
    "cleanup": option(str | None, "-c", "--cleanup", metavar="LINE", help=FLAGS["cleanup"].__metadata__[0].help),
    "no_shell": option(
        bool | None, "-N", help="Commands: never use a shell (default: use one where a command needs it)"
    ),
    "ignore_failure": option(bool | None, "-i", "--ignore-failure", help="Commands: accept any exit status"),
    "parameter_list": option(
        list[str] | None, "-L", "--parameter-list", metavar="NAME=V,V", help="Commands: run each for every V of {NAME}"
    ),
    "export_json": option(
        Path | None, "--export-json", metavar="FILE", help="Commands: write the result in hyperfine's JSON"
    ),
}
RUNS = 30  # default limit for each command; a verdict may end the run sooner


def spread_parameters(words: Sequence[str]) -> list[str]:
    """Rewrite hyperfine's `-L NAME V,V`, an option with two words, as `-L NAME=V,V`."""
    found, rest = list[str](), iter(words)
    for word in rest:
        found.append(word)
        if word in ("-L", "--parameter-list") and words[:1] == ["bench"]:
            name = next(rest, "")
            found.append(name if "=" in name else f"{name}={next(rest, '')}")
    return found


def is_for(words: Sequence[str], own: dict[str, Any], known: Sequence[str]) -> bool:
    """Whether the words are commands: an option for commands is given, or a word is a command and no known name."""
    given = any(value not in (None, [], (), False) for value in own.values())
    return bool(words) and (given or any(_is_command(word) for word in words if word not in known))


def _is_command(word: str) -> bool:
    return any(c.isspace() for c in word.strip()) or (not word.endswith(".toml") and shutil.which(word) is not None)


def run(words: Sequence[str], own: dict[str, Any], params: dict[str, Any]) -> None:
    """Measure the commands and export the run."""
    commands = expanded(words, own["parameter_list"] or [], "-L")
    every = [shlex.join(_direct(command, own["no_shell"])) for command in commands]
    several = len(every) > 1
    arms = {"words": None, "commands": every} if several else {
        "words": shlex.split(every[0]), "commands": None, "allocators": params["allocators"] or ["default", "hakmem"]
    }  # fmt: skip
    keys = {name: params.get(name) for name in ("set_", "seed", "store", "json", "format_", "require", "quiet")}
    keys |= {name: own[name] for name in ("setup", "prepare", "cleanup")} | {"warm_up": own["warmup"] or 0}
    keys |= {"parameters": [*commands.values()], "metric": "wall"}
    keys |= {"expect_exit": ANY_EXIT if own["ignore_failure"] else None, **_blocks(len(every) if several else 2, own)}
    try:
        measure("compare", keys | arms)
    except typer.Exit:  # the verdict is not the one that --require names
        _export(own["export_json"], params["store"])
        raise
    _export(own["export_json"], params["store"])


def _direct(command: str, no_shell: bool | None) -> list[str]:
    """The command's words; a command that needs a shell becomes `sh -c COMMAND`."""
    if not command.strip():
        raise LabError("a command is empty")
    if not no_shell and OF_A_SHELL.search(command):
        return ["sh", "-c", command]
    try:
        return words_of(command)
    except ValueError as error:
        raise LabError(f"command: {error}: {command}") from None


def _blocks(count: int, own: dict[str, Any]) -> dict[str, Any]:
    """The keys for the requested number of executions. Raises LabError for a number that gives no verdict."""
    from hakmem_lab.judge.statistics.plan import Plan
    from hakmem_lab.judge.unseen import RUNS_FOR_ONE
    from hakmem_lab.plan import schedule

    each, alpha = schedule.runs_of_each(count), 0.05 / (count - 1)
    wanted = own["runs"] or own["max_runs"] or max(RUNS, own["min_runs"] or 0)
    least = max(n for n in range(1, 40) if n == 1 or Plan((n - 1,)).least_blocks(alpha) > n - 1)
    blocks = max(math.ceil(wanted / each), least)
    if (own["runs"] or own["max_runs"]) and blocks * each > wanted:
        flag, few = "-r" if own["runs"] else "-M", wanted < least * each
        why = f"at least {least * each} executions of each command" if few else "an even number, as two run in pairs"
        raise LabError(f"{flag} {wanted}: a verdict needs {why}: {flag} {blocks * each}")
    fewest = own["runs"] or own["min_runs"]
    exact = any(own[name] for name in ("runs", "min_runs", "max_runs"))
    return {
        "max_blocks": blocks,
        "rare": str(min(0.99, RUNS_FOR_ONE / fewest)) if fewest and fewest > 3 else None,
        "repeat": "1" if exact else None,
    }


def _export(path: Path | None, store: Path | None) -> None:
    if path is None:
        return
    from hakmem_lab.show import formats, hyperfine
    from hakmem_lab.store.runs import Store, default_folder

    formats.write_text(hyperfine.exported([Store(store or default_folder()).find("last")]), path, "--export-json")
