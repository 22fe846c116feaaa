"""Shared by the tests of soak, syscalls and latency: programs compiled from bench/ and this folder, and a context."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
FLAGS = ("-std=gnu17", "-O2", "-fno-builtin")


@pytest.fixture(scope="session")
def compiled(common, compile_once) -> Callable[..., Path]:
    """compiled(source, flags…): the program or library built from a file in this folder or in bench/; built once."""
    folder = common("kinds")

    def build(source: str, *flags: str) -> Path:
        own = Path(__file__).parent / source
        name = source.replace(".c", ".so") if "-shared" in flags else source.removesuffix(".c")
        return compile_once(folder / name, ["cc", *FLAGS, own if own.exists() else BENCH / source, *flags, "-lpthread"])

    return build


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """script(text): an executable file with this text."""

    def write(text: str, name: str = "program") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture
def printer(modelled) -> Path:
    """A program, modelled, that prints a histogram of 10,000 requests, of which 1.5 % took TAIL nanoseconds."""

    def model(run) -> dict:
        base, tail = run.env.get("BASE", 1000), run.env.get("TAIL", 50000)
        return {"stdout": f"response {base} 9850\nresponse {tail} 150\nservice {base} 10000\n"}

    return modelled(model, "printer")


@pytest.fixture
def context(store: Path):
    """context(progress, resume): a kinds.Context with the test's own store."""
    from hakmem_lab.run.conduct import Context
    from hakmem_lab.run.endings import Progress

    def make(progress=None, resume=None):
        return Context(store, "command line", progress or Progress(quiet=True), resume)

    return make


@pytest.fixture
def only_run(store: Path):
    """only_run(): the only run in the store, as a RunFile."""
    from hakmem_lab.store.runs import RunFile

    def find():
        (path,) = store.glob("*.jsonl")
        return RunFile(path)

    return find


@pytest.fixture
def interrupting():
    """interrupting(n): a Progress that acts as if the user interrupted hak at the n-th update."""
    from hakmem_lab.run.endings import Progress

    class Interrupting(Progress):
        def __init__(self, count: int):
            super().__init__(quiet=True)
            self.left = count

        def update(self, done: float, total: float, note: str = "") -> None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    return Interrupting


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """alive(pid): whether the process still runs; a zombie does not."""

    def check(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return check


def stored_header(kind: str, **spec) -> dict:
    """A stored header with this spec and one arm."""
    arm = {
        "name": "glibc",
        "allocator": "glibc",
        "library": None,
        "sha256": None,
        "version": "2",
        "configuration": None,
    }
    return {
        "type": "header",
        "id": "run",
        "kind": kind,
        "question": "",
        "spec": spec,
        "arms": [arm | {"variables": {}}],
    }


@pytest.fixture
def header() -> Callable[..., dict]:
    return stored_header


@pytest.fixture
def soak_header() -> Callable[..., dict]:
    def make(**keys) -> dict:
        spec = {"budget": 1.0, "duration": 600.0, "sample-interval": 1.0, "line": "x", "command": ["p", "{seconds}"]}
        return stored_header("soak", **(spec | keys))

    return make


@pytest.fixture
def shown() -> Callable[[dict], str]:
    """shown(result): strict JSON, which raises an error for infinities and for types that JSON lacks."""
    return lambda result: json.dumps(result, allow_nan=False)


@pytest.fixture
def without_strace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sets PATH to a folder with the usual programs, but without strace."""
    for folder in ("/usr/bin", "/bin"):
        for path in Path(folder).iterdir():
            link = tmp_path / "bin" / path.name
            link.parent.mkdir(exist_ok=True)
            if path.name != "strace" and not os.path.lexists(link):
                link.symlink_to(path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
