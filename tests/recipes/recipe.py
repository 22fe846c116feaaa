"""Runs what a recipe says: every `sh` block of its section "Try it", in order, as one script in a folder of its own.

usage: recipe.py PAGE HAKMEM HAK

The page names the programs that it is about in a comment, <!-- needs: redis-server redis-cli -->; where one is missing
it is skipped. What it starts is ended with it. Its other blocks are checked as far as that is possible without a system
to change: units of systemd by systemd-analyze, supervisor's sections by their form, and a preloaded path has to be the
one that is installed.
"""

import configparser
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77
PATIENCE_S = 120  # of a processor for itself
INSTALLED = "/usr/local/lib/libhakmem.so"


def skip(why: str) -> None:
    print(f"skipped: {why}")
    sys.exit(SKIP)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def needs(text: str) -> list[str]:
    found = re.search(r"^<!-- needs: (.*?) -->$", text, re.MULTILINE)
    return found.group(1).split() if found else []


def missing(program: str) -> bool:
    """A program, or `python:MODULE`."""
    kind, _, module = program.partition(":")
    if module:
        return subprocess.run([kind, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0
    return shutil.which(program) is None


def ended(process: subprocess.Popen) -> int | str:
    """Its exit status. A second counts less, the more tasks share a processor."""
    left = PATIENCE_S
    while left > 0:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            left -= min(1, (os.cpu_count() or 1) / max(os.getloadavg()[0], 0.1))
    return "over its time"


def run(script: str, commands: list[Path]) -> None:
    """The script, with these commands, and the end of all that it started."""
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder, tempfile.TemporaryDirectory() as programs:
        for each in (folder, programs):
            os.chmod(each, 0o755)  # some services are another user
        for command in commands:  # without what else lies beside them, such as a Python
            (Path(programs) / command.name).symlink_to(command)
        path = f"{programs}:{os.environ['PATH']}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_"))}
        environment |= {"PATH": path, "HOME": folder, "HAK_STORE": f"{folder}/store"}
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        try:
            status = ended(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if status != 0:
            sys.exit(f"the commands of 'Try it' ended with {status}")


def check_units(text: str) -> None:
    for number, unit in enumerate(blocks(text, "ini")):
        parsed = configparser.ConfigParser(strict=False, interpolation=None)
        parsed.optionxform = str
        parsed.read_string(unit)
        if not parsed.has_section("Service") or shutil.which("systemd-analyze") is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / f"recipe{number}.service"
            place.write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
            (Path(folder) / f"{place.name}.d").mkdir()
            (Path(folder) / f"{place.name}.d" / "hakmem.conf").write_text(unit, encoding="utf-8")
            done = subprocess.run(["systemd-analyze", "verify", "--recursive-errors=no", str(place)],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            said = [line for line in done.stderr.splitlines() if "recipe" in line]
            if said:
                sys.exit(f"systemd-analyze about a drop-in: {said}")


def main() -> None:
    page, hakmem, hak = (Path(word).absolute() for word in sys.argv[1:4])
    text = page.read_text(encoding="utf-8")
    check_units(text)
    for library in re.findall(r"[\w/.-]*/libhakmem\.so[\w.]*", "".join(blocks(text, "[a-z]+"))):
        if library != INSTALLED:
            sys.exit(f"{page.name} names {library}, not {INSTALLED}")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not hak.exists():
        skip(f"{hak} is missing: make lab")
    if absent := [program for program in needs(text) if missing(program)]:
        skip(f"not installed: {' '.join(absent)}")
    section = re.search(r"^## Try it\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    commands = blocks(section.group(1), "sh") if section else []
    if not commands:
        sys.exit(f"{page.name} has nothing to try")
    run("\n".join(commands), [hakmem, hak])


if __name__ == "__main__":
    main()
