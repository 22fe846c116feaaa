"""`hak init KIND -- PROGRAM`: writes a commented spec for the program. A line that begins with `# name =` is an
optional key with a sensible value: remove the `#` to use it."""

import json as codec
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli.flags import JsonFile
from hakmem_lab.errors import LabError, nearest
from hakmem_lab.plan.kinds import KINDS

_HEAD = """\
# {kind}.toml, run by: hak {command_name} {file}
# All keys: docs/lab/reference.md. A flag replaces a key, as in: hak {command_name} {file} {flag}
kind = "{kind}"
question = "{question}"
"""
_COMMAND = """
command = {command}
# cwd = "."
# env = {{ NAME = "value" }}                # for every run
# stdin = "/dev/null"                     # a file that every run reads
# timeout = "300s"                        # longest time of one execution
# pin = [0]                               # processors to run on
"""
_BLOCKS = """
metric = "wall"                           # wall, cpu, rss, faults ... or 'regex:ops/s: (\\d+)'
# higher-is-better = true                 # the metric is a rate, not a cost
margin = "1%"                             # smallest difference that matters
# max-blocks = 40                         # a run ends as soon as its verdict stands
# guardrails = {{ rss = "10%" }}            # must not get worse by more
# prepare = "sync"                        # a line for the shell, before every execution, not measured
# setup = "make"                          # the same, once before everything; cleanup: once after it
"""
_SERVER = """
# The command is the client of a server; {{port}} stands for its port in both:
# server = {{ command = "redis-server --port {{port}} --save ''" }}
"""
_ARMS = """
allocators = ["glibc", "hakmem"]          # an arm is ALLOCATOR[,NAME=VALUE...]
"""
# Kind -> (the question, an example of a flag, the spec below its head). NEEDS: words that the command must contain.
TEMPLATES = {
    "ab": (
        "Is the treatment better than the control?", "--max-blocks 20",
        '\ncontrol = "glibc"                         # what you have: ALLOCATOR[,NAME=VALUE...], hakmem@REVISION\n'
        'treatment = "hakmem"                      # what you would change to\n' + _COMMAND + _BLOCKS
        + '# detect = "2%"                           # enough blocks to show a difference of this size\n' + _SERVER,
    ),
    "matrix": (
        "What does each setting change, and do they act together?", "--max-blocks 20",
        '\nbase = "hakmem"                           # the side with every factor off\n' + _COMMAND + _BLOCKS + _SERVER
        + '\n[factors]                                 # two to five, each NAME=VALUE[,NAME=VALUE...]\n'
        'lean = "HAKMEM_PROFILE=lean"\nhuge = "HAKMEM_HUGE_PAGES=off"\n',
    ),
    "suite": (
        "Is another allocator worth it for our programs?", "--only first",
        _ARMS + '\n[defaults]\ntimeout = "60s"\n\n'
        '[[workload]]                              # repeat for each workload\n'
        'key = "first"\ntitle = "{title}"\ncommand = {command}\n# stdin = "/dev/null"\n'
        '# guardrails = {{ rss = "10%" }}            # not more than 10 % more memory than the first allocator\n'
        '# bars = [{{ against = "glibc", at-most = 1.0 }}]  # target: at most the time of glibc\n',
    ),
    "soak": (
        "Does memory grow?", "--allocator glibc",
        '\nallocator = "hakmem"\n' + _COMMAND
        + '\nduration = "10m"                          # {{seconds}} in the command\n'
        'budget = "1 MiB/h"                        # growth that is tolerated\n'
        '# sample-interval = "1s"\n' + _SERVER,
    ),
    "latency": (
        "Which allocator keeps the tail of a request short?", "--max-blocks 20",
        _ARMS + _COMMAND
        + '\nrate = 1000                               # requests a second: {{rate}} in the command\n'
        'duration = "2s"                           # of one run: {{seconds}} in the command\n'
        'metric = "p99"                            # the percentile that the verdict is about\nmargin = "5%"\n'
        '# value-unit = "us"                       # of lines `response NANOSECONDS COUNT`, or of a histogram\n',
    ),
}  # fmt: skip
NEEDS = {"latency": ("{rate}", "{seconds}")}


def init(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="ab, matrix, suite, soak, latency")],
    words: Annotated[list[str], typer.Argument(metavar="-- PROGRAM", help="The program and its arguments")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file (default: KIND.toml)")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file")] = False,
    json: JsonFile = None,
) -> None:
    """Write a spec with comments for a program, to be edited and run."""
    from hakmem_lab.show import formats

    if kind not in TEMPLATES:
        raise LabError(f"hak init: there is no spec of the kind '{kind}': {nearest(kind, TEMPLATES)}")
    file = output or Path(f"{kind}.toml")
    if file.suffix != ".toml":
        raise LabError(f"--output: a spec ends in .toml, unlike {file}")
    if file.exists() and not force:
        raise LabError(f"{file} exists: give another name (--output), or --force to overwrite it")
    formats.write_text(text_of(kind, words, file), file, "--output")
    missing = [word for word in NEEDS.get(kind, ()) if not any(word in each for each in words)]
    hint = f"; put {' and '.join(missing)} into its command" if missing else ""
    said = f"{file} is written{hint}. Edit it, then: hak {KINDS[kind].called} {file}"
    formats.put({"file": str(file), "kind": kind, "missing": missing}, json, lambda: print(said))


def text_of(kind: str, words: list[str], file: Path) -> str:
    """The text of the spec. A JSON string is also a valid TOML string."""
    question, flag, body = TEMPLATES[kind]
    command, title = codec.dumps(words, ensure_ascii=False), codec.dumps(" ".join(words), ensure_ascii=False)[1:-1]
    names = {"kind": kind, "command_name": KINDS[kind].called, "file": file, "flag": flag}
    return (_HEAD + body).format(**names, question=question, command=command, title=title)


def register(app: typer.Typer) -> None:
    app.command("init")(init)
