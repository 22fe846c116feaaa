"""Every program that the scripts of a first build call is in a minimal Debian, or bootstrap installs it."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = (
    "Makefile",
    *(f"scripts/{name}" for name in ("common.sh", "bootstrap", "venv", "site", "dist", "uninstall", "pgo", "recipes")),
)
# A word that a shell takes as a command: at the start of a line, or after an operator, a keyword or a command prefix.
COMMAND = re.compile(
    r"(?:^|[|;&({`!]|\$\(|\b(?:then|do|else|if|while|exec|env|xargs|watched|as_root)\s)[\s@!{(]*"
    r"(?:[A-Z_]+=\S*\s+)*([a-z][a-z0-9+._-]*)(?=[\s;)]|$)"
)
# The scripts can do without these; only users other than root need sudo.
OPTIONAL = {"npm", "sudo", "aa"}
pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this is no Debian")


def listed(group):
    text = (ROOT / "scripts" / "bootstrap").read_text(encoding="utf-8")
    return set(re.search(rf'^{group}_packages="([^"]*)"', text, re.M)[1].split())


@cache
def packages():
    """Installed package -> (whether every Debian system has it, the packages it depends on)."""
    form = "${Package}\t${Essential}\t${Priority}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    told = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in told.splitlines()]
    provided = {word.split()[0]: row[0] for row in rows for word in row[4].split(",") if word.strip()}
    found = {}
    for name, essential, priority, depends, _ in rows:
        words = {re.sub(r":\w+", "", word.split()[0]) for word in re.split("[,|]", depends) if word.strip()}
        found[name] = essential == "yes" or priority == "required", {provided.get(word, word) for word in words} | words
    return found


def brought(names):
    """These packages and all their dependencies."""
    found, new = set(), set(names)
    while new:
        found |= new
        new = {other for name in new & packages().keys() for other in packages()[name][1]} - found
    return found


def called(text):
    text = re.sub(r'^\s*\w+_packages\+?="[^"]*"', "", text, flags=re.M)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return {word for line in lines for word in COMMAND.findall(line)}


def owners(names):
    """Program -> its package; None if the name is a function or a shell builtin, or is not installed. One call of dpkg
    for all names, since each takes a tenth of a second."""
    ways = {}
    for name in names:
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        places = [path, str(Path(path).resolve())] if path else []
        ways[name] = [way for place in places for way in (place, place.removeprefix("/usr"))]
    asked = ["dpkg-query", "-S", *(way for each in ways.values() for way in each)]
    lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    found = {path: package.partition(":")[0] for package, _, path in (line.partition(": ") for line in lines)}
    return {name: next((found[way] for way in each if way in found), None) for name, each in ways.items()}


@cache
def there():
    everywhere = {name for name, (essential, _) in packages().items() if essential}
    # The packages of README's first line, and apt, which installs them.
    return brought(everywhere | {"apt", "make", "git", "ca-certificates"} | listed("build"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_calls_is_there(script):
    words = called((ROOT / script).read_text(encoding="utf-8")) - OPTIONAL
    assert words
    assert {word: package for word, package in owners(words).items() if package and package not in there()} == {}


def test_a_program_that_no_list_brings_is_seen():
    words = called("x() {\n  strace -f true | gdb -p 1\n}\n[ -d y ] || redis-server\n")
    assert {"strace", "gdb", "redis-server"} <= words
    assert not there() & {"strace", "gdb", "redis-server"}
    assert {"gcc", "cmake", "ninja-build", "python3-venv", "coreutils", "tar"} <= there()


@pytest.mark.parametrize("preset", ["release"])
def test_the_tools_of_cmake_are_on_the_list(preset):
    """Checks the generator and compilers of the presets, and the programs that the CMake files look for."""
    own = [ROOT / "CMakePresets.json", ROOT / "CMakeLists.txt", *(ROOT / "scripts" / "cmake").glob("*.cmake")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in own)
    assert "Ninja" in text
    assert {"ninja-build", "cmake", "gcc", "g++"} <= listed("build")
    wanted = re.findall(r"find_program\(\s*\S+\s+(?:NAMES\s+)?\S+[^)]*\)", text)
    assert [words for words in wanted if "REQUIRED" in words] == []
