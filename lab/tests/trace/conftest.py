"""Traces written and printed by the format's own code, under sanitizers, as scripts of lines: see write_trace.c."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hakmem_lab.trace import READER, SOURCES, WRITER, sources

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))  # pytest's importlib mode does not: `crafted` lies beside the tests
FLAGS = ("-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def built(common, compile_once) -> Callable[..., Path]:
    """built(source or None, patterns of the lab's sources…): a program of this folder, or of the lab alone.

    beside: more sources of this folder.
    """
    folder = common("sanitized")

    def make(source: str | None, *patterns: str, beside: Sequence[str] = ()) -> Path:
        path = folder / (Path(source).stem if source else Path(patterns[0]).parent.name)
        units = [each for each in sources(*patterns) if each.suffix == ".c"]
        units += [FOLDER / each for each in ([source] if source else []) + [*beside]]
        words = ["cc", *FLAGS, *SANITIZE, "-I", SOURCES, *units, "-lzstd", "-lz", "-lm", "-pthread"]
        return compile_once(path, words)

    return make


@pytest.fixture(scope="session")
def plain(common, compile_once) -> Callable[[str], Path]:
    """plain(source): a program of this folder as users have them, without sanitizers."""
    folder = common("plain")

    def make(source: str) -> Path:
        words = ["cc", "-w", "-O1", "-fno-builtin", "-pthread", FOLDER / source, "-ldl"]
        return compile_once(folder / Path(source).stem, words)

    return make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a trace is to be."""
    return tmp_path / "program.trace"


@pytest.fixture
def written(built, tmp_path: Path) -> Callable[..., Path]:
    """written(lines, refused=what it says, None: anything): the file of the trace that these lines make."""

    def write(lines: Sequence[str], refused: str | None = "", name: str = "trace", **keywords) -> Path:
        path = tmp_path / name
        program = built("write_trace.c", WRITER)
        script = "".join(f"{line}\n" for line in lines)
        done = subprocess.run([program, path], input=script, capture_output=True, text=True, check=False, **keywords)
        assert (done.returncode, done.stderr) == (0, "")
        assert refused is None or done.stdout == refused
        return path

    return write


@pytest.fixture
def printed(built) -> Callable[..., list[str]]:
    """printed(path): its lines. With `mistake` in place of them where it is damaged: the one line that says so."""

    def read(path: Path, batch: int = 4096) -> list[str]:
        program = built("print_trace.c", READER)
        done = subprocess.run([program, path, str(batch)], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        if done.returncode == 1:
            assert len(done.stderr.splitlines()) == 1, done.stderr
            return [f"mistake {done.stderr.strip()}"]
        return done.stdout.splitlines()

    return read


@pytest.fixture(scope="session")
def counter(built) -> Path:
    """The program that counts what is in a trace, under sanitizers."""
    return built(None, "stats/*.c", READER)
