"""The commands that measure or judge, one for each kind: a table of them, then the special handling of some."""

import shlex
import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli.flags import JsonFile, arms, beginning, command, metrics, option
from hakmem_lab.cli.measure import check_output, measure, meet, named, overrides, separated, spec_of
from hakmem_lab.errors import LabError
from hakmem_lab.plan.kinds import KINDS

METRIC = "metric label unit higher_is_better margin alpha"
STEPS = "setup prepare cleanup"
RESULT = "store json format_ require quiet"
BLOCKS = f"max_blocks seed {RESULT}"
# Flags of compare that its help does not show, since most are keys of a spec: --set gives them, too.
OF_COMPARE = (
    f"label unit higher_is_better alpha beside_load precondition history rare warm_up pin expect_exit check seed "
    f"question scan_ after gate price {STEPS} store quiet"
)
OF_AB = "looks duet also callgrind ops"
COMMANDS = {
    "compare": (
        "Allocators, settings, builds or commands on one program: time, memory, faults, with verdicts.",
        f"words allocators control treatment metric margin max_blocks detect quick schedule repeat input_ timeout "
        f"guardrail env server commands link set_ json format_ require {OF_COMPARE} baseline {OF_AB}",
    ),
    "ab": (
        "Is the treatment better than the control? GO, NEUTRAL, NO-GO or INCONCLUSIVE, with the interval.",
        "words control treatment metric margin max_blocks detect quick schedule repeat input_ timeout guardrail env "
        f"server commands json format_ require {OF_COMPARE} {OF_AB}",
    ),
    "matrix": (
        "A 2x2 or 2^k design: main effects and interactions, each with its interval.",
        f"words input_ set_ detect {BLOCKS}",
    ),
    "latency": ("Open-loop tail latency, p50 to p99.99.", f"words allocators input_ set_ detect {BLOCKS}"),
    "sweep": ("Choose the best of several sides, then confirm it on fresh runs.", f"words input_ set_ {BLOCKS}"),
    "soak": (
        "One process for minutes to hours: does memory grow, does throughput sag?",
        f"words allocator input_ set_ seed {RESULT}",
    ),
    "syscalls": (
        "System calls per operation in the steady state, per allocator.",
        f"words allocators input_ set_ seed {RESULT}",
    ),
    "aa": (
        "Is this machine fit to measure? One side against itself.",
        f"words allocator {METRIC} max_blocks repeat pin schedule duet input_ seed {STEPS} store json format_ quiet",
    ),
    "tune": (
        "Search allocators and their options, confirm the best one; ends with the line for the service file.",
        "words least most subject_to read allocators default combine budget margin alpha max_blocks repeat pin input_ "
        f"timeout seed env question set_ {RESULT}",
    ),
    "judge": (
        "Verdicts with intervals from the results of other tools; also says what these cannot show.",
        "files header only metric higher_is_better margin alpha interleaved question store json format_ require",
    ),
    "suite": (
        'Workloads of your own on several allocators, with bars to reach: see "A suite of your own" in docs/lab.md.',
        f"words allocators only beside_load precondition budget set_ {BLOCKS}",
    ),
    "replay": (
        "A recorded program on other allocators: time in the allocator, memory, predictions.",
        "words allocators touch processes by live pace baseline metric after margin alpha max_blocks repeat pin "
        f"timeout set_ seed {RESULT}",
    ),
}


def _compare(params: dict[str, Any]) -> None:
    """Two sides by --control and --treatment are an A/B; a spec says by its kind what is compared."""
    from hakmem_lab.plan.model import read_toml

    if (line := params.pop("link")) is not None:
        params |= _linked(line, params)
    words, control = params["words"] or [""], params.pop("control")
    kind = read_toml(Path(words[0])).get("kind", "compare") if words[0].endswith(".toml") else "compare"
    if params["treatment"] is not None or kind == "ab" or params["callgrind"]:
        _ab(params | {"control": control})
        return
    ab_alone = {name: params.pop(name) for name in ("treatment", *OF_AB.split())}
    given = {name: value for name, value in ab_alone.items() if value not in (None, False, [])}
    measure(kind if kind == "sweep" else "compare", params | given | {"baseline": control or params["baseline"]})


