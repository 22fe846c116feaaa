"""Shared by all tests: fake programs, the command `hak` in a process of its own or in this one, and a store.

Imports the package only inside of fixtures, so that collecting stays fast.
"""

import contextlib
import dataclasses
import fcntl
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.forked import FOREGROUND, LAUNCH, Forked

if TYPE_CHECKING:
    from tests.modelled import Modelled

FAKES = Path(__file__).parent / "fakes"
LEAKS = ("HAK_", "HAKMEM_", "LD_", "MALLOC_", "GLIBC_", "FAKE_", "XDG_DATA_HOME", "_RJEM_")
LIMIT_S = 600  # for what hangs; other work only makes a test slow
# Without deadlines, so that no test fails only because the machine is busy.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Workers share the processors. OpenBLAS threads spin while they wait, so several take sixty times as long as one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell's background job ignores these signals, and its children inherit that. A hak that a test interrupts must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@dataclasses.dataclass(frozen=True)
class Answer:
    """How `hak` ended."""

    status: int
    out: str
    err: str

    def message(self) -> str:
        """The line on standard error of a refused command, which must be the only one beside warnings."""
        lines = [line for line in self.err.splitlines() if not line.startswith("warning: ")]
        assert "Traceback" not in self.err
        assert len(lines) == 1, self.err
        assert lines[0].startswith("hak: ")
        return lines[0]

    def result(self) -> dict:
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


Compile = Callable[[Path, Sequence[object]], Path]


class Fakes:
    """Paths of the fake programs and libraries, each compiled when it is first used."""

    def __init__(self, folder: Path, compiled: Compile):
        self.folder, self.compiled = folder, compiled

    def _compiled(self, name: str, source: str, *flags: str) -> Path:
        return self.compiled(self.folder / name, ["cc", "-std=gnu17", "-O1", FAKES / source, *flags])

    @property
    def program(self) -> Path:
        return self._compiled("fake", "fake.c")

    @property
    def static_program(self) -> Path:
        return self._compiled("fake-static", "fake.c", "-static")

    @property
    def server(self) -> Path:
        return self._compiled("server", "server.c")

    @property
    def allocator(self) -> Path:
        return self._compiled("libbump.so", "bump.c", "-shared", "-fPIC", "-fno-builtin")

    @property
    def other_library(self) -> Path:
        return self._compiled("libanswer.so", "not_allocator.c", "-shared", "-fPIC")

    @property
    def linked_program(self) -> Path:
        """A program that is linked to an allocator of its own choice."""
        folder = str(self.allocator.parent)
        return self._compiled(
            "fake-linked", "fake.c", f"-L{folder}", "-Wl,--no-as-needed", "-lbump", f"-Wl,-rpath,{folder}"
        )

    @property
    def dependent_program(self) -> Path:
        """A program that starts only where LD_LIBRARY_PATH leads to the folder of `other_library`."""
        words = (f"-L{self.other_library.parent}", "-Wl,--no-as-needed", "-lanswer")
        return self._compiled("fake-dependent", "fake.c", *words)

    def own_malloc(self, visibility: str) -> Path:
        flags = (f'-DVISIBILITY="{visibility}"', "-fno-builtin")
        return self._compiled(f"own-malloc-{visibility}", "own_malloc.c", *flags)

    def script(self, folder: Path) -> Path:
        """A copy of counted.sh for one test, since the script may change itself."""
        path = folder / "counted.sh"
        path.write_bytes((FAKES / "counted.sh").read_bytes())
        path.chmod(0o755)
        return path


