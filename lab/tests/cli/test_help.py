"""Every option in a command's help exists: it is a key of the spec, or an option of the command itself."""

import functools

import pytest
import typer

from hakmem_fleet import command as fleet
from hakmem_lab import kinds
from hakmem_lab.cli import measure
from hakmem_lab.cli.commands import app, chosen
from hakmem_lab.plan.kinds import KINDS

# Options that are not keys of the spec (None), or that have another name than their key.
OF_THE_COMMAND = {
    "ab": {"callgrind": None, "ops": None},
    "compare": {"control": "baseline", "treatment": None, "link": "names"},
    "judge": {"header": None},
    "tune": {"least": "metric", "most": "metric", "subject_to": "guardrails", "read": "readings"},
    "fleet": dict.fromkeys({*fleet.FLAGS} - {*fleet.OF_THE_SPEC}),
    "baseline compare": {"file": "control"},
}
KIND_OF = {"bench": "suite", "baseline compare": "ab"}
GIVEN = {"guardrail": ["rss=5%"], "env": ["A=1"], "pin": "0", "set_": ["question=x"], "input_": "/etc/hostname"}


@functools.cache
def commands() -> dict[str, typer.core.TyperCommand]:
    """Name -> command, for all commands that measure or judge."""
    found = dict(typer.main.get_command(app).commands)
    found["baseline compare"] = found.pop("baseline").commands["compare"]
    return {name: each for name, each in found.items() if KIND_OF.get(name, name) in KINDS}


def keys_of(name: str, option: str) -> set[str | None]:
    """The keys of the spec that this option sets."""
    if option in OF_THE_COMMAND.get(name, {}):
        return {OF_THE_COMMAND[name][option]} - {None}
    return {*measure.overrides({option: GIVEN.get(option, "1")})}


def shown(name: str) -> list[str]:
    return [param.name for param in commands()[name].params if not getattr(param, "hidden", False)]


def refused(name: str, options: list[str]) -> list[str]:
    spec = kinds.module(KIND_OF.get(name, name)).Spec
    known = {field.alias or key for key, field in spec.model_fields.items()}
    return [option for option in options if not keys_of(name, option) <= known]


def test_every_kind_has_a_command():
    assert {KIND_OF.get(name, name) for name in commands()} == {*KINDS}


@pytest.mark.parametrize("name", commands())
def test_an_option_that_is_shown_is_a_key_of_the_kind(name):
    assert refused(name, shown(name)) == []


@pytest.mark.parametrize("name", commands())
def test_a_verdict_can_be_required_where_that_is_shown(name):
    none = KIND_OF.get(name, name) in ("matrix", "aa")
    assert ("require" in shown(name)) is not none


def test_an_option_of_another_kind_is_seen():
    assert refused("soak", ["allocator", "allocators", "max_blocks"]) == ["allocators", "max_blocks"]


@pytest.mark.parametrize(("kind", "key"), [("matrix", "factors"), ("sweep", "candidates")])
def test_a_command_is_not_offered_where_only_a_spec_has_the_arms(here, store, kind, key):
    (words,) = (param for param in commands()[kind].params if param.name == "words")
    assert "command" not in words.help
    assert "is missing" in here(kind, "--", "true").message()
    assert kinds.module(kind).Spec.model_fields[key].is_required()


def test_a_soak_takes_its_allocator(here, store):
    answer = here("soak", "--allocator", "no-such-one", "--quiet", "--", "true")
    assert "there is no allocator 'no-such-one'" in answer.message()
    assert "--allocator" in here("soak", "--allocators", "glibc", "--", "true").message()


def test_a_command_waits_for_no_other_one_s_parser():
    """A known command loads only its own parser. An unknown word loads all parsers."""
    for word in commands().keys() & {"ab", "bench", "fleet"} | {"runs", "run", "heap"}:
        assert list(typer.main.get_command(chosen([word, "--help"])).commands) == [word]
    assert all(chosen(words) is app for words in ([], ["no-such-command"], ["--help"]))