def _linked(line: str, params: dict[str, Any]) -> dict[str, Any]:
    """`--link`: the sides are commands, each with a program of its own."""
    from hakmem_lab.plan import linked

    if params["commands"]:
        raise LabError("--link makes the commands of the sides; leave out --commands")
    pair = [side for side in (params["control"], params["treatment"]) if side]
    named = [side for text in params["allocators"] or [] for side in separated(text)]
    sides = named or (pair if len(pair) == 2 else linked.those_there())
    commands = linked.commands(line, sides, params["words"] or [])
    control = params["control"] or params["baseline"] or (linked.MUSL if linked.MUSL in sides else None)
    return {"words": None, "allocators": None, "treatment": None, "control": control, "names": sides} | {
        "commands": [shlex.join(words) for words in commands]
    }


def _ab(params: dict[str, Any]) -> None:
    callgrind, ops = params.pop("callgrind"), params.pop("ops")
    if callgrind:
        _count_instructions(params, ops)
    elif ops is not None:
        raise LabError("--ops needs --callgrind, or hak syscalls")
    else:
        measure("ab", params, _kept_spec(params))


def _kept_spec(params: dict[str, Any]) -> dict[str, Any]:
    """The spec that was kept with the build which is the control; a command or a spec of today replaces it."""
    from hakmem_lab.plan.arms import BASELINE, load_baseline

    control = params.get("control") or ""
    if params["words"] or not control.startswith(BASELINE):
        return {}
    return tomllib.loads(load_baseline(Path(control.removeprefix(BASELINE))).spec or "")


def _count_instructions(params: dict[str, Any], ops: str | None) -> None:
    """`hak compare --callgrind`. Nothing is stored: counting again gives the same result."""
    from hakmem_lab import kinds
    from hakmem_lab.run import callgrind
    from hakmem_lab.run.endings import told
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.counted import show_instructions

    check_output(params["json"], None, params["require"])
    if given := next((name for name in ("commands", "scan_", *STEPS.split()) if params.pop(name)), None):
        raise LabError(f"--callgrind compares one program on two allocators; leave out --{given.strip('_')}")
    if params["format_"] is not None:
        raise LabError("--format: counted instructions are printed as text or with --json; leave it out")
    source, spec = spec_of("ab", params["words"] or [], overrides(params))
    try:
        with told():
            result = callgrind.opinion(spec, kinds.module("ab").sides(spec), ops)
    except LabError as error:
        raise named(error, source) from None
    formats.put(result, params["json"], partial(show_instructions, result))
    meet(result, params["require"])


def _say_header(wanted: bool) -> None:
    if wanted:
        from hakmem_lab.plan import foreign

        print(foreign.HEADER.read_text(encoding="utf-8"), end="")
        raise typer.Exit


def _judge(params: dict[str, Any]) -> None:
    del params["header"]
    measure("judge", params | {"words": None, "quiet": True})


def _tune(params: dict[str, Any]) -> None:
    least, most, limits, read = (params.pop(name) for name in ("least", "most", "subject_to", "read"))
    if least is not None and most is not None:
        raise LabError("--least and --most: name only one metric; make the others limits: --subject-to METRIC=+2%")
    for flag, metric in (("--least", least), ("--most", most)):
        if metric is not None:
            if not metric.strip():
                raise LabError(f"{flag}: no metric is named; name wall, rss, or a figure that the program prints")
            params |= {"metric": metric, "higher_is_better": flag == "--most"}
    below: dict[str, Any] = {}
    if limits:
        below["guardrails"] = _once("--subject-to", map(limit, limits))
    if read:
        below["readings"] = _once("--read", map(_reading, read))
    measure("tune", params, below)


