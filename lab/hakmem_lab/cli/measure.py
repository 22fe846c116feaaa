"""From the flags of a command to its result: every flag is a key of the kind's spec, and the other way round.

`hak KIND SPEC.toml [flags]` runs a spec; flags replace its keys. `hak KIND [flags] -- COMMAND` needs no spec.

`--scan N=1,2,4` asks the same question for every value; `{N}` in the commands stands for it. Usually each value is
measured in a run of its own. With `--commands` (other than the two of an A/B), each value is an arm of one run instead.
The runs of a scan share alpha, so a long scan is no likelier to give a wrong verdict than a single run.
"""

import contextlib
import itertools
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from hakmem_lab.cli.flags import VERDICTS
from hakmem_lab.errors import LabError, Stopped, StoreError, nearest
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.plan.metrics import PATTERN
from hakmem_lab.plan.stdin import check_file, inherited
from hakmem_lab.store.results import Result
from hakmem_lab.system.files import unwritable

Values = dict[str, str]  # of a scan: name -> value
SPREAD = {"--allocators": "SIDE", "--commands": "COMMAND"}


def spread_allocators(words: list[str]) -> list[str]:
    """Rewrite `--allocators A B C` as `--allocators A --allocators B --allocators C`, which the parser needs; the same
    for `--commands`. Raises LabError."""
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


def _pairs(words: list[str] | None, flag: str, form: str = "NAME=VALUE", split=str.partition) -> dict[str, str]:
    for word in words or []:
        if "=" not in word:
            raise LabError(f"{flag}: '{word}' is not {form}")
    return dict(split(word, "=")[::2] for word in words or [])


def overrides(params: dict[str, Any]) -> dict[str, Any]:
    own = {"words", "store", "json", "format_", "require", "quiet", "guardrail", "env", "pin", "expect_exit", "set_",
           "input_", "scan_", "gate"}  # fmt: skip
    keys = {n.replace("_", "-"): v for n, v in params.items() if n not in own and v not in (None, [], ())}
    if keys.get("allocators"):
        keys["allocators"] = [name for text in keys["allocators"] for name in separated(text)]
    if keys.get("server"):
        keys["server"] = {"command": keys["server"]}
    _say_no_shell(params.get("commands") or [])
    first, *further = _metrics(keys.get("metric"))
    if further:
        keys |= {"metric": first, "also": [*keys.get("also", []), *further]}
    if params.get("guardrail"):  # rpartition: a metric's pattern may contain an equals sign
        keys["guardrails"] = _pairs(params["guardrail"], "--guardrail", "METRIC=PERCENT", str.rpartition)
    if params.get("gate") is not None:
        keys["guardrails"] = dict.fromkeys((first or "wall", *further), params["gate"]) | keys.get("guardrails", {})
    if params.get("env"):
        keys["env"] = _pairs(params["env"], "--env")
    for name, key in (("pin", "pin"), ("expect_exit", "expect-exit")):
        if params.get(name) is not None:
            keys[key] = params[name].split(",")
    if params.get("input_") is not None:
        keys["stdin"] = check_file(str(params["input_"]), "--input")
    return keys | _pairs(params.get("set_"), "--set")


def _metrics(text: str | None) -> list[str | None]:
    """The metrics of `allocated,calls`; a pattern may contain commas."""
    return [text] if text is None or text.startswith(PATTERN) else [*text.split(",")]


def separated(text: str) -> list[str]:
    """The arms of `glibc,hakmem,NAME=VALUE`: a variable belongs to the allocator before it, here to hakmem."""
    names, equals, _ = text.partition("=")
    alone = names.split(",")[: -2 if equals else None]
    own = text[len("".join(f"{name}," for name in alone)) :]
    return [name.strip() for name in (*alone, own) if name.strip()]


OF_A_SHELL = {"<", ">", ">>", "2>", "2>&1", "|", "&&", "||", ";", "&"}


