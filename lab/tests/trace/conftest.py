"""Fixtures that write and print traces with the format's own code, under sanitizers; scripts: see write_trace.c."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hakmem_lab.trace import READER, SOURCES, WRITER, sources

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))  # for `crafted`; pytest's importlib mode does not do this
FLAGS = ("-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def built(common, compile_once) -> Callable[..., Path]:
    """built(source or None, patterns of the lab's sources…): a program from this folder's source and the lab's sources.

    beside: more sources in this folder.
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
    """plain(source): a program from this folder, built without sanitizers, like users' programs."""
    folder = common("plain")

    def make(source: str) -> Path:
        words = ["cc", "-w", "-O1", "-fno-builtin", "-pthread", FOLDER / source, "-ldl"]
        return compile_once(folder / Path(source).stem, words)

    return make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path for a trace."""
    return tmp_path / "program.trace"


@pytest.fixture
def written(built, tmp_path: Path) -> Callable[..., Path]:
    """written(lines, refused=…): the trace file that these lines make; refused: the expected errors, None: any."""

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
    """printed(path): the lines of the trace; if it is damaged, only `mistake` and the error."""

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
    """The program that counts the contents of a trace, built with sanitizers."""
    return built(None, "stats/*.c", READER)
