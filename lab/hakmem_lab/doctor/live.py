"""Checks of a live process, from its folder below /proc."""

import contextlib
import os
import shlex
import shutil
import struct
from collections import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem_lab.doctor import (
    NOTE,
    NOTHING,
    OK,
    PART,
    PROBLEM,
    ROOT,
    UNKNOWN,
    WHO,
    Check,
    binary,
    count,
    listed,
    surroundings,
)
from hakmem_lab.doctor.binary import is_elf, readable
from hakmem_lab.doctor.program import embedded, has_hakmem, library_name
from hakmem_lab.errors import LabError, nearest, rights
from hakmem_lab.inside import layout, links, memory
from hakmem_lab.inside.memory import DELETED, Mapping, mappings
from hakmem_lab.plan.arms import OPTION_PREFIX, Arm, options_of
from hakmem_lab.system import files
from hakmem_lab.system.allocators import ALLOCATORS, MALLOC, OWN

LONGEST_COMMAND = 60
HARDENED = 3  # HAK_PROFILE_HARDENED of src/system/options.h
# Mechanisms of the hardened profile that an option switches off: option -> description.
MECHANISMS = {
    "HARDENED_ZERO": "zeroed and checked blocks",
    "HARDENED_DELAY": "delayed reuse",
    "HARDENED_LARGE": "guard pages of large blocks",
    "HARDENED_GUARDS": "guard slabs",
    "HARDENED_REGIONS": "a region for each class",
}
UNTOLD = (memory.Unreadable, *memory.CONTRADICTIONS, struct.error)  # errors from damaged or changing memory


def _as_called(executable: Path, words: Sequence[str]) -> Path:
    """The program under the name it was started with, which may be a link: redis-server links to redis-check-rdb."""
    first = words[0].split()[0] if words and words[0].split() else ""  # a server may write its state behind its name
    with contextlib.suppress(OSError):
        found = shutil.which(first) if first else None
        if found and Path(found).name != executable.name and Path(found).samefile(executable):
            return Path(found)
    return executable


@dataclass(frozen=True)
class Process:
    """executable: a path from which its program can be read; environment: as at its start, None if it may not be read;
    root: the root of its file system, which differs from ours if it runs in a container."""

    pid: int
    folder: Path
    executable: Path
    maps: Sequence[Mapping]
    environment: abc.Mapping[str, str] | None
    command: Sequence[str]
    root: Path

    @classmethod
    def of(cls, pid: int, root: Path = ROOT) -> "Process":
        """Raises LabError if there is no such process, or it may not be read."""
        folder = root / "proc" / str(pid)
        try:
            maps = (folder / "maps").read_text(encoding="utf-8", errors="surrogateescape")
            shown = os.readlink(folder / "exe")
        except (FileNotFoundError, ProcessLookupError):
            raise LabError(files.no_process(pid, root)) from None
        except OSError as error:
            raise LabError(f"process {pid} cannot be read ({error.strerror}): {rights()}") from None
        own, environment = _root(folder, root), _environment(folder / "environ")
        named = own / shown.removesuffix(DELETED).lstrip("/")
        executable, words = named if named.exists() else folder / "exe", _words(folder / "cmdline")
        executable = _as_called(executable, words)
        return cls(pid, folder, executable, mappings(maps), environment, words, own)

    def files(self) -> list[Path]:
        found = [binary.file_of(first, self.folder, self.root) for first in binary.objects(self.maps).values()]
        return [path for path in found if path != self.executable and _is_library(path)]

    def again(self) -> str:
        """The remedy that tells how to start the program on the allocator."""
        words = shlex.join(self.command)
        # A program that renames itself overwrites its arguments in /proc.
        known = self.command and shutil.which(self.command[0])
        plain = known and len(words) <= LONGEST_COMMAND and words.isprintable()
        return f"start it by: hak run -- {words if plain else 'COMMAND'}"


def allocators_inside(pid: int) -> dict[str, str]:
    """Mapped file -> the allocator inside it that serves only that file. Empty where the process cannot be read."""
    with contextlib.suppress(LabError):
        process = Process.of(pid)
        return embedded([found for path in process.files() if (found := readable(path))])
    return {}


def _root(folder: Path, root: Path) -> Path:
    """The root of the process's file system; `root` itself if the process sees the same files."""
    try:
        same = os.readlink(folder / "ns/mnt") == os.readlink(root / "proc/self/ns/mnt")
        return root if same and os.readlink(folder / "root") == "/" else folder / "root"
    except OSError:
        return root


def _is_library(path: Path) -> bool:
    try:
        return is_elf(path)
    except OSError:
        return False


def _words(path: Path) -> list[str]:
    return [word for word in files.words(path) if word]


