"""scripts/bootstrap installs the missing packages that `make` needs, or names them if it cannot install them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMON = (
    "bash", "sh", "sed", "tr", "sort", "comm", "cat", "dirname", "nproc", "head", "tail",
    "date", "mktemp", "rm", "tee", "chmod", "env", "cut", "python3", "id", "make", "git",
)  # fmt: skip
BUILDING = ("gcc", "g++", "cmake", "ninja", "ar", "objcopy")


@pytest.fixture
def system(tmp_path):
    """system(tools, NAME=SCRIPT…): runs bootstrap with a PATH that has only these tools and scripts."""

    def call(tools, *groups, **scripts):
        for name in (*COMMON, *tools):
            if name not in scripts and (found := shutil.which(name)):
                (tmp_path / name).symlink_to(found)
        for name, text in scripts.items():
            path = tmp_path / name.replace("_", "-")
            path.unlink(missing_ok=True)
            path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            path.chmod(0o755)
        words = [ROOT / "scripts" / "bootstrap", *(groups or ["build"])]
        return subprocess.run(
            words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=600
        )

    return call


def test_what_is_there_by_other_means_is_not_installed(system):
    done = system(BUILDING)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_on_another_system_what_is_missing_is_named(system):
    done = system(set(BUILDING) - {"cmake", "ninja"})
    assert done.returncode == 1
    assert re.search(
        "not a Debian system; install what these packages of Debian hold.*: cmake ninja-build$", done.stderr
    )


def test_without_root_and_sudo_the_command_for_root_is_said(system):
    done = system({"gcc", "g++", "ar", "objcopy"}, dpkg_query="", apt_get="exit 1", id="echo 1000")
    assert done.returncode == 1
    command = "apt-get update && apt-get install -y --no-install-recommends cmake ninja-build"
    assert done.stderr.strip().endswith(f"there is no sudo; as root: {command}")


def test_where_sudo_refuses_the_command_for_root_is_said(system):
    done = system({"gcc", "g++", "ar", "objcopy"}, dpkg_query="", apt_get="exit 1", id="echo 1000", sudo="exit 1")
    assert done.returncode == 1
    assert "sudo does not let this user in; as root: apt-get update" in done.stderr


def test_where_apt_fails_the_command_is_said(system):
    # Bootstrap writes /usr/sbin/policy-rc.d by sudo if there is none; this sudo runs only env and apt-get.
    done = system({"gcc", "g++", "ar", "objcopy", "sleep"}, dpkg_query="", apt_get="echo no network; exit 100",
                  id="echo 1000", sudo='case $1 in -v) ;; env|apt-get) "$@" ;; esac')  # fmt: skip
    assert done.returncode == 1
    assert "no network" in done.stderr
    assert "By hand, as root: apt-get update && apt-get install" in done.stderr


def made(*words: str) -> str:
    """What make prints, which does nothing itself."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", "-C", ROOT, *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def targets() -> set[str]:
    """The phony targets of the Makefile, with its variables expanded."""
    return {word for line in re.findall(r"^\.PHONY: (.*)$", made("-pq"), re.M) for word in line.split()}


# `make` as a command: in backticks, at the start of a line in a code block, or after another command or a prompt.
NAMED = re.compile(r"(?:^|`|sudo |&& *|; *|\$ |\\fB)make((?: +[a-z][a-z_-]*)+)(?=[\s`;:,.|)]|\\fR|$)", re.M)
# Targets of other projects, which recipes build by make.
OF_OTHERS = {"half", "target"}


def _named():
    """(file, target) for every `make TARGET` in the documents, except in records of the past."""
    files = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "*.md", "docs/man", ":!CHANGELOG.md", ":!docs/experiments", ":!results"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in files:
        for words in NAMED.findall((ROOT / name).read_text(encoding="utf-8")):
            yield from ((name, word) for word in words.split())


def test_the_documents_name_targets_that_there_are(targets):
    named = set(_named())
    assert {"demo", "test", "peers", "install", "uninstall", "site", "perf_fast"} <= {target for _, target in named}
    assert {(name, target) for name, target in named if target not in targets | OF_OTHERS} == set()


def test_the_long_test_runs_every_target_from_a_fresh_clone(targets):
    script = (ROOT / "packaging" / "tests" / "first").read_text(encoding="utf-8")
    assert "set -- readme $(targets)" in script
    tables = "".join(re.findall(r"declare -A (?:until|commands)=\((.*?)\n\)", script, re.S))
    known = re.findall(r"\[([a-z_-]+)\]=", tables)
    assert "test-long" in known
    assert set(known) <= targets


def test_every_target_installs_what_it_needs_before_it_builds(targets):
    assert "test" in targets
    for target in targets - {"clean"}:
        lines = [line.strip() for line in made(target).splitlines() if not line.startswith("make")]
        assert lines[0].startswith("scripts/bootstrap build"), (target, lines[:1])
