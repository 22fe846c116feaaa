"""The commands that measure: every flag is a key of the kind's spec, and the other way round.

`hak KIND SPEC.toml [flags]` runs a spec, flags replacing its keys; `hak KIND [flags] -- COMMAND` needs no spec.
"""

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli import complete, scan
from hakmem_lab.cli.flags import (
    Allocators,
    Alpha,
    Also,
    Arm,
    Builds,
    Callgrind,
    Cleanup,
    Commands,
    Detect,
    Duet,
    Env,
    Format,
    Guardrail,
    Higher,
    Input,
    JsonFile,
    Keys,
    Label,
    Looks,
    Margin,
    MaxBlocks,
    Metric,
    Ops,
    Pin,
    Prepare,
    Question,
    Quiet,
    Rare,
    Repeat,
    Require,
    Scan,
    Seed,
    Setup,
    StoreFolder,
    Timeout,
    Unit,
    WarmUp,
    Words,
)
from hakmem_lab.errors import LabError, StoreError, nearest
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.plan.stdin import check_file, inherited

STEPS = ("setup", "prepare", "cleanup")
SPREAD = {"--allocators": "ARM", "--commands": "COMMAND"}
HELP = {
    "ab": "Is the treatment better than the control? GO, NEUTRAL, NO-GO or INCONCLUSIVE, with the interval.",
    "compare": "Several allocators on one program: time, memory, faults, each against a baseline.",
    "matrix": "A 2x2 or 2^k design: main effects and interactions, each with its interval.",
    "sweep": "Choose the best of several arms, then confirm it on fresh runs.",
    "soak": "One process for minutes to hours: does memory grow, does throughput sag?",
    "syscalls": "System calls per operation in the steady state, per allocator.",
    "latency": "Open-loop tail latency, p50 to p99.99.",
    "aa": "Is this machine fit to measure? One arm against itself.",
}


def spread_allocators(words: list[str]) -> list[str]:
    """`--allocators A B C`, and `--commands`, as the parser wants it: the flag before each word, up to the next flag.
    Raises LabError."""
    end = words.index("--") if "--" in words else len(words)
    spread, taking = list[str](), ""
    for word, following in itertools.pairwise([*words[:end], "--"]):
        if word.startswith("-"):
            taking = word if word in SPREAD else ""
            if taking and following.startswith("-"):
                raise LabError(f"{taking}: no {SPREAD[taking].lower()} follows it; they are written {taking} "
                               f"{SPREAD[taking]} {SPREAD[taking]} ...")  # fmt: skip
            spread += [] if taking else [word]
        else:
            spread += [taking, word] if taking else [word]
    return spread + words[end:]


def register(app: typer.Typer) -> None:
    app.command("compare", help=HELP["compare"])(compare)
    app.command("ab", help=HELP["ab"])(ab)
    for kind in ("matrix", "latency"):
        app.command(kind, help=HELP[kind])(_detecting(kind))
    for kind in ("sweep", "soak", "syscalls"):
        app.command(kind, help=HELP[kind])(_simple(kind))
    app.command("aa", help=HELP["aa"])(aa)


