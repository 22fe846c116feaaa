"""The calls that allocate or resize a block, and the bytes that they ask for: exact, on every allocator. A library that
is preloaded before the allocator counts them for a program and all that it starts."""

import os
import struct
import tempfile
from functools import cache
from pathlib import Path

from hakmem_lab.system.compiled import compiled

SOURCES = Path(__file__).parent / "native" / "count"
FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-fexceptions", "-ldl")
FORM = "=QQ"
NOTHING = "no allocation was seen: the program is statically linked, loses LD_PRELOAD on its way, or makes none"


@cache
def library() -> Path:
    return compiled("libhakcount.so", sorted(SOURCES.glob("*.c")), FLAGS, purpose="counter of allocations")


class Counts:
    """The counters of one execution. A context manager. For a server, calls count between `begin` and `end`."""

    _before: tuple[int, int] = (0, 0)
    _found: tuple[int, int] | None = None

    def __enter__(self) -> "Counts":
        """Puts the counters and a copy of the library where a program that changes its user can open both: the cache of
        compiled libraries may be in a home folder that others cannot enter."""
        self._folder = tempfile.TemporaryDirectory(prefix="hak-count-")
        os.chmod(self._folder.name, 0o755)
        self._file, self._library = (Path(self._folder.name) / name for name in ("counts", "libhakcount.so"))
        self._file.write_bytes(bytes(struct.calcsize(FORM)))
        self._file.chmod(0o666)
        self._library.write_bytes(library().read_bytes())
        self._library.chmod(0o755)
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        preload = ":".join(filter(None, (str(self._library), env.get("LD_PRELOAD"))))
        return env | {"LD_PRELOAD": preload, "HAK_COUNT": str(self._file)}

    def _now(self) -> tuple[int, int]:
        calls, count_bytes = struct.unpack(FORM, self._file.read_bytes())
        return calls, count_bytes

    def begin(self) -> None:
        self._before = self._now()

    def end(self) -> dict:
        self._found = self._now()
        return {}

    def read(self) -> dict:
        (calls, count_bytes), (calls_before, bytes_before) = self._found or self._now(), self._before
        counts = {"calls": calls - calls_before, "allocated_bytes": count_bytes - bytes_before}
        return counts if counts["calls"] else {"why": NOTHING}
