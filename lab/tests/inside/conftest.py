"""Programs for hak heap explain to read: one that counts its own blocks, and one that never stops allocating."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent


class Running:
    """A started program that has printed "ready"."""

    def __init__(self, *words: object, **keywords):
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **keywords
        )
        self.pid = self.process.pid
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def do(self, letter: str) -> dict[str, int]:
        """See known.c."""
        assert self.process.stdin is not None
        self.process.stdin.write(letter)
        self.process.stdin.flush()
        return json.loads(self._line())

    def rss_kib(self) -> int:
        """Resident memory, as the kernel reports it."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:"))


@pytest.fixture(scope="session")
def running() -> type[Running]:
    return Running


@pytest.fixture(scope="session")
def made(common, compile_once) -> Callable[..., Path]:
    """made(source, flags…): path of the program, which is compiled at its first use."""
    folder = common("inside")

    def make(source: str, *flags: str, name: str | None = None) -> Path:
        compiler = {"c": "cc", "cc": "c++"}[source.rpartition(".")[2]]
        words = [compiler, "-O1", "-g0", "-pthread", "-fno-builtin", SOURCES / source, *flags]
        return compile_once(folder / (name or source.partition(".")[0]), words)

    return make


@pytest.fixture(scope="session")
def hakmem() -> Path:
    """The built library."""
    from hakmem_lab.errors import LabError
    from hakmem_lab.plan import peers

    try:
        return peers.hakmem_library().path
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture
def start(hakmem) -> Iterator[Callable[..., Running]]:
    """start(words…, env={…}): starts a program on the built library; kills it after the test."""
    with contextlib.ExitStack() as stack:

        def begin(*words: object, env=(), preload: bool = True, **keywords) -> Running:
            own = {"LD_PRELOAD": str(hakmem)} if preload else {}
            found = Running(*words, env={**os.environ, **own, **dict(env)}, **keywords)
            stack.callback(found.process.communicate)
            stack.callback(found.process.kill)
            return found

        yield begin


@pytest.fixture
def explain(here, tmp_path: Path) -> Callable[..., dict]:
    """explain(words…): the reading that hak heap explain writes with --json."""

    def ask(*words: object) -> dict:
        file = tmp_path / "reading.json"
        answer = here("explain", "--json", file, *words)
        assert answer.status == 0, answer.err
        return json.loads(file.read_text(encoding="utf-8"))

    return ask
