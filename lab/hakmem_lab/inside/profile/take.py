"""The profile of a live process: sampling is switched on, unless it is on already, and the table of call sites is read
from outside. A thread of the process is made to switch it on: code without frame pointers needs an unwinder, which only
the process itself can load. If no thread can do that, hak writes the request into the process's memory.

The profile of a command: the library writes it when the program ends.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from hakmem_lab.errors import EXIT_SIGNAL, LabError, refused
from hakmem_lab.inside import layout, owners
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Heap, Layout
from hakmem_lab.inside.memory import Memory, Process, doubted, parse, word
from hakmem_lab.inside.owners import CACHED, DEPOT, HEAP_OWNERS, LIVE, Reading
from hakmem_lab.inside.profile import forms, places
from hakmem_lab.inside.profile.places import ALLOC_SPACE, RESIDENT_SPACE, TYPES, UNKNOWN, HeapProfile, Stack
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.run.preflight import check_arm, is_starter
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import signals
from hakmem_lab.system.usage import family

SITES_MAX, DEPTH_MAX = 1 << 20, 1 << 10
ROWS = {"[thread caches]": ("thread caches", "in the depot"), "[retained]": ("waiting for decay",),
        "[metadata]": ("metadata",), "[sampled blocks]": ("sampled blocks",)}  # fmt: skip
UNSEEN = "[not sampled]"
LIBGCC = 2  # value of the option PROFILE_UNWIND


def of_process(pid: int, mean_bytes: int, seconds: float, start: Callable[[int, int], bool]) -> HeapProfile:
    """start(pid, mean): makes the process sample; False if it cannot. Raises LabError if the process is unreadable."""
    with Process(pid) as memory:
        found = layout.find(memory)
        if "&hak_sites" not in found:
            raise LabError(f"{memory.name} has {found.path}, which has no heap profile: it is older than this hak")
        with doubted(memory.name, "process"), _sampling(memory, found, mean_bytes, start) as (mean, fresh, short):
            started = time.time_ns()
            if fresh:
                time.sleep(seconds)
            profile = _read(memory, found)
        if not profile.total(ALLOC_SPACE):
            since = f"in {seconds:g} s" if fresh else "yet"
            profile.missing = f"stacks are missing: it has allocated nothing that was sampled {since}"
        profile.period, profile.time_ns = mean, time.time_ns()
        profile.duration_ns = profile.time_ns - started if fresh else 0
        when = f"in {seconds:g} s" if fresh else "since the process began to sample"
        profile.comments = [f"hak profile {pid}: what was allocated {when}", *filter(None, [profile.missing, short]),
                            *_of_parents(profile)]  # fmt: skip
        profile.main = os.path.realpath(f"/proc/{pid}/exe")
        return profile


def snapshot(pid: int) -> HeapProfile | None:
    """The present profile of a sampling process; None where it does not sample or cannot be read."""
    with suppress(LabError, OSError), Process(pid) as memory:
        found = layout.find(memory)
        if "&hak_sites" in found and (mean := _request(memory, found)):
            with doubted(memory.name, "process"):
                profile = _read(memory, found)
            profile.period, profile.time_ns = mean, time.time_ns()
            profile.comments = _of_parents(profile)
            profile.main = os.path.realpath(f"/proc/{pid}/exe")
            return profile
    return None


def _of_parents(profile: HeapProfile) -> list[str]:
    """The comment that forms.read understands."""
    inherited = round(profile.inherited)
    return [f"inherited over fork: {inherited} bytes of those in use"] if inherited else []


@contextmanager
def _sampling(
    memory: Process, found: Layout, mean_bytes: int, start: Callable[[int, int], bool]
) -> Iterator[tuple[int, bool, str]]:
    """(mean, whether sampling was switched on here and is switched off afterwards, why stacks may end early)."""
    before = _request(memory, found)
    if before:
        yield before, False, ""
        return
    short = ""
    try:
        with _unwinder(memory, found):
            started = start(memory.pid, mean_bytes)
    except LabError as error:
        started, short = False, f"stacks end where code has no frame pointers: {error}"
    if not started:
        _write(memory, found, mean_bytes)
    try:
        yield mean_bytes, True, short
    finally:
        if _request(memory, found) == mean_bytes:
            _write(memory, found, 0)


@contextmanager
def _unwinder(memory: Process, found: Layout) -> Iterator[None]:
    """Meanwhile the option selects the unwinder that needs no frame pointers, unless the user has set the option."""
    setting = next((n for n, option in enumerate(found.options) if option.name == "PROFILE_UNWIND"), None)
    if setting is None or memory.read(found.root("hak_option_given") + setting, 1) != b"\0":
        yield
        return
    place = found.root("hak_option_values") + 8 * setting
    before = memory.read(place, 8)
    memory.write(place, LIBGCC.to_bytes(8, "little"))
    try:
        yield
    finally:
        memory.write(place, before)


def _word(memory: Memory, found: Layout) -> tuple[int, bool, int]:
    """Fields of the request word: (its number, whether blocks are guarded, the mean; 0: no sampling)."""
    bits = found["HAK_SAMPLE_MEAN_BITS"]
    asked = word(memory, found.root("hak_sample_request"))
    return asked >> bits, bool(asked >> (bits - 1) & 1), asked & ((1 << bits - 1) - 1)


def _request(memory: Memory, found: Layout) -> int:
    return _word(memory, found)[2]


def _write(memory: Process, found: Layout, mean_bytes: int) -> None:
    """Write the request. Before sampling begins, the class table is changed so that the next malloc of each thread
    takes the slow path, where it sees the request. With guarded blocks, threads soon come there anyway; the table then
    stays unchanged, because nothing would restore it."""
    bits, place = found["HAK_SAMPLE_MEAN_BITS"], found.root("hak_sample_request")
    number, guarded, _ = _word(memory, found)
    asked = (number + 1) << bits & ((1 << 64) - 1) | guarded << bits - 1 | mean_bytes
    if mean_bytes and not guarded:
        memory.write(found.root("hak_class_codes"), bytes([found["HAK_BINS_AT"]]) * found["HAK_SMALL_STEPS"])
    memory.write(place, asked.to_bytes(8, "little"))


# The table of call sites


def _read(memory: Process, found: Layout) -> HeapProfile:
    profile = HeapProfile()
    frames = places.return_addresses(memory, found).tolist()
    known, stacks = places.places_of(memory, frames, places.unloaded(memory, found)), dict[int, Stack]()
    for address, numbers, values, inherited in _sites(memory, found, len(frames)):
        profile.inherited += inherited
        stack: Stack = tuple(known[frames[each]] for each in numbers) or (UNKNOWN,)
        stacks[address] = stack
        profile.add(stack, values)
    heap = Reader(memory, found).read()
    reading = owners.read(memory, heap, parse(memory.text("smaps")))
    if not profile.total(ALLOC_SPACE):
        _add_in_use(profile, heap, reading)
    _add_resident(profile, stacks, heap, reading)
    profile.copies = places.copies(memory)
    return profile


def _sites(memory: Memory, found: Layout, frame_count: int) -> Iterator[tuple[int, list[int], list[float], float]]:
    """(address, numbers of its frames, values, bytes in use that were inherited over fork) of each call site."""
    names = ("older", "objects", "bytes", "freed_objects", "freed_bytes")
    at = {name: found[f"hak_site_t.{name}"] for name in (*names, "inherited", "frame_count", "frame")}
    object_parts, byte_parts = found["HAK_SITE_OBJECT_PARTS"], found["HAK_SITE_BYTE_PARTS"]
    site, seen = word(memory, found.root("hak_sites") + found["hak_sites_t.latest"]), 0
    while site and seen < SITES_MAX:
        head = memory.read(site, at["frame"])
        older, objects, size, freed_objects, freed_size = (
            int.from_bytes(head[at[name] : at[name] + 8], "little") for name in names
        )
        had_objects, had_size = np.frombuffer(head, "<u8", 2, at["inherited"]).tolist()
        depth = int.from_bytes(head[at["frame_count"] : at["frame_count"] + 4], "little")
        data = memory.read(site + at["frame"], 4 * min(depth, DEPTH_MAX)) if depth else b""
        numbers = np.frombuffer(data, "<u4").tolist()
        if all(each < frame_count for each in numbers):
            in_use = max(objects - freed_objects, 0) / object_parts, max(size - freed_size, 0) / byte_parts
            own = max(objects - had_objects, 0) / object_parts, max(size - had_size, 0) / byte_parts
            yield site, numbers, [*own, *in_use, 0.0], min(had_size / byte_parts, in_use[1])
        site, seen = older, seen + 1


# Resident memory


def _add_in_use(profile: HeapProfile, heap: Heap, reading: Reading) -> None:
    """Add the live blocks by their size; for a profile without any stacks."""
    sizes = heap.layout.class_sizes
    rows = {cls: int(each.blocks[LIVE]) for cls, each in reading.classes.items()}
    rows |= {cls: blocks for cls, (blocks, _) in reading.run_blocks.items() if cls < len(sizes)}
    for cls, blocks in sorted(rows.items()):
        if blocks:
            profile.add((f"[blocks of {sizes[cls]:,} bytes]",), [0, 0, blocks, blocks * sizes[cls], 0])
    huge = heap.runs.cls >= len(sizes)
    if huge.any():
        row = [0, 0, int(huge.sum()), int(heap.runs.bytes[huge].sum()), 0]
        profile.add((f"[blocks above {sizes[-1]:,} bytes]",), row)


def _add_resident(profile: HeapProfile, stacks: Mapping[int, Stack], heap: Heap, reading: Reading) -> None:
    """Divide the resident bytes of each class among the sites of its samples. The rest of the heap is added in rows of
    its own, so that the sum is the resident size of the heap."""
    left = float(sum(reading.bytes[each] for each in HEAP_OWNERS))
    for cls in {sample.cls for sample in heap.samples.values()}:
        mine = [sample for sample in heap.samples.values() if sample.cls == cls]
        resident, live = _held(cls, heap, reading)
        own = sum(sample.bytes for sample in mine) if cls in reading.classes else 0  # not in slabs
        share = resident / max(sum(sample.weight_bytes for sample in mine), float(live + own), 1.0)
        for sample in mine:
            if sample.site in stacks:
                profile.values[stacks[sample.site]][RESIDENT_SPACE] += share * sample.weight_bytes
                left -= share * sample.weight_bytes
    rows = {name: float(sum(reading.bytes[each] for each in sources)) for name, sources in ROWS.items()}
    rows[UNSEEN] = max(left - sum(rows.values()), 0.0)
    for name, value in rows.items():
        profile.add((name,), [0.0] * (len(TYPES) - 1) + [value])
    profile.rows = frozenset((name,) for name in rows)


def _held(cls: int, heap: Heap, reading: Reading) -> tuple[int, int]:
    """(resident bytes of a class without thread caches, bytes of its live blocks)."""
    if (each := reading.classes.get(cls)) is not None:
        resident = int(each.resident_in.sum() - each.bytes[CACHED] - each.bytes[DEPOT])
        return resident, int(each.blocks[LIVE]) * heap.layout.class_sizes[cls]
    resident, blocks = reading.runs.get(cls, (0, 0))[0], reading.run_blocks.get(cls, (0, 0))[0]
    huge = cls >= len(heap.layout.class_sizes)
    return resident, int(heap.runs.bytes[heap.runs.cls == cls].sum()) if huge else blocks * heap.layout.class_sizes[cls]


LOOK_S, LOOK_SHARE = 0.5, 20


def of_command(command: Sequence[str], mean_bytes: int, allocator: str = "hakmem") -> tuple[HeapProfile, int]:
    """(the profile of the command and all it started, its exit status). Raises LabError where none was written."""
    arm = parse_arm(allocator, where="--allocator")
    workload, env = Workload.of_command(command), arm.beside()
    check_arm(arm, workload, env)
    with tempfile.TemporaryDirectory(prefix="hak-profile-") as folder:
        env |= {"HAKMEM_PROFILE_FILE": f"{folder}/%p.pb", "HAKMEM_PROFILE_EXIT": "1"}
        env["HAKMEM_PROFILE_RATE"] = str(mean_bytes)
        status, seen = _run(workload.argv, env)
        profile = _joined(Path(folder), command[0], status, seen)
    profile.comments.append(f"hak profile -- {' '.join(command)}")
    return profile, status


def _run(argv: Sequence[str], env: dict[str, str]) -> tuple[int, dict[int, HeapProfile]]:
    """(its exit status, as a shell reports it; the latest profile of each process). The program gets the terminal's
    input and our signals. A process that a signal ends writes no profile, so profiles are also taken while it runs."""
    seen: dict[int, HeapProfile] = {}
    with refused(f"command: {argv[0]} cannot be started"), signals.held():  # until they can be forwarded
        process = subprocess.Popen(list(argv), env=env)
        with signals.handed_on(process.pid):
            while (status := _waited(process, seen)) is None:
                pass
    return status if status >= 0 else EXIT_SIGNAL - status, seen


def _waited(process: subprocess.Popen, seen: dict[int, HeapProfile]) -> int | None:
    """Take a profile of each process, then wait; the status, or None if the program goes on. The wait is long enough
    for the profiles to take only a small part of the time."""
    began = time.monotonic()
    for pid in family(process.pid):
        if (found := snapshot(pid)) is not None:
            seen[pid] = found
    with suppress(subprocess.TimeoutExpired):
        return process.wait(max(LOOK_S, (time.monotonic() - began) * LOOK_SHARE))
    return None


def _joined(folder: Path, name: str, status: int, seen: dict[int, HeapProfile]) -> HeapProfile:
    found = {int(path.stem): one for path in folder.glob("*.pb") if (one := _written(path)) is not None}
    ended_early = [pid for pid in seen if pid not in found]
    found |= {pid: seen[pid] for pid in ended_early}
    # Programs that only start others, such as a shell, are left out.
    meant = {pid: one for pid, one in found.items() if not is_starter(one.main)} or found
    if not meant:
        raise LabError(
            f"{name} has ended (status {status}) without a profile: it did not leave by exit(), or may not write to "
            f"{folder.parent}, or its environment is another. Take one while it runs: hak profile PID"
        )
    whole = HeapProfile()
    for pid, one in sorted(meant.items()):
        whole.main = whole.main or one.main
        whole.join(one)
        if pid in ended_early:
            ago = (time.time_ns() - one.time_ns) / 1e9
            program = os.path.basename(one.main) or name
            print(f"hak: {program} did not leave by exit(): as it was {ago:.1f} s before hak ended", file=sys.stderr)
    if len(meant) > 1:
        print(f"hak: {len(meant)} processes are counted together", file=sys.stderr)
    return whole


def _written(path: Path) -> HeapProfile | None:
    """A profile that a process wrote; None if it was killed while it wrote."""
    with suppress(LabError):
        return forms.read(path)
    return None