def compare(
    ctx: typer.Context, words: Words = None,
    allocators: Allocators = None,
    baseline: Annotated[
        str | None, typer.Option(help="The arm that the others are compared with", autocompletion=complete.arms)
    ] = None,
    metric: Metric = None, label: Label = None, unit: Unit = None, higher_is_better: Higher = None,
    margin: Margin = None, alpha: Alpha = None,
    detect: Detect = None, rare: Rare = None, max_blocks: MaxBlocks = None, warm_up: WarmUp = None,
    repeat: Repeat = None, pin: Pin = None, input_: Input = None, timeout: Timeout = None, seed: Seed = None,
    guardrail: Guardrail = None, env: Env = None, question: Question = None,
    commands: Commands = None, scan_: Scan = None, setup: Setup = None, prepare: Prepare = None,
    cleanup: Cleanup = None, store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
    require: Require = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    _measure("compare", ctx.params)


def ab(
    ctx: typer.Context, words: Words = None,
    control: Arm = None,
    treatment: Arm = None,
    metric: Metric = None, label: Label = None, unit: Unit = None, higher_is_better: Higher = None,
    margin: Margin = None, alpha: Alpha = None, looks: Looks = None, detect: Detect = None, rare: Rare = None,
    max_blocks: MaxBlocks = None, warm_up: WarmUp = None, repeat: Repeat = None, pin: Pin = None, duet: Duet = None,
    also: Also = None, input_: Input = None, timeout: Timeout = None, seed: Seed = None, builds: Builds = None,
    guardrail: Guardrail = None, env: Env = None, question: Question = None, callgrind: Callgrind = False,
    ops: Ops = None, commands: Commands = None, scan_: Scan = None, setup: Setup = None, prepare: Prepare = None,
    cleanup: Cleanup = None, store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
    require: Require = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    params = {name: value for name, value in ctx.params.items() if name not in ("callgrind", "ops")}
    if callgrind:
        _count_instructions(params, ops)
    elif ops is not None:
        raise LabError("--ops: two lengths of a run belong to --callgrind, and to hak syscalls")
    else:
        _measure("ab", params)


def aa(
    ctx: typer.Context, words: Words = None,
    allocator: Arm = None,
    metric: Metric = None, label: Label = None, unit: Unit = None, higher_is_better: Higher = None,
    margin: Margin = None, alpha: Alpha = None,
    max_blocks: MaxBlocks = None, repeat: Repeat = None, pin: Pin = None, duet: Duet = None, input_: Input = None,
    seed: Seed = None, setup: Setup = None, prepare: Prepare = None, cleanup: Cleanup = None,
    store: StoreFolder = None, json: JsonFile = None, format_: Format = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    _measure("aa", ctx.params)


def _simple(kind: str) -> Callable[..., None]:
    """A command whose keys live in its spec; the flags are those that all specs of arms share."""

    def command(
        ctx: typer.Context, words: Words = None,
        allocators: Allocators = None, input_: Input = None,
        set_: Keys = None,
        max_blocks: MaxBlocks = None, seed: Seed = None,
        store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
        require: Require = None, quiet: Quiet = False,
    ) -> None:  # fmt: skip
        _measure(kind, ctx.params)

    return command


def _detecting(kind: str) -> Callable[..., None]:
    """The same for a kind that can plan its blocks by what is to be detected."""

    def command(
        ctx: typer.Context, words: Words = None,
        allocators: Allocators = None, input_: Input = None,
        set_: Keys = None,
        detect: Detect = None, max_blocks: MaxBlocks = None, seed: Seed = None,
        store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
        require: Require = None, quiet: Quiet = False,
    ) -> None:  # fmt: skip
        _measure(kind, ctx.params)

    return command


def _pairs(words: list[str] | None, flag: str) -> dict[str, str]:
    for word in words or []:
        if "=" not in word:
            raise LabError(f"{flag}: '{word}' is not NAME=VALUE")
    return dict(word.partition("=")[::2] for word in words or [])


def _guardrails(words: list[str]) -> dict[str, str]:
    """Metric -> limit; the pattern of a metric may hold an equals sign, a limit cannot."""
    for word in words:
        if "=" not in word:
            raise LabError(f"--guardrail: '{word}' is not METRIC=PERCENT")
    return dict(word.rpartition("=")[::2] for word in words)


def overrides(params: dict[str, Any]) -> dict[str, Any]:
    """Keys of the spec from the flags that were given."""
    own = {"words", "store", "json", "format_", "require", "quiet", "guardrail", "env", "pin", "set_", "input_",
           "scan_"}  # fmt: skip
    keys = {n.replace("_", "-"): v for n, v in params.items() if n not in own and v not in (None, [], ())}
    if params.get("guardrail"):
        keys["guardrails"] = _guardrails(params["guardrail"])
    if params.get("env"):
        keys["env"] = _pairs(params["env"], "--env")
    if params.get("pin") is not None:
        keys["pin"] = params["pin"].split(",")
    if params.get("input_") is not None:
        keys["stdin"] = check_file(str(params["input_"]), "--input")
    for name, value in _pairs(params.get("set_"), "--set").items():
        keys[name] = value
    return keys


def _measure(kind: str, params: dict[str, Any]) -> None:
    measure_with(kind, params, {})


def measure_with(kind: str, params: dict[str, Any], below: dict[str, Any]) -> None:
    """A run by flags; below: keys of a spec that flags and the command replace."""
    from hakmem_lab import kinds
    from hakmem_lab.run.conduct import Context
    from hakmem_lab.run.endings import Progress, told
    from hakmem_lab.store.runs import default_folder

    check_require(params.get("require"))
    check_json(params["json"])
    check_format(params["format_"], params["json"])
    scans = params.get("scan_") or []
    if scans and params.get("commands"):
        params, scans = params | {"commands": scan.expanded(params["commands"], scans)}, []
    source, spec = _spec_of(kind, params["words"] or [], below | overrides(params))
    if params.get("require") is not None:
        check_verdict(spec)
    context = Context(params["store"] or default_folder(), source, Progress(quiet=params["quiet"]))
    try:
        with told():
            spec = _with_input(spec, context)
            if scans:
                run = partial(kinds.module(kind).run, context=context)
                results = scan.measured(spec, scans, run, context.progress.say)
            else:
                result = kinds.module(kind).run(spec, context)
    except LabError as error:
        raise _named(error, source) from None
    if scans:
        _finish_scan(results, params)
    else:
        finish(result, params["json"], params.get("require"), params["format_"])


def _finish_scan(results: Sequence[dict], params: dict[str, Any]) -> None:
    """One line a value; in JSON a list of results."""
    from hakmem_lab.show import answers, emit
    from hakmem_lab.store.runs import plain

    if (file := params["json"]) is not None:
        emit.write_object(plain([emit.summary(result) for result in results]), file)
    if params["format_"] is not None:
        emit.write_format(results, params["format_"])
    elif str(file) != "-":
        for result in results:
            print(f"{scan.title(result['scan'])}: {answers.explain(result).line} (run {result['id']})")
    for result in results:
        _meet(result, params.get("require"))


def _count_instructions(params: dict[str, Any], ops: str | None) -> None:
    """`hak ab --callgrind`: nothing is stored, since the same count can be had again at any time."""
    from hakmem_lab import kinds
    from hakmem_lab.cli import instructions
    from hakmem_lab.run import callgrind
    from hakmem_lab.run.endings import told

    check_require(params["require"])
    check_json(params["json"])
    if given := next((name for name in ("commands", "scan_", *STEPS) if params.pop(name)), None):
        raise LabError(f"--callgrind: it runs one program on two allocators, without --{given.strip('_')}")
    if params["format_"] is not None:
        raise LabError("--format: counted instructions have no format but that of --json")
    source, spec = _spec_of("ab", params["words"] or [], overrides(params))
    try:
        with told():
            result = callgrind.opinion(spec, kinds.module("ab").arms(spec), ops)
    except LabError as error:
        raise _named(error, source) from None
    instructions.show(result, params["json"])
    _meet(result, params["require"])


def _meet(result: dict, require: str | None) -> None:
    """Raises Exit where another verdict was required."""
    if require is not None and result.get("verdict") != require:
        print(f"hak: the verdict is {result.get('verdict')}, not {require}", file=sys.stderr)
        raise typer.Exit(1)


def _with_input(spec: Any, context: Any) -> Any:
    """The spec, to which what hak itself was given as standard input is added. Raises LabError."""
    if getattr(spec, "stdin", "") is not None:
        return spec
    if getattr(spec, "setup", None) is None:  # which may make the program
        spec.program()  # before a copy is kept for a program that is not there
    return spec.model_copy(update={"stdin": inherited(context.folder, context.progress.say)})


def _named(error: LabError, source: str) -> LabError:
    """The error, led by the spec's file where a spec is what can be put right."""
    if not source.endswith(".toml") or isinstance(error, StoreError) or str(error).startswith(f"{source}: "):
        return error
    return LabError(f"{source}: {error}")


def _spec_of(kind: str, words: list[str], keys: dict[str, Any]) -> tuple[str, Any]:
    """(the spec's file or 'command line', the spec). Raises LabError."""
    from hakmem_lab import kinds
    from hakmem_lab.plan.spec import build

    module = kinds.module(kind)
    if words and words[0].endswith(".toml"):
        if len(words) > 1:
            raise LabError(f"a spec names its own command: drop '{' '.join(words[1:])}' or the spec")
        return words[0], kinds.load_spec(Path(words[0]), kind, keys)
    if "command" not in module.Spec.model_fields and "files" not in keys:
        wrong = f"'{words[0]}' is no spec: " if words else ""
        raise LabError(f"{wrong}hak {kind} takes a file that ends in .toml")
    if words:
        keys["command"] = words
    else:
        keys = kinds.default_values(kind) | keys
    return "command line", build(module.Spec, {"kind": kind} | keys, "command line")


def check_require(require: str | None) -> None:
    if require is not None and require not in complete.VERDICTS:
        raise LabError(f"--require: there is no verdict '{require}': {nearest(require, complete.VERDICTS)}")


def check_verdict(spec: Any) -> None:
    """Raises LabError where a run of this spec has no verdict of its own that --require could be about."""
    kind, why = spec.kind, None
    arms = getattr(spec, "commands", ()) or getattr(spec, "allocators", ())
    if KINDS[kind].each_arm and len(arms) > 2:
        why = f"with {len(arms)} arms each has a verdict of its own; name two"
    elif KINDS[kind].no_verdict:
        why = f"a run of the kind {kind} has none"
    else:
        why = getattr(spec, "unjudged", str)()
    if why:
        raise LabError(f"--require: there will be no verdict: {why}")


def check_json(path: Path | None) -> None:
    """Raises LabError where the result could not be written there: hours later would be too late."""
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise LabError(f"--json: cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise LabError(f"--json: cannot write {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise LabError(f"--json: cannot write {path}: no permission")


def check_format(name: str | None, json_file: Path | None = None) -> None:
    """Raises LabError for an unknown format, and where two things would stand on standard output."""
    from hakmem_lab.show import emit

    if name is not None and name not in emit.FORMATS:
        raise LabError(f"--format: there is no format '{name}': {nearest(name, emit.FORMATS)}")
    if name is not None and str(json_file) == "-":
        raise LabError("--format and --json -: both would write to standard output; name a file for one of them")


def write_result(result: dict, json_file: Path | None, format_: str | None) -> None:
    """To the file, and on standard output in the format, or as tables."""
    from hakmem_lab.show import emit
    from hakmem_lab.show.terminal import render

    check_format(format_, json_file)
    if json_file is not None:  # first: whoever reads the terminal's lines may stop reading
        emit.write_json(result, json_file)
    if format_ is not None:
        emit.write_format([result], format_)
    elif json_file is None or str(json_file) != "-":
        render.show(result)


def finish(result: dict, json_file: Path | None, require: str | None, format_: str | None) -> None:
    write_result(result, json_file, format_)
    _meet(result, require)
