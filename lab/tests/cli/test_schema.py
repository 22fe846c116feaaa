"""The output of --json conforms to docs/lab/schema.json, for every command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import typer
from tests.typed import misfits, refused

from hakmem_lab.cli import commands
from hakmem_lab.doctor import CheckRow, Examined, Settings
from hakmem_lab.store.results import Comparison, LimitEnd, Share, Summary

PAGE = Path(__file__).parents[3] / "docs" / "lab" / "schema.json"
# Commands without --json: they become the program, or write a format of their own.
OTHERS = {"run", "mcp"}
ONCE = ("--repeat", "1", "--quiet")
QUICK = ("--max-blocks", "7", *ONCE)
TWO = ("--control", "glibc", "--treatment", "default", *QUICK)
SOAK = [sys.executable, "-c", "import time; time.sleep(30)"]


@pytest.fixture(scope="module")
def schema():
    return json.loads(PAGE.read_text(encoding="utf-8"))


TYPES = {"result": Summary, "instructions": Summary, "comparison": Comparison, "end": LimitEnd, "share": Share,
         "check": CheckRow, "doctor": Examined, "system": Settings}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_type_and_its_description_agree(name, schema):
    assert refused(TYPES[name], schema["$defs"][name], schema["$defs"], name) == []


def checked(schema, command, found):
    own = schema["properties"][command]
    jsonschema.validate(found, {"$defs": schema["$defs"], **own})
    names = [each["$ref"].rpartition("/")[2] for each in own.get("anyOf", [own])]
    if kinds := [TYPES[name] for name in names if name in TYPES]:
        assert min((misfits(found, kind, command) for kind in kinds), key=len) == []
    return found


def with_json():
    group = typer.main.get_command(commands.app).commands
    inner = {f"{name} {sub}": each for name, c in group.items() for sub, each in getattr(c, "commands", {}).items()}
    alone = {
        name: c for name, c in group.items() if not hasattr(c, "commands") and (not c.hidden or name in commands.FORMER)
    }
    return {name: c for name, c in (alone | inner).items() if any("--json" in p.opts for p in c.params)}, alone


def test_every_command_has_json_and_a_schema(schema):
    found, alone = with_json()
    assert set(schema["properties"]) == set(found)
    assert set(alone) - set(found) == OTHERS
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.fixture
def asked(here, schema):
    def call(command, *words):
        answer = here(*command.split(), "--json", "-", *words)
        return checked(schema, command, answer.result())

    return call


def test_a_run_and_what_is_asked_of_it(asked, here, counted, tmp_path):
    made = asked("ab", *TWO, "--beside-load", "--guardrail", "rss=50%", "--", counted)
    for command in ("runs show", "runs resume"):
        assert asked(command)["run"] == made["run"]
    assert asked("runs list")["runs"][0]["run"] == made["run"]
    assert asked("runs report", "-o", tmp_path / "x.html")["page"].endswith("x.html")
    assert asked("runs decide", "last", "adopt")["run"] == made["run"]


@pytest.mark.parametrize("kind", ["compare", "aa", "tune"])
def test_kinds_by_flags(kind, asked, counted):
    arms = {"compare": ("--allocators", "glibc,default"), "tune": ("--allocators", "glibc,default", "--least", "wall")}
    asked(kind, *arms.get(kind, ()), "--max-blocks", "12", *ONCE, "--", counted)


SPECS = {
    "matrix": 'base = "glibc"\nfactors = { a = "A=1", b = "B=1" }\ncommand = "true"\n',
    "sweep": 'default = "glibc"\ncandidates = { x = "default" }\nselect-blocks = 2\ncommand = "true"\n',
    "suite": 'allocators = ["glibc", "default"]\nsubject = "default"\n[[workload]]\nkey = "x"\ncommand = "true"\n',
    "bench": 'kind = "suite"\nallocators = ["glibc", "default"]\nsubject = "default"\n[[workload]]\nkey = "x"\n'
             'command = "true"\n',
    "latency": 'allocators = ["glibc", "default"]\ncommand = ["sh", "-c", "echo response 1000 100"]\n',
}  # fmt: skip


@pytest.mark.parametrize("kind", SPECS)
def test_kinds_by_specs(kind, asked, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPECS[kind].replace("command", "repeat = 1\ncommand"), encoding="utf-8")
    asked(kind, "--max-blocks", "12", "--quiet", path)


def test_a_soak(asked):
    words = ("--set", "duration=4s", "--set", "sample-interval=0.2", "--allocator", "glibc", "--quiet")
    asked("soak", *words, "--", *SOAK)


def test_system_calls_and_instructions(asked, fakes):
    pair = ("--control", "glibc", "--treatment", "default")
    for tool, *words in (("strace", "syscalls", "--allocators", "glibc,default", "--quiet"),
                         ("valgrind", "ab", "--callgrind", *pair)):  # fmt: skip
        if subprocess.run(["which", tool], capture_output=True, check=False).returncode == 0:
            asked(*words, "--", fakes.program, "exit", "0")


def test_a_share(asked, fakes):
    if subprocess.run(["which", "valgrind"], capture_output=True, check=False).returncode == 0:
        asked("share", "--allocators", "glibc", "--", fakes.program, "exit", "0")


def test_traces(asked, tmp_path):
    file = tmp_path / "x.trace"
    record = asked("record", "--stacks", "--rate", "1", "-o", file, "--", sys.executable, "-S", "-c", "pass")
    assert record["complete"] and record["trace"] == str(file)
    asked("trace", file)
    assert "tested" in asked("trace", file, "--by", "pages", "--at", "peak", "--allocator", "glibc")
    asked("replay", "--allocators", "glibc,default", *QUICK, file)


def test_another_tool_s_results(asked, tmp_path):
    rows = [{"command": name, "times": [value + i / 1000 for i in range(8)]} for name, value in (("a", 1), ("b", 2))]
    path = tmp_path / "h.json"
    path.write_text(json.dumps({"results": rows}), encoding="utf-8")
    asked("judge", path)


def test_the_rest(asked, here, fakes, tmp_path):
    asked("doctor", "--", fakes.program, "exit", "0")
    asked("system", "check")
    asked("init", "ab", "-o", tmp_path / "a.toml", "--", "true")
    kept = tmp_path / "k.baseline"
    asked("runs keep", kept)
    asked("baseline compare", kept, "--treatment", "glibc", *QUICK, "--", "true")


def test_a_process(asked, hak):
    command = [sys.executable, "-m", "hakmem_lab.cli.main", "run", "--", "sleep", "60"]
    with subprocess.Popen(command, env=os.environ | {"HAKMEM_HELP": ""}, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(200):
                if Path(f"/proc/{process.pid}/comm").read_text().strip() == "sleep":
                    break
                subprocess.run(["sleep", "0.05"], check=True)
            asked("heap explain", str(process.pid))
        finally:
            process.kill()
