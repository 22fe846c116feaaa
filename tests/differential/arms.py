"""Running a program on an allocator, and what the machine measured."""

import functools
import json
import os
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from programs import Program, pack

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
MACHINE = BUILD / "tests/differential/machine"
OURS = "hakmem"
LIBRARIES = {
    "hakmem": Path(os.environ.get("DIFFERENTIAL_LIBRARY", BUILD / "libhakmem.so")),
    "glibc": None,
    "jemalloc": Path("libjemalloc.so.2"),
    "mimalloc": Path("libmimalloc.so.2"),
    "tcmalloc": Path("libtcmalloc_minimal.so.4"),
}
TIMED_OUT = -14
# Ours may wait for a busy machine; another that hangs, as glibc does where a signal's handler forks, is no measure.
HANGS_S = {True: 150, False: 20}
SLOT_BYTES = 32


@dataclass(frozen=True)
class Sample:
    """After `round` rounds (-1: after idling): µs of processor and waits since the start, KiB, a count, KiB."""

    round: int
    cpu_us: int
    waits: int
    rss: int
    size: int
    mappings: int
    live: int


@dataclass(frozen=True)
class Run:
    """One run. Memory in KiB; `status` is negative where a signal ended it; `samples` is empty unless it is 0."""

    status: int
    stderr: str
    refused: int = 0
    longest_us: int = 0
    longest_at: int = 0
    peak_rss: int = 0
    peak_size: int = 0
    metadata: int = 0
    calls: int = 0  # of the system about memory, where they were counted
    spent_us: Sequence[int] = ()
    samples: Sequence[Sample] = field(default_factory=list)

    @property
    def last(self) -> Sample:
        """After the last round."""
        return [sample for sample in self.samples if sample.round >= 0][-1]

    @property
    def idle(self) -> Sample | None:
        return self.samples[-1] if self.samples[-1].round < 0 else None


@functools.cache
def available(arms: tuple[str, ...]) -> tuple[str, ...]:
    """Those whose library the loader finds."""

    def works(arm: str) -> bool:
        shown = subprocess.run(["true"], env=environment(arm), capture_output=True, text=True, check=False)
        return shown.returncode == 0 and not shown.stderr

    return tuple(arm for arm in arms if works(arm))


def environment(arm: str) -> dict[str, str]:
    """None of the caller's settings of an allocator, except the profile of ours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HAKMEM_", "LD_", "MALLOC_")) or name == "HAKMEM_PROFILE"
    }
    library = LIBRARIES[arm]
    return {**kept, "LD_PRELOAD": str(library)} if library else kept


def parse(text: str, table_kib: int) -> dict:
    data = json.loads(text)
    samples = [Sample(*numbers) for numbers in data.pop("samples")]
    samples = [
        Sample(s.round, s.cpu_us, s.waits, s.rss - table_kib, s.size - table_kib, s.mappings, s.live) for s in samples
    ]
    data["longest_us"] = data.pop("longest_ns") // 1000
    data["peak_rss"] -= table_kib
    data["peak_size"] -= table_kib
    return {**data, "samples": samples}


def run(
    arm: str,
    program: Program,
    prefix: Sequence[str] = (),
    extra: dict[str, str] | None = None,
    machine: Path = MACHINE,
    ours: bool = False,
) -> Run:
    """Runs it once, behind the words of `prefix`, which may make it `ours` without a word of the arm's."""
    packed = pack(program)
    table_kib = int.from_bytes(packed[:8], "little") * SLOT_BYTES // 1024
    with tempfile.NamedTemporaryFile(prefix="differential-") as file:
        file.write(packed)
        file.flush()
        variables = {**environment(arm), **(extra or {})}
        command = [str(machine), file.name]
        if prefix:
            command = [*prefix, "--", *command]
        try:
            done = subprocess.run(
                command,
                env=variables,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=HANGS_S[ours or arm == OURS],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
            )
        except subprocess.TimeoutExpired:
            return Run(TIMED_OUT, "hangs")
    if done.returncode != 0:
        return Run(done.returncode, done.stderr.strip()[-300:])
    try:
        return Run(0, done.stderr.strip()[-300:], **parse(done.stdout, table_kib))
    except (ValueError, KeyError) as error:
        return Run(1, f"cannot read the figures: {error}: {done.stdout[:100]!r}")


def run_all(arms: Sequence[str], program: Program, times: int = 1, **how) -> dict[str, list[Run]]:
    """Interleaved: each arm once, then each once more, beginning with another."""
    runs: dict[str, list[Run]] = {arm: [] for arm in arms}
    if program.get("idle_ms"):  # Most of the time nothing runs.
        with ThreadPoolExecutor(len(arms)) as pool:
            for _ in range(times):
                for arm, one in zip(arms, pool.map(lambda arm: run(arm, program, **how), arms), strict=True):
                    runs[arm].append(one)
        return runs
    for turn in range(times):
        for i in range(len(arms)):
            arm = arms[(i + turn) % len(arms)]
            runs[arm].append(run(arm, program, **how))
    return runs
