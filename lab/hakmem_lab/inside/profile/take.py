"""The profile of a live process: sampling is switched on, unless it is on already, and the table of call sites is read
from outside. A thread of the process is made to switch it on: code without frame pointers needs an unwinder, which only
the process itself can load. If no thread can do that, hak writes the request into the process's memory.

The profile of a command: the library writes it when the program ends. If it cannot, the profile is read from outside at
the end of the process.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hakmem_lab.errors import LabError
from hakmem_lab.inside import layout, owners
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Heap, Layout
from hakmem_lab.inside.memory import Memory, Process, doubted, parse, word
from hakmem_lab.inside.owners import CACHED, DEPOT, HEAP_OWNERS, LIVE, Reading
from hakmem_lab.inside.profile import forms, places, started
from hakmem_lab.inside.profile.places import ALLOC_SPACE, REGION, RESIDENT_SPACE, TYPES, UNKNOWN, HeapProfile, Stack
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.run.folder import Folder
from hakmem_lab.run.preflight import check_arm, is_starter
from hakmem_lab.run.workload import Workload
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
        what = f"hak heap profile {pid}: what was allocated {when}"
        profile.comments = [what, *filter(None, [profile.missing, short]), *_of_parents(profile)]
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
        stack = (*stack, *_region(memory, found, address))
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


def _region(memory: Memory, found: Layout, site: int) -> list[str]:
    """The frame that names the region of a call site, if its blocks are in one."""
    label = word(memory, site + found["hak_site_t.label"]) if "hak_site_t.label" in found else 0
    if not label:
        return []
    name = memory.read(label + found["hak_site_label_t.name"], found["HAK_SITE_LABEL_BYTES"])
    return [REGION.format(name.partition(b"\0")[0].decode(errors="replace"))]


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
    """(resident bytes of a class without thread caches, bytes of its live blocks). Class 0: of all regions."""
    if cls == 0:
        return reading.bytes["regions"], sum(region.live_bytes for region in heap.regions)
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
    with tempfile.TemporaryDirectory(prefix="hak-profile-") as folder, Folder() as own:
        if os.geteuid() == 0:  # for a program that gives up root; nobody can list the folder or guess its name
            os.chmod(folder, 0o1733)
        env |= {"HAKMEM_PROFILE_FILE": f"{folder}/%p.pb", "HAKMEM_PROFILE_EXIT": "1"}
        env["HAKMEM_PROFILE_RATE"] = str(mean_bytes)
        looks = _Looks(Path(folder))
        status = started.run(own.fill(workload.argv), env, arm.library.path, looks.all, looks.last)
        profile = looks.joined(command[0], status)
    profile.comments.append(f"hak heap profile -- {' '.join(command)}")
    return profile, status


@dataclass
class _Look:
    """profile: that of a process; written: by itself, at its exit; final: this, or read at the end of its first thread;
    confined: it has given up its rights or the root folder, so that it may be unable to write its profile."""

    profile: HeapProfile
    written: bool = False
    final: bool = False
    confined: bool = False


class _Looks:
    """The profiles of a command's processes: those that they write at their exits, else what was read from outside."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._found: dict[int, _Look] = {}
        self._tracers: dict[int, str] = {}  # programs that trace what they start, which then cannot be followed

    def all(self, pid: int) -> float:
        """Look at all processes. Returns the seconds until the next look, which keep its share of the time small."""
        began = time.monotonic()
        for each in family(pid):
            if (profile := snapshot(each)) is not None:
                self._found[each] = _Look(profile, confined=_confined(each))
        return max(LOOK_S, (time.monotonic() - began) * LOOK_SHARE)

    def last(self, pid: int) -> None:
        """Look at a process that is stopped at its end, unless it has written its profile. -pid: a tracer begins."""
        if pid < 0:
            with suppress(OSError):
                self._tracers[-pid] = os.path.basename(os.readlink(f"/proc/{-pid}/exe"))
            return
        if (profile := _written(self._folder / f"{pid}.pb")) is not None:
            self._found[pid] = _Look(profile, written=True, final=True)
        elif (profile := snapshot(pid)) is not None:
            self._found[pid] = _Look(profile, final=True, confined=_confined(pid))

    def joined(self, name: str, status: int) -> HeapProfile:
        for path in self._folder.glob("*.pb"):
            known = self._found.get(int(path.stem))
            if not (known and known.written) and (own := _written(path)) is not None:
                self._found[int(path.stem)] = _Look(own, written=True, final=True)
        for pid, tracer in self._tracers.items():
            print(
                f"hak: {tracer} (process {pid}) traces what it starts: what leaves by _exit or a signal there, not by "
                "exit(), may be missing",
                file=sys.stderr,
            )
        # Programs that only start others, such as a shell, are left out.
        meant = {pid: one for pid, one in self._found.items() if not is_starter(one.profile.main)} or self._found
        if not meant:
            raise LabError(
                f"{name} has ended (status {status}) without a profile. hak could not follow it to its end, and it "
                f"did not end by exit(), could not write to {self._folder.parent}, or had another environment. Take a "
                "profile while it runs: hak heap profile PID"
            )
        whole = HeapProfile()
        for pid, one in sorted(meant.items()):
            whole.main = whole.main or one.profile.main
            whole.join(one.profile)
            whole.copies |= one.profile.copies
            if one.confined or not one.final:
                _say_read(pid, one, os.path.basename(one.profile.main) or name)
        if len(meant) > 1:
            print(f"hak: {len(meant)} processes are counted together", file=sys.stderr)
        return whole


def _say_read(pid: int, look: _Look, program: str) -> None:
    """Why a process wrote no profile, and what is missing."""
    ago = (time.time_ns() - look.profile.time_ns) / 1e9
    early = f"its profile is {ago:.1f} s older than the end, and what it allocated after that is missing"
    what = "its profile was read from outside at its end" if look.final else early
    why = "gave up its rights or its root folder" if look.confined else "did not leave by exit()"
    print(f"hak: {program} (process {pid}) {why}: {what}", file=sys.stderr)


def _confined(pid: int) -> bool:
    with suppress(OSError):
        root = os.stat(f"/proc/{pid}/root")
        return os.stat(f"/proc/{pid}").st_uid != os.geteuid() or not os.path.samestat(root, os.stat("/proc/self/root"))
    return False


def _written(path: Path) -> HeapProfile | None:
    """A profile that a process wrote; None if it was killed while it wrote."""
    with suppress(LabError):
        return forms.read(path)
    return None
