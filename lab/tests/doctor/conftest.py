"""Programs of every kind that `hak doctor` must recognise, compiled at first use, and a fixture that runs it."""

import contextlib
import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Found:
    """What `hak doctor` answered."""

    status: int
    verdict: str
    served: bool
    in_part: bool
    checks: dict[str, dict]

    def state(self, name: str) -> str:
        return self.checks[name]["state"]

    def said(self, name: str) -> str:
        return self.checks[name]["found"]

    def remedy(self, name: str) -> str | None:
        return self.checks[name]["remedy"]


class Programs:
    """Paths of programs, compiled from the sources in this folder when first used; and of copies, in a folder apart."""

    def __init__(self, folder: Path, copies: Path, compile_once):
        self.folder, self._copies, self._compile_once = folder, copies, compile_once

    def made(self, name: str, source: str, *flags: str, compiler: str = "cc") -> Path:
        words = [compiler, "-std=gnu17", "-O1", "-fno-builtin", SOURCES / source, *flags]
        return self._compile_once(self.folder / name, words)

    @property
    def host(self) -> Path:
        return self.made("host", "host.c", "-ldl")

    @property
    def plugin(self) -> Path:
        return self.made("plugin.so", "plugin.c", "-shared", "-fPIC")

    @property
    def jailed(self) -> Path:
        return self.made("jailed", "jailed.c")

    @property
    def brought(self) -> Path:
        return self.made("brought", "brought.c")

    def linked_to(self, *flags: str) -> Path:
        """A program that needs a library with its own malloc; the flags are those that link the library."""
        kind = "".join(flag[-8:] for flag in flags).replace("=", "")
        library = self.made(f"libprivate{kind}.so", "private.c", "-shared", "-fPIC", *flags)
        found = (f"-L{self.folder}", "-Wl,--no-as-needed", f"-lprivate{kind}", f"-Wl,-rpath,{self.folder}")
        assert library.exists()
        return self.made(f"linked{kind}", "host.c", "-ldl", *found)

    def copy(self, name: str, program: Path, mode: int = 0o755) -> Path:
        """A copy of a program with this file mode."""
        path = self._copies / name
        shutil.copyfile(program, path)
        path.chmod(mode)
        return path


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, common, compile_once) -> Programs:
    return Programs(common("doctor"), tmp_path_factory.mktemp("copies"), compile_once)


@pytest.fixture
def doctor(here, fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Found]:
    """doctor(words…): the answer for a PID or a command. allocator: by default, that of the fakes. Programs of these
    tests wait to be killed, so they are followed for less time."""
    from hakmem_lab.doctor import examine

    monkeypatch.setattr(examine, "FOLLOW_S", 1.5)

    def ask(*words: object, allocator: object = None) -> Found:
        file = tmp_path / "found.json"
        file.unlink(missing_ok=True)
        subject = words if len(words) == 1 and isinstance(words[0], int) else ("--", *words)
        answer = here("doctor", "--json", file, "--allocator", allocator or fakes.allocator, *subject)
        assert "Traceback" not in answer.err
        assert file.exists(), answer.err
        record = json.loads(file.read_text(encoding="utf-8"))
        checks = {check["name"]: check for check in record["checks"]}
        assert len(checks) == len(record["checks"]), "two lines of one name"
        assert all(check["state"] in ("ok", "note", "problem", "unknown") for check in checks.values())
        return Found(answer.status, record["verdict"], record["served"], record["in_part"], checks)

    return ask


@pytest.fixture
def running() -> Iterator[Callable[..., int]]:
    """running(words…, env=…): starts a program, waits until it prints "ready", and kills it after the test."""
    with contextlib.ExitStack() as stack:

        def start(*words: object, **keywords) -> int:
            process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, **keywords)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process.pid

        yield start


@pytest.fixture
def hakmem() -> Path:
    """The built library; tests that need it are skipped if there is none."""
    from hakmem_lab.errors import LabError
    from hakmem_lab.plan import peers

    try:
        return peers.hakmem_library().path
    except LabError as error:
        pytest.skip(str(error))