def _environment(path: Path) -> dict[str, str] | None:
    return dict(word.partition("=")[::2] for word in _words(path)) if os.access(path, os.R_OK) else None


def _is_wanted(first: Mapping, process: Process, arm: Arm) -> bool:
    """Whether a mapped file is the allocator: the arm's own library, or another build of it."""
    file, library = binary.file_of(first, process.folder, process.root), arm.library.path
    try:
        if library is not None and file.samefile(library):
            return True
    except OSError:
        pass
    signs = ALLOCATORS.get(arm.allocator)
    named = signs is not None and os.path.basename(first.path).startswith(signs.files)
    return named or library_name(readable(file)) == arm.allocator.partition("@")[0]


def mapped(process: Process, arm: Arm) -> list[str]:
    return [path for path, first in binary.objects(process.maps).items() if _is_wanted(first, process, arm)]


def who(process: Process, arm: Arm, wanted: Sequence[str]) -> tuple[Check, str | None]:
    """(the check of which allocator serves malloc, why the process's memory cannot be read). wanted: the mapped files
    that are the allocator."""
    bound, refused = _bound(process)
    if not wanted:
        return _not_mapped(process, arm, bound), refused
    if refused is not None:
        found = f"{wanted[0]} is mapped; what calls are bound to cannot be read ({refused})"
        return Check(WHO, NOTE, found, "be root to see it"), refused
    elsewhere = {path: sorted(targets - set(wanted)) for path, targets in bound.items() if targets - set(wanted)}
    if len(elsewhere) == len(bound):
        answers = next(iter(elsewhere.values()), ["nothing that the dynamic linker knows"])[0]
        found = f"{wanted[0]} is mapped, but malloc is answered by {answers}"
        return Check(WHO, PROBLEM, found, process.again(), served=NOTHING), refused
    if elsewhere:
        path, targets = next(iter(elsewhere.items()))
        names = listed([os.path.basename(each) for each in elsewhere])
        found = f"malloc of {names} is bound to {targets[0]}, of {len(bound) - len(elsewhere)} others to {wanted[0]}"
        remedy = f"load {os.path.basename(path)} without RTLD_DEEPBIND, and link it without -Bsymbolic"
        return Check(WHO, PROBLEM, found, remedy, served=PART), refused
    return Check(WHO, OK, f"{wanted[0]}: {count(len(bound), 'object')} bound to it, none to another"), refused


def _bound(process: Process) -> tuple[dict[str, set[str]], str | None]:
    """(object -> the objects that its malloc is bound to, why that cannot be read)."""
    try:
        os.close(os.open(process.folder / "mem", os.O_RDONLY | os.O_CLOEXEC))
        begun = (process.folder / "auxv").read_bytes()
    except OSError as error:
        return {}, error.strerror
    with memory.Process(process.pid) as found:
        bound = answers(found, process.maps, links.auxiliary(begun).get(links.BASE, 0))
    return bound, None


def answers(found: memory.Memory, maps: Sequence[Mapping], linker: int) -> dict[str, set[str]]:
    """Object -> the objects that its malloc, calloc, realloc and free lead to; what cannot be read is left out.

    linker: address of the dynamic linker, which fills each slot with the function that it chose. A slot that still
    leads into its own object belongs to a function that has not been called yet. In a program at a fixed address, a
    function's address may be the program's own PLT entry; what the entry jumps to answers. A pointer among the data of
    an object counts while it leads to a function of that name: the program may have stored another one there. For
    64-bit processes of our own byte order.
    """
    bound: dict[str, set[str]] = {}
    entries: dict[int, int] = {}  # PLT entry that stands for a function -> what it jumps to
    with contextlib.suppress(*UNTOLD):
        objects = links.objects(found, linker) if linker else []
        for each in objects:
            path, slots = _path_at(each.strings, maps), each.slots(MALLOC)
            entries |= {slot.stands: slot.value for slot in slots if slot.stands and slot.kind == links.SLOT}
            for slot in slots:
                leads = entries.get(slot.value, slot.value)
                if slot.kind == links.POINTER and not any(leads == other.defined(slot.name) for other in objects):
                    continue
                target = _path_at(leads, maps)
                if target not in ("", path):
                    bound.setdefault(path, set()).add(target)
    return bound


def _path_at(address: int, maps: Sequence[Mapping]) -> str:
    return next((each.path for each in maps if each.start <= address < each.end), "")