def _say_no_shell(commands: Sequence[str]) -> None:
    """Print a hint if a command has a word that only a shell understands."""
    for command in commands:
        with contextlib.suppress(ValueError):  # unclosed quotes, which are reported elsewhere
            if found := OF_A_SHELL.intersection(words := shlex.split(command)):
                first = next(word for word in words if word in found)
                hint = "--input FILE is its standard input; sh -c '...' runs a shell"
                print(f"hak: no shell is used: {words[0]} is given '{first}' as an argument. {hint}", file=sys.stderr)


def measure(kind: str, params: dict[str, Any], below: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Parse, plan, run and judge, show. below: keys of the spec, which the flags and the command override."""
    from hakmem_lab import kinds
    from hakmem_lab.run.endings import told

    check_output(params["json"], params["format_"], params.get("require"))
    params, scans, parameters = _scan_of(kind, params)
    source, spec = spec_of(kind, params["words"] or [], {**below, **overrides(params)})
    if params.get("require") is not None:
        check_verdict(spec)
    context, results = _context(params, source, spec, parameters), []
    try:
        with told():
            for values, each in _planned(spec, params, scans, context):
                results.append(kinds.module(kind).run(each, context) | ({"scan": values} if values else {}))
    except LabError as error:
        raise named(error, source) from None
    if scans:
        _finish_scan(results, params)
    else:
        finish(results[0], params["json"], params.get("require"), params["format_"])
    if params.get("gate") is not None:
        _pass(results)


def _scan_of(kind: str, params: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[Values]]:
    """(the parameters, the scans with a run for each value, the values of each command where these share a run)."""
    scans, commands = params.get("scan_") or [], params.get("commands")
    if not scans or not commands or (kind == "ab" and len(commands) == 2):
        return params, scans, []
    every = expanded(commands, scans)
    return params | {"commands": [*every]}, [], [*every.values()]


def _context(params: Mapping[str, Any], source: str, spec: Any, parameters: list[Values]) -> Any:
    from hakmem_lab.run.conduct import Context
    from hakmem_lab.run.endings import Progress
    from hakmem_lab.store.runs import default_folder

    progress = Progress(quiet=params["quiet"])
    progress.limits, progress.parameters = limits(params, spec), parameters
    progress.server_flag = "--server COMMAND or " if "server" in params else ""
    return Context(params["store"] or default_folder(), source, progress)


def _planned(spec: Any, params: Mapping[str, Any], scans: Sequence[str], context: Any) -> Iterator[tuple[Values, Any]]:
    """The specs to run, each with its values of a scan."""
    spec = with_those_there(spec, context.source, params, context.progress.warn_early)
    for values, each in specs(_with_input(spec, context), scans):
        if values:
            context.progress.say(f"scan: {title(values)}")
            context.progress.parameters = [values]
        yield values, each


def limits(params: Mapping[str, Any], spec: Any) -> list[str]:
    """How a user can limit the time of one execution: by a flag, if the command has one, or by a key of the spec."""
    if KINDS[spec.kind].mixed:
        return ["the workload's timeout"]
    if "timeout" not in type(spec).model_fields:
        return []
    flag = "--timeout 60s" if "timeout" in params else "--set timeout=60s" if "set_" in params else ""
    return [flag, "the spec's timeout"] if flag else ["the spec's timeout"]


def with_those_there(spec: Any, source: str, params: Mapping[str, Any], warn: Callable[[str], None]) -> Any:
    """The spec without the allocators that are not installed, with a warning, unless the user has named them.

    The user has not named the allocators of a kind's default or of the checkout's own suites.
    """
    from hakmem_lab.plan import peers, project

    top = project.root()
    own = KINDS[spec.kind].mixed and top is not None and Path(source).absolute().is_relative_to(top / "experiments")
    named = "allocators" in spec.model_fields_set and not own
    if named or params.get("allocators") or KINDS[spec.kind].many or getattr(spec, "commands", ()):
        return spec
    wanted = [getattr(spec, key, None) for key in ("baseline", "subject", "reference")]
    arms = [text for text in getattr(spec, "allocators", ()) if text not in wanted]
    missing = peers.lacking(dict.fromkeys(text.partition(",")[0] for text in arms))
    if not missing:
        return spec
    warn(f"not compared, since not installed: {', '.join(missing)}; to install all of them: {peers.remedy(missing)}")
    left = [text for text in spec.allocators if text in wanted or text.partition(",")[0] not in missing]
    return spec.model_copy(update={"allocators": left})


def _finish_scan(results: Sequence[Result], params: dict[str, Any]) -> None:
    """Show the results of a scan: one line for each value, or in JSON a list. Raises Exit for --require."""
    from hakmem_lab.judge import explain
    from hakmem_lab.show import formats
    from hakmem_lab.store.runs import plain

    if (file := params["json"]) is not None:
        formats.write_object(plain([formats.summary(result) for result in results]), file)
    if params["format_"] is not None:
        formats.write_format(results, params["format_"])
    elif str(file) != "-":
        for warning in dict.fromkeys(text for result in results for text in result["warnings"]):
            print(f"warning: {warning}")
        for result in results:
            print(f"{title(result['scan'])}: {explain.explain(result).line} (run {result['id']})")
    for result in results:
        meet(result, params.get("require"))


def meet(result: Result, require: str | None) -> None:
    """Raises Exit if the result has another verdict than the required one."""
    if require is not None and result.get("verdict") != require:
        print(f"hak: the verdict is {result.get('verdict')}, not {require}", file=sys.stderr)
        raise typer.Exit(1)


def _pass(results: Sequence[Result]) -> None:
    """Raises Exit unless every limit on every side is certainly held."""
    for result in results:
        there, wanted = result["guardrails"], len(result["watched"]) * (len(result["arms"]) - 1)
        if broken := [f"{row['metric']} ({row['status']})" for row in there if row["status"] != "held"]:
            print(f"hak: the gate is not passed: {', '.join(dict.fromkeys(broken))}", file=sys.stderr)
        elif len(there) < wanted:
            print("hak: the gate is not passed: a side has no figures", file=sys.stderr)
        else:
            continue
        raise typer.Exit(1)


def _with_input(spec: Any, context: Any) -> Any:
    """The spec; if it names no input, hak's own standard input becomes the program's. Raises LabError."""
    if getattr(spec, "stdin", "") is not None:
        return spec
    if getattr(spec, "setup", None) is None:  # setup may build the program
        spec.program()  # raises if there is no program, before the input is copied
    return spec.model_copy(update={"stdin": inherited(context.folder, context.progress.say)})


def named(error: LabError, source: str) -> LabError:
    """The error, with the spec's file in front if the user can correct it there."""
    if not source.endswith(".toml") or isinstance(error, StoreError) or str(error).startswith(f"{source}: "):
        return error
    return LabError(f"{source}: {error}")


def spec_of(kind: str, words: list[str], keys: dict[str, Any]) -> tuple[str, Any]:
    """(the spec's file or 'command line', the spec). Raises LabError."""
    from hakmem_lab import kinds
    from hakmem_lab.plan.model import build

    module = kinds.module(kind)
    if words and words[0].endswith(".toml"):
        if len(words) > 1:
            raise LabError(f"a spec names its own command: drop '{' '.join(words[1:])}' or the spec")
        return words[0], kinds.load_spec(Path(words[0]), kind, keys)
    if "command" not in module.Spec.model_fields and "files" not in keys:
        wrong = f"'{words[0]}' is no spec: " if words else ""
        raise LabError(
            f"{wrong}hak {kind} takes a spec, whose name ends in .toml: docs/lab/howto-suite.md shows how to write one"
        )
    if words:
        keys["command"] = words
    else:
        keys = kinds.default_values(kind) | keys
    return "command line", build(module.Spec, {"kind": kind} | keys, "command line")


def check_output(json_file: Path | None, format_: str | None, require: str | None) -> None:
    """Raises LabError if these flags ask for an unknown verdict or format, or for a file that cannot be written."""
    if require is not None and require not in VERDICTS:
        raise LabError(f"--require: there is no verdict '{require}': {nearest(require, VERDICTS)}")
    if json_file is not None and str(json_file) != "-" and (why := unwritable(json_file)):
        raise LabError(f"--json: cannot write {json_file}: {why}")
    check_format(format_, json_file)


def check_verdict(spec: Any) -> None:
    """Raises LabError if a run of this spec will not have one verdict to compare with --require."""
    if why := getattr(spec, "unjudged", str)():
        raise LabError(f"--require: there will be no verdict: {why}")


def check_format(name: str | None, json_file: Path | None = None) -> None:
    """Raises LabError for an unknown format, or if two outputs would go to standard output."""
    from hakmem_lab.show import formats

    if name is not None and name not in formats.FORMATS:
        raise LabError(f"--format: there is no format '{name}': {nearest(name, formats.FORMATS)}")
    if name is not None and str(json_file) == "-":
        raise LabError("--format and --json - cannot both write to standard output; name a file: --json FILE")


def write_result(result: Result, json_file: Path | None, format_: str | None, every: bool = False) -> None:
    """Write the result to the file, and to standard output in the format or as tables. every: all warnings."""
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal import render

    check_format(format_, json_file)
    if json_file is not None:  # first: writing to standard output may fail on a closed pipe
        formats.write_json(result, json_file)
    if format_ is not None:
        formats.write_format([result], format_)
    elif json_file is None or str(json_file) != "-":
        render.show(result, every)


def finish(result: Result, json_file: Path | None, require: str | None, format_: str | None) -> None:
    write_result(result, json_file, format_)
    if failed := result.get("incomplete"):
        raise Stopped(f"{'; '.join(failed)}. Go on, when that is mended, with: hak runs resume {result['id']}")
    meet(result, require)


SCANNED = ("command", "commands", "setup", "prepare", "cleanup", "check", "env", "stdin", "cwd")


def combinations(scans: Sequence[str]) -> list[Values]:
    """Every combination of the values of `NAME=V,V,...`, where `\\,` is a comma in a value. Raises LabError."""
    found: dict[str, list[str]] = {}
    for text in scans:
        name, _, values = text.partition("=")
        apart = re.sub(r"\\([\\,])|,", lambda found: found[1] or "\0", values)
        found[name] = [value.strip() for value in apart.split("\0")]
        if not name.isidentifier() or not all(found[name]) or len(set(found[name])) < len(found[name]):
            raise LabError(f"--scan: '{text}' is not NAME=VALUE,VALUE,... with every value once")
        if name in ("seed", "port", "ops"):
            raise LabError(f"--scan: {{{name}}} has another meaning already; choose another name")
    return [dict(zip(found, values, strict=True)) for values in itertools.product(*found.values())]


def title(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def filled(written: Any, values: Mapping[str, str]) -> Any:
    """A string, or a list or mapping of strings, with the values in place of their names."""
    if isinstance(written, str):
        for name, value in values.items():
            written = written.replace(f"{{{name}}}", value)
        return written
    if isinstance(written, Mapping):
        return {key: filled(each, values) for key, each in written.items()}
    return [filled(each, values) for each in written] if isinstance(written, list) else written


def expanded(commands: Sequence[str], scans: Sequence[str]) -> dict[str, Values]:
    """Every command with every combination of values -> the values that it uses; they become the arms of one run."""
    found: dict[str, Values] = {}
    for command in commands:
        for values in combinations(scans):
            used = {name: value for name, value in values.items() if f"{{{name}}}" in command}
            found.setdefault(filled(command, values), used)
    return found


def specs(spec: Any, scans: Sequence[str]) -> list[tuple[Values, Any]]:
    """(values, the spec with these values) for every combination; without a scan, the spec alone. Raises LabError."""
    if not scans:
        return [({}, spec)]
    every = combinations(scans)
    written = {name: getattr(spec, name) for name in SCANNED if hasattr(spec, name)}
    for name in every[0]:
        if filled(written, {name: ""}) == written:
            raise LabError(f"--scan {name}: the command has no {{{name}}}")
    alpha = spec.alpha / len(every)
    return [(values, spec.model_copy(update={"alpha": alpha} | filled(written, values))) for values in every]