def _once(flag: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict. Raises LabError if a name is given twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise LabError(f"{flag}: '{name}' is given twice")
        found[name] = value
    return found


def _reading(text: str) -> tuple[str, str]:
    name, equals, pattern = text.partition("=")
    if not equals or not pattern.startswith("regex:"):
        raise LabError(f"--read: '{text}' is not NAME=regex:PATTERN")
    return name, pattern


def limit(text: str) -> tuple[str, dict]:
    """(metric, guardrail) for METRIC=+2%, or for METRIC=-2% if the metric must not fall. Raises LabError."""
    name, equals, change = text.rpartition("=")
    sign, size = change[:1], change[1:].removesuffix("%").strip()
    try:
        share = float(size) / 100 if change.endswith("%") else float("nan")
    except ValueError:
        share = float("nan")
    if not equals or not name or sign not in ("+", "-") or not 0 < share < 1:
        raise LabError(f"--subject-to: '{text}' is not METRIC=+N% (may grow by so much) or METRIC=-N% (may fall)")
    if sign == "+":
        return name, {"limit": share}
    return name, {"limit": 1 / (1 - share) - 1, "higher-is-better": True}


def _replay(params: dict[str, Any]) -> None:
    words = params["words"]
    if not words:
        raise LabError("which trace? hak replay TRACE; one is made by: hak record -o TRACE -- COMMAND")
    if len(words) > 1:
        raise LabError(f"one trace at a time, not '{' '.join(words)}'")
    spec = words[0].endswith(".toml")
    params |= {"words": words if spec else []}
    measure("replay", params, {} if spec else {"trace": words[0]})


# hak baseline: keeps an allocator's build in a file, to compare later builds with it

File = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline, such as main.baseline")]
DEFAULT_ARM = "hakmem"


def _register_baseline(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Keep a build to compare later ones with.")
    group.command("save")(_save)
    group.command("compare", help="Compare the baseline with an allocator of today; both run now, block by block.")(
        command(
            f"file words treatment metric higher_is_better margin max_blocks looks repeat seed set_ {RESULT}",
            _compare_baseline,
            file=File,
            treatment=option(str | None, metavar="SIDE", help="The allocator to compare with it (default: hakmem)"),
        )
    )
    app.add_typer(group, name="baseline", hidden=True)


def register_keep(app: typer.Typer) -> None:
    app.command("keep")(_save)


def _save(
    file: File,
    allocator: Annotated[str, typer.Option(metavar="SIDE", help="ALLOCATOR[,NAME=VALUE...]")] = DEFAULT_ARM,
    spec: Annotated[Path | None, typer.Option(help="An ab spec to compare by, with sides of your choice")] = None,
    json: JsonFile = None,
) -> None:
    """Keep an allocator's library and settings, and the spec of the comparison, in one file."""
    from hakmem_lab.plan.arms import parse_arm, save_baseline
    from hakmem_lab.plan.model import read_toml
    from hakmem_lab.show import formats

    text = None
    if spec is not None:
        if read_toml(spec).get("kind", "ab") != "ab":
            raise LabError(f"{spec}: a baseline is compared by a spec of the kind ab")
        text = spec.read_text(encoding="utf-8")
    facts = save_baseline(file, parse_arm(allocator, where="--allocator"), text)
    said = f"{file}: {facts['text']}, {facts['version'] or 'no version'}, sha256 {facts['sha256'][:12]}"
    kept = {"file": str(file)} | {key: facts[key] for key in ("text", "version", "sha256")}
    formats.put(kept, json, lambda: print(said))


def _compare_baseline(params: dict[str, Any]) -> None:
    from hakmem_lab.plan.arms import BASELINE, load_baseline

    file, words = params.pop("file"), params["words"]
    params |= {"control": f"{BASELINE}{file}", "treatment": params["treatment"] or DEFAULT_ARM}
    own_spec = words and words[0].endswith(".toml")
    measure("ab", params, {} if own_spec else tomllib.loads(load_baseline(file).spec or ""))


def workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the last of several comma-separated words with the keys and groups of the suite."""
    from hakmem_lab.plan.model import read_toml

    before, comma, last = incomplete.rpartition(",")
    # While the flag has no value yet, the parser leaves the spec among its remaining words (ctx.args).
    named = [word for word in (*(ctx.params.get("words") or ()), *ctx.args) if word.endswith(".toml")]
    try:
        spec = read_toml(Path(named[0]))
    except (LabError, IndexError):
        return []
    rows = [row for row in spec.get("workload", []) if isinstance(row, dict)]
    known = dict.fromkeys(str(row[key]) for row in rows for key in ("key", "group") if key in row)
    return [before + comma + name for name in beginning(last, known)]


def _words(metavar: str, what: str) -> Any:
    return Annotated[list[str] | None, typer.Argument(metavar=metavar, help=what, show_default=False)]


ONLY = option(str | None, metavar="KEY,KEY...", help="Run only these workloads or groups", autocompletion=workloads)
ROUNDS = option(str | None, help="Start no round of blocks after this time, such as 10m")
# Flags that only one command has, or that mean something else there. A flag that a command cannot honour is hidden, but
# still parsed, so that it gets an error message of its own.
OWN: dict[str, dict[str, Any]] = {
    "compare": {
        "baseline": option(str | None, hidden=True),
        "control": option(
            str | None, metavar="SIDE", help="The side that the others are compared with", autocompletion=arms
        ),
    },
    "matrix": {"words": _words("SPEC.toml", "The spec"), "require": option(str | None, hidden=True)},
    "sweep": {"words": _words("SPEC.toml", "The spec")},
    "tune": {
        "least": option(
            str | None, metavar="METRIC", help="Metric to minimise: wall, rss, p99 …", autocompletion=metrics
        ),
        "most": option(str | None, metavar="METRIC", help="Metric to maximise: a figure that the program prints"),
        "subject_to": option(
            list[str] | None,
            metavar="METRIC=+N%",
            help="Limit on another metric: how much it may grow (+N%), or how far a rate may fall (-N%); repeatable",
        ),
        "read": option(
            list[str] | None, metavar="NAME=regex:PATTERN", help="A figure that the program prints; repeatable"
        ),
        "allocators": option(
            list[str] | None, help="Allocators whose options are tried, or sides to try unchanged", autocompletion=arms
        ),
        "default": option(
            str | None, metavar="SIDE", help="The allocator and options that the program uses now", autocompletion=arms
        ),
        "combine": option(bool | None, "--combine", help="Also try several options of an allocator at once"),
        "budget": option(str | None, help="Time for the whole search, such as 30m"),
    },
    "judge": {
        "files": Annotated[
            list[str],
            typer.Argument(metavar="OLD [NEW]", help="Two files, or one with several benchmarks; -: standard input"),
        ],
        "only": option(str | None, metavar="PATTERN", help="Judge only benchmarks whose names match PATTERN"),
        "metric": option(str | None, metavar="NAME", help="wall, cpu, or as the tool calls it: B/op, allocs/op …"),
        "interleaved": option(bool | None, "--interleaved", help="The runs of both sides alternated: judge in pairs"),
        "header": option(
            bool,
            "--header",
            callback=_say_header,
            is_eager=True,
            help="Print hak_pairs.h, for programs that compare two sides of a library in one process",
        ),
    },
    "suite": {"words": _words("SPEC.toml", "The suite"), "only": ONLY, "budget": ROUNDS},
    "replay": {
        "words": _words("TRACE|SPEC.toml", "A trace, or the spec of a replay"),
        "touch": option(
            str | None, metavar="recorded|all|none", help="How much of each block to write: as recorded, all or none"
        ),
        "processes": option(
            str | None, metavar="N,N", help="Only these processes (default: all with at least 1 % of the operations)"
        ),
        "by": option(str | None, metavar="stack", help="Show which recorded stacks gain from which allocator"),
        "live": option(bool | None, "--live", help="Also run the recorded command, and compare it with the prediction"),
        "pace": option(str | None, metavar="fast|recorded", help="recorded: pause as the program did; fast: do not"),
    },
}
RUN: dict[str, Callable[[dict[str, Any]], None]] = {
    "compare": _compare,
    "ab": _ab,
    "tune": _tune,
    "judge": _judge,
    "replay": _replay,
}


HIDDEN = {"compare": f"{OF_COMPARE} {OF_AB} baseline link"}


def register(app: typer.Typer) -> None:
    for kind, (what, names) in COMMANDS.items():
        made = command(names, RUN.get(kind, partial(measure, kind)), HIDDEN.get(kind, ""), **OWN.get(kind, {}))
        app.command(kind, help=what, hidden=bool(KINDS[kind].command))(made)
    _register_baseline(app)