def _not_mapped(process: Process, arm: Arm, bound: abc.Mapping[str, set[str]]) -> Check:
    own = readable(process.executable)
    if own is not None and has_hakmem(own) and arm.allocator == "hakmem":
        return Check(WHO, OK, "hakmem is linked into the program")
    answers = sorted(set().union(*bound.values())) if bound else []
    if not answers and own is not None and any(own.defines(name) for name in OWN):
        answers = ["the program itself"]
    said = f"; malloc is answered by {listed(answers)}" if answers else ""
    return Check(WHO, PROBLEM, f"{arm.allocator} is not mapped in it{said}", process.again(), served=NOTHING)


def preload(process: Process, arm: Arm, served: Check, there: bool) -> Check:
    """LD_PRELOAD, and why the library is not mapped, if it is not."""
    name = "preload"
    if not process.environment:
        why = "cannot be read" if process.environment is None else "is empty, or the program has overwritten it"
        return Check(name, UNKNOWN, f"its environment {why}")
    words = process.environment.get("LD_PRELOAD", "")
    if there or served.served != NOTHING:
        return Check(name, OK, f"LD_PRELOAD={words}" if words else "LD_PRELOAD is not set, and need not be")
    if not words:
        return Check(name, PROBLEM, "it was started without LD_PRELOAD", process.again(), served=NOTHING)
    known = [word for word in words.replace(":", " ").split() if _names(word, arm)]
    if not known:
        found = f"it was started with LD_PRELOAD={words}, which does not name {arm.allocator}"
        return Check(name, PROBLEM, found, process.again(), served=NOTHING)
    if "/" in known[0] and not (process.root / known[0].lstrip("/")).exists():
        found = f"LD_PRELOAD names {known[0]}, which is not there"
        return Check(name, PROBLEM, found, "name a file that the program sees, in a container too", served=NOTHING)
    found = f"LD_PRELOAD={words}, and yet the dynamic linker has not mapped it"
    return Check(name, PROBLEM, found, "see what it said on standard error at the start", served=NOTHING)


def _names(word: str, arm: Arm) -> bool:
    """Whether a word of LD_PRELOAD is meant to be the allocator."""
    base, path = os.path.basename(word), arm.library.path
    signs = ALLOCATORS.get(arm.allocator)
    return base.startswith(signs.files) if signs else path is not None and base == path.name


def secure(process: Process) -> Check:
    name = "secure mode"
    found = surroundings.auxiliary(process.folder / "auxv")
    if not found:
        return Check(name, UNKNOWN, "what the kernel told it at its start cannot be read")
    if found.get(links.SECURE):
        said = "it began with more rights than its caller: LD_PRELOAD and the options were ignored"
        return Check(name, PROBLEM, said, "link libhakmem.a into it, or start it as the user that it becomes")
    return Check(name, OK, "it began with its caller's rights")


def options(process: Process, arm: Arm) -> Check:
    given = {word: value for word, value in (process.environment or {}).items() if word.startswith(OPTION_PREFIX)}
    if process.environment is None:
        return Check("options", UNKNOWN, "its environment cannot be read")
    known = options_of(arm.library.path) if given and arm.library.path else set()
    for name in given:
        if known and name not in known:
            return Check("options", PROBLEM, f"{name} is no option: {nearest(name, known)}", "HAKMEM_HELP=1 lists them")
    said = " ".join(f"{name}={value}" for name, value in sorted(given.items()))
    return Check("options", OK, said or "none set: the defaults")


def mechanisms(process: Process) -> list[Check]:
    """Mechanisms of the hardened profile in the process; empty under another profile, or where unreadable."""
    try:
        with memory.Process(process.pid) as found:
            itself = layout.find(found)
            values, names = itself.root("hak_option_values"), [option.name for option in itself.options]
            read = {name: found.read(values + 8 * number, 8) for number, name in enumerate(names)}
    except (LabError, OSError, *UNTOLD):
        return []
    if int.from_bytes(read.get("PROFILE", b""), "little") != HARDENED:
        return []
    off = [words for name, words in MECHANISMS.items() if not any(read.get(name, b""))]
    said = ", ".join(["seals", *(words for words in MECHANISMS.values() if words not in off)])
    return [Check("hardened", OK, f"in force: {said}" + (f"; off: {', '.join(off)}" if off else ""))]


def consistent(found: Sequence[Check], live: Sequence[Check], served: Check) -> list[Check]:
    """All checks without contradictions. found: checks of its files; live: checks of the process itself.

    If the process is seen to be served, an obstacle in its files becomes a note. If its files rule the allocator out,
    starting the process anew is no remedy.
    """
    if served.served != NOTHING:
        found = [replace(check, state=NOTE, served=None) if check.served == NOTHING else check for check in found]
    elif any(check.served == NOTHING for check in found):
        live = [replace(check, remedy=None) if check.served == NOTHING else check for check in live]
    return [*found, *live]
