"""Evaluates the Bazel files by a Starlark interpreter, with stand-ins that note down their calls.

usage: bazel_module.py MODULE BUILD EXAMPLE_MODULE EXAMPLE_BUILD VERSION.

An old Bazel reads no MODULE.bazel, and knows rules for C without being told where they are; a current one does neither.
"""

import json
import sys
from pathlib import Path

import starlark as sl

PROVIDED = ("module", "bazel_dep", "local_path_override")
RULES, LOADED = "@rules_cc//cc:defs.bzl", ("cc_library", "cc_binary")


def called(path: str) -> list[tuple[str, dict]]:
    """The calls of one file, in order; it may call nothing but these, glob and repository_name, and what it loads."""
    calls: list[tuple[str, dict]] = []

    def provide(names: tuple[str, ...]) -> sl.Module:
        module = sl.Module()
        for name in names:
            module.add_callable(name, lambda _name=name, **named: calls.append((_name, named)))
        return module

    def load(name: str) -> sl.FrozenModule:
        assert name == RULES, name
        return provide(LOADED).freeze()

    module = provide(PROVIDED)
    module.add_callable("glob", lambda patterns, exclude=(): [each for each in patterns if each not in exclude])
    module.add_callable("repository_name", lambda: "@hakmem")
    parsed = sl.parse(path, Path(path).read_text(encoding="utf-8"), sl.Dialect.standard())
    sl.eval(module, parsed, sl.Globals.standard(), sl.FileLoader(load))
    return calls


def main() -> None:
    recipe, build, example, example_build, version = sys.argv[1:]
    (kind, module), *deps = called(recipe)
    assert (kind, module["name"], module["version"]) == ("module", "hakmem", version), module
    assert {kind for kind, _ in deps} <= {"bazel_dep"}, deps
    assert all(set(named) == {"name", "version"} for _, named in deps), deps
    libraries = {named["name"] for kind, named in called(build) if kind == "cc_library"}
    assert module["name"] in libraries, libraries
    user = called(example)
    asked = {named["name"] for kind, named in user if kind == "bazel_dep"}
    assert asked == {module["name"], RULES.partition("//")[0].strip("@")}, asked
    assert {named["module_name"] for kind, named in user if kind == "local_path_override"} <= asked
    programs = [named for kind, named in called(example_build) if kind == "cc_binary"]
    assert programs
    assert all(named["deps"] == ["@" + module["name"]] for named in programs), programs
    print(json.dumps({"module": module, "needs": [named for _, named in deps]}))


if __name__ == "__main__":
    main()