gc.disable()  # while the tests are collected, which are thousands of objects that stay
COLLECTED = pytest.StashKey[set[Path]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the set of files with tests, before markers deselect some of these tests."""
    config.stash[COLLECTED] = {item.path for item in items}


def pytest_collection_finish() -> None:
    """Spares the collector of garbage what was collected, which lives as long as this process."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def collected_files(pytestconfig: pytest.Config) -> set[Path]:
    """The files in which this test run found tests; skips the test unless all tests were collected."""
    whole = [pytestconfig.rootpath / path for path in pytestconfig.getini("testpaths")]
    if [pytestconfig.invocation_params.dir / word for word in pytestconfig.args] != whole:
        pytest.skip("only some of the tests are run")
    return pytestconfig.stash[COLLECTED]


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """common(name): a folder that all workers of a test run share."""
    own = tmp_path_factory.getbasetemp()
    base = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def make(name: str) -> Path:
        folder = base / "common" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    return make


@pytest.fixture(scope="session")
def compile_once() -> Compile:
    """compile_once(path, words): runs the command with `-o` and the path; only the first worker that asks does so."""

    def make(path: Path, words: Sequence[object]) -> Path:
        if path.exists():
            return path
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                whole = path.parent / f"{path.name}.made" / path.name
                whole.parent.mkdir(exist_ok=True)
                subprocess.run([*map(str, words), "-o", str(whole)], check=True, capture_output=True)
                whole.rename(path)
        return path

    return make


@pytest.fixture(scope="session")
def fakes(common: Callable[[str], Path], compile_once: Compile) -> Fakes:
    return Fakes(common("fakes"), compile_once)


@pytest.fixture(scope="session", autouse=True)
def _cache(common: Callable[[str], Path]) -> Iterator[None]:
    """All workers share one cache outside the user's home, so that the launcher is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(common("cache")))
        yield


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Removes the caller's settings from the environment, and keeps tests out of the user's own store."""
    for name in [name for name in os.environ if name.startswith(LEAKS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def answered(command: Sequence[object], input: str | None = None, **keywords) -> Answer:
    """How this command ended."""
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "surrogateescape"}
    usual["stdin"] = None if input is None else subprocess.PIPE
    with Forked(command, **usual | keywords) as process:
        try:
            out, err = process.communicate(input, LIMIT_S)
        except BaseException:
            process.kill()
            raise
    return Answer(process.returncode, out, err)


@pytest.fixture
def hak(store: Path) -> Callable[..., Answer]:
    """hak(words…): runs the command in a process; keywords go to `answered`. Adds `--store` by itself."""

    def call(*words: object, **keywords) -> Answer:
        return answered([*LAUNCH, *with_store(words, store)], **keywords)

    return call


@pytest.fixture
def modelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Modelled":
    """modelled(model): the path of a program that is never started; see modelled.py."""
    from tests.modelled import installed

    return installed(tmp_path, monkeypatch)


@pytest.fixture
def counted(modelled: "Modelled") -> Path:
    """The program that fakes/counted.sh is, modelled."""
    from tests.modelled import counted

    return modelled(counted, "counted.sh")


@pytest.fixture
def begin(store: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Like `hak`, but does not wait. Kills the process if it still runs at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(*words: object) -> subprocess.Popen:
            command = [*FOREGROUND, *LAUNCH, *with_store(words, store)]
            process = Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture(scope="session")
def parser() -> Callable[[str], Callable]:
    """parser(word): what parses a command with this first word. To build it takes longer than most commands."""
    from typer.main import get_command

    from hakmem_lab.cli import commands

    chosen = commands.chosen
    return functools.cache(lambda word: get_command(chosen([word])))


@pytest.fixture(scope="session")
def told_once() -> dict[str, Callable]:
    """Functions that ask git and a compiler: that takes longer than a modelled run, and gives the same in all tests."""
    from hakmem_lab.plan import project

    return {name: functools.cache(getattr(project, name)) for name in ("git_state", "build_facts")}


@pytest.fixture
def here(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, parser: Callable, told_once: dict
) -> Callable[..., Answer]:
    """Like `hak`, but in this process, which is faster and keeps the test's patches."""
    from hakmem_lab.cli import commands
    from hakmem_lab.cli.main import main
    from hakmem_lab.plan import project, stdin
    from hakmem_lab.system import machine

    monkeypatch.setattr(stdin.SILENCE, "kept", False)  # of a process, which several tests share
    for name, function in told_once.items():
        monkeypatch.setattr(project, name, function)
    # Measuring how busy the machine is takes 0.3 s in each run; other tests check hak's warnings about it.
    monkeypatch.setattr(machine, "busy_processors", lambda: 0.0)
    # Waiting for the disk takes longer than a modelled run; tests/store and tests/endings check that hak does it.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(commands, "chosen", lambda words: parser(words[0]))

    def call(*words: object) -> Answer:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        monkeypatch.setattr(sys, "argv", ["hak", *with_store(words, store)])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return Answer(status, *capsys.readouterr())

    return call


def with_store(words: tuple, store: Path) -> list:
    """The words with `--store`, before the `--` if there is one."""
    words = tuple(word if isinstance(word, bytes) else str(word) for word in words)
    own = (
        not words
        or words[0] in ("run", "doctor", "explain", "metrics", "profile", "record", "top", "trace", "mcp", "--version")
        or words[0] in ("system", "--all", "init", "share", "heap")
        or words[:2] in (("baseline", "save"), ("runs", "keep"))
    )
    if own or "--store" in words or "--help" in words:
        return list(words)
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--store", str(store), *words[at:]]


@pytest.fixture
def records(store: Path) -> Callable[..., list[dict]]:
    """Records of the only run in the store, of one type if it is given; ignores a line that is still being written."""

    def read(type_: str | None = None, **wanted) -> list[dict]:
        (path,) = store.glob("*.jsonl")
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [r for r in found if type_ in (None, r["type"]) and all(r.get(k) == v for k, v in wanted.items())]

    return read


@pytest.fixture
def until() -> Callable[..., None]:
    """until(condition): waits until it holds, at most as long as for a command. Checks take a tenth of the time,
    since a condition may look through all processes."""

    def wait(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        asked = time.monotonic()
        while not condition():
            now = time.monotonic()
            assert now < deadline, "waited in vain"
            time.sleep(min(0.5, max(0.01, 9 * (now - asked))))
            asked = time.monotonic()

    return wait


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{1000 + uuid.uuid4().int % 10**6}.{uuid.uuid4().int % 10**9}"


@pytest.fixture
def processes() -> Iterator[Callable[[str], list[int]]]:
    """processes(word): the running processes with this word among their arguments; killed at the end."""
    asked: set[str] = set()

    def find(word: str) -> list[int]:
        asked.add(word)
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    yield find
    for word in asked:
        for pid in find(word):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
