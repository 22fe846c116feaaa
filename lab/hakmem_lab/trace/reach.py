"""Finds out from outside whether a running process can be recorded, before the process is touched: the functions of its
allocator, and the code in which a thread may be stopped. It refuses a process that cannot be recorded safely."""

import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.inside import links
from hakmem_lab.inside.links import Linked, Slot
from hakmem_lab.inside.memory import Process, Unreadable
from hakmem_lab.run import preflight
from hakmem_lab.system import files
from hakmem_lab.system.allocators import ALLOCATORS, LANGUAGES, OWN
from hakmem_lab.system.scripts import Damaged, Elf

PLAIN = (
    *("malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign"),
    *("valloc", "pvalloc", "free_sized", "free_aligned_sized"),
)
COPIES = ("strdup", "strndup")  # only redirected to an allocator other than the C library
_KINDS = ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t")
OPERATORS = (
    *(f"_Zn{letter}m{kind}" for letter in "wa" for kind in _KINDS),
    *(f"_Zd{letter}Pv{kind}" for letter in "la" for kind in (*_KINDS, "m", "mSt11align_val_t")),
)
CALLS = ("dlerror", "__errno_location")
ATTACH, LIBC, START = "hak_record_attach", "__libc_start_main", "hak_profile_start"
SEGMENT_BYTES = 272 << 20  # address space that a recording needs
BESIDE_BYTES, BEGIN_S = 32 << 10, 2.0
PARTS_OF_LIBC, UNWINDERS = ("libpthread.so", "libdl.so", "librt.so"), ("libgcc_s.so", "linux-vdso", "linux-gate")
BEGIN_AGAIN = "record it from its start: hak record -o TRACE -- CMD"


@dataclass(frozen=True)
class Reach:
    """functions: name and address of each allocator function to which slots may lead. calls: name -> address of
    functions to call, of the C library and of hakmem, if that is the allocator. recorder: address of hak_record_attach
    in a recorder that is already loaded, else 0. libc, allocator: their code. never: code in which no thread may be
    stopped. begun: auxiliary vector from the kernel, which differs in another program."""

    functions: Sequence[tuple[str, int]]
    calls: Mapping[str, int]
    recorder: int
    libc: Sequence[range] = field(repr=False)
    allocator: Sequence[range] = field(repr=False)
    never: Sequence[range] = field(repr=False)
    begun: bytes = field(repr=False)

    def rows(self) -> str:
        return "".join(f"{name} {address:x}\n" for name, address in self.functions)


class Refused(LabError):
    """A process cannot be recorded; the text says why."""

    def __init__(self, pid: int, why: str):
        super().__init__(f"process {pid} cannot be recorded: {why}")


class Beginning(Exception):
    """The process has no libraries yet, or is becoming another program."""


def of(pid: int, library: Path) -> Reach:
    """Examines a process. library: the recorder's file. Raises LabError where the process cannot be recorded."""
    deadline = time.monotonic() + BEGIN_S
    while True:
        _state(pid)
        try:
            with Process(pid) as memory:
                return _read(pid, memory, library, Path(f"/proc/{pid}/auxv").read_bytes())
        except (Beginning, Unreadable):
            if time.monotonic() > deadline:
                raise Refused(pid, "its list of libraries cannot be read: try again") from None
        except OSError as error:
            raise Refused(pid, f"hak has no access to it ({error.strerror})") from None
        time.sleep(BEGIN_S / 40)


def _state(pid: int) -> None:
    """Checks the state and the limits of the process in /proc. Raises LabError."""
    rows = files.rows(f"/proc/{pid}/status")
    if not rows or rows["State"][0] in "ZX" or ("VmSize" not in rows and not os.path.exists(f"/proc/{pid}/exe")):
        raise LabError(files.no_process(pid))
    if pid == os.getpid():
        raise Refused(pid, "it is hak itself")
    if rows.get("Tgid", str(pid)) != str(pid):
        raise Refused(pid, f"it is a thread: its process is {rows['Tgid']}")
    if rows["State"].startswith("T"):
        raise Refused(pid, f"it is stopped: let it go on first (kill -CONT {pid})")
    if (tracer := rows.get("TracerPid", "0")) != "0":
        name = files.rows(f"/proc/{tracer}/status").get("Name", "?")
        raise Refused(pid, f"process {tracer} ({name}) debugs or traces it: end that first")
    if _filters(rows) > _filters(files.rows("/proc/self/status")):
        raise Refused(pid, f"a seccomp filter may end it for the system calls that a recorder makes: {BEGIN_AGAIN}")
    if "shstk" in rows.get("x86_Thread_features", ""):
        raise Refused(pid, f"its shadow stack lets no debugger call functions in it: {BEGIN_AGAIN}")
    limit = resource.RLIM_INFINITY
    with contextlib.suppress(OSError):
        limit = resource.prlimit(pid, resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit - int(rows["VmSize"].split()[0]) * 1024 < SEGMENT_BYTES:
        raise Refused(
            pid, "its limit of address space (ulimit -v) leaves no room for the 272 MiB that a recording takes"
        )


def _filters(rows: dict[str, str]) -> int:
    """Number of seccomp filters of the process; strict mode counts as very many."""
    mode = int(rows.get("Seccomp", "0"))
    return 1 << 20 if mode == 1 else int(rows.get("Seccomp_filters", mode))


def program_problem(path: Path) -> str | None:
    """Why the allocations of this program cannot be recorded; None if they can."""
    if problem := preflight.program_problem(path):
        return problem
    languages = [name for language in LANGUAGES.values() for name in language.functions]
    signs = [name for each in ALLOCATORS.values() for name in each.functions]
    try:
        with Elf(path) as elf:
            found = elf.functions([*OWN, *signs, *languages])
            texts = elf.texts(text for each in ALLOCATORS.values() for text in each.texts)
    except (Damaged, OSError, ValueError):
        return None
    if own := found.exported.intersection(OWN):
        return f"it has a {min(own)} of its own, and its calls of that cannot be redirected; build it without"
    if found.exported.union(found.imported).intersection(languages):
        return None  # an interpreter may use a linked allocator for its own objects
    for name, each in ALLOCATORS.items():
        sign = next((sign for sign in each.functions if sign in found.exported | found.kept), None)
        if sign or texts.intersection(each.texts):
            return (
                f"{name} is linked into it{f' ({sign})' if sign else ''}, and its callers do not call malloc; "
                f"{each.without or 'build it without'}"
            )
    return None


def _read(pid: int, memory: Process, library: Path, begun: bytes) -> Reach:
    words, maps = links.auxiliary(begun), memory.maps()
    exe = os.readlink(f"/proc/{pid}/exe")
    first = next((each.start for each in maps if each.path == exe), 0)
    base = words.get(links.BASE) or first
    if _kind(memory.read(first, 20)) != _kind(_beginning(Path("/proc/self/exe"))):
        raise Refused(pid, f"it is not built for {os.uname().machine}, as the recorder is")
    listed = links.objects(memory, base) if base else []
    path = Path(f"/proc/{pid}/exe")
    if listed and not words.get(links.BASE):  # the dynamic linker was started with the program as its argument
        mapped = next((each.path for each in maps if each.start <= listed[0].strings < each.end), "")
        path = Path(f"/proc/{pid}/root{mapped}")
    if problem := program_problem(path):
        raise Refused(pid, problem)
    if words.get(links.SECURE):
        raise Refused(pid, "it began with more rights than its caller had (setuid, setgid or capabilities of its file)")
    if len(listed) < 2:
        raise Beginning
    return _decide(pid, memory, listed, library, begun, base)


def _beginning(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(20)


def _kind(head: bytes) -> tuple[int, bytes]:
    """Class and machine from an ELF file's first bytes."""
    return head[4], head[18:20]


def _decide(pid: int, memory: Process, listed: Sequence[Linked], library: Path, begun: bytes, base: int) -> Reach:
    allocator = next((each for each in listed if each.defined("malloc")), None)
    libc = next((each for each in listed if each.defined(LIBC)), None)
    if allocator is None or libc is None:
        raise Refused(pid, "its C library is not glibc")
    recorders = [each for each in listed if each.defined(ATTACH)]
    same = [each for each in recorders if os.path.basename(each.name) == library.name]
    if allocator in recorders and allocator not in same:
        raise Refused(pid, f"another version of hak began to record it: {BEGIN_AGAIN}")
    names = (*PLAIN, *OPERATORS, *(COPIES if allocator is not libc else ()))
    functions = {name: address for name in names if (address := _first(listed, name, allocator))}
    if not {"malloc", "free", "calloc", "realloc", "memalign", "posix_memalign"} <= functions.keys():
        for name in OPERATORS:
            functions.pop(name, None)
    slots = [(each, slot) for each in listed if each not in recorders for slot in each.slots(functions)]
    rows = [*functions.items(), *{(s.name, s.stands) for _, s in slots if s.stands}]
    _check_slots(pid, listed, recorders, same, functions, [slot for _, slot in slots])
    calls = {name: libc.defined(name) for name in CALLS}
    calls["dlopen"] = next((at for each in listed for at in [_loader(each, libc)] if at), 0)
    if not all(calls.values()):
        raise Refused(pid, "its C library has no dlopen")
    calls[START] = allocator.defined(START)
    code = _Code(memory)
    return Reach(
        rows,
        calls,
        same[0].defined(ATTACH) if same else 0,
        code.of(each for each in listed if each is libc or _named(each, PARTS_OF_LIBC)),
        code.of([allocator]) if allocator is not libc else _malloc_of(libc),
        code.of([*recorders, *(each for each in listed if each.base == base or _named(each, UNWINDERS))]),
        begun,
    )


class _Code:
    """Executable file mappings."""

    def __init__(self, memory: Process):
        self._maps = memory.maps()

    def of(self, files: Iterable[Linked]) -> list[range]:
        found = []
        for file in files:
            path = next((each.path for each in self._maps if each.start <= file.base < each.end), "")
            found += [
                range(each.start, each.end)
                for each in self._maps
                if path and each.path == path and "x" in each.permissions
            ]
        return found


def _named(each: Linked, beginnings: tuple[str, ...]) -> bool:
    return os.path.basename(each.name).startswith(beginnings)


def _malloc_of(libc: Linked) -> list[range]:
    """The code of glibc's malloc: its functions lie side by side."""
    known = [address for name in PLAIN if (address := libc.defined(name))]
    return [range(min(known) - BESIDE_BYTES, max(known) + BESIDE_BYTES)]


def _first(listed: Sequence[Linked], name: str, allocator: Linked) -> int:
    """Address of the allocator's function; 0 if the dynamic linker finds another library's first."""
    for each in listed:
        if address := each.defined(name):
            return address if each is allocator else 0
    return 0


def _loader(each: Linked, libc: Linked) -> int:
    """Address of dlopen in the C library or libdl. Others do not count, because an allocator may define dlopen, too."""
    if each is libc:
        return each.defined("dlopen") or each.defined("__libc_dlopen_mode")
    return each.defined("dlopen") if os.path.basename(each.name).startswith("libdl.so") else 0


def _check_slots(
    pid: int, listed: Sequence[Linked], recorders: Sequence[Linked], same: Sequence[Linked],
    functions: dict[str, int], slots: Sequence[Slot],
) -> None:  # fmt: skip
    """Raises Refused unless the process calls its allocator through slots that can be redirected and are not redirected
    yet."""
    own = {each.defined(name) for each in recorders if each not in same for name in functions}
    if any(slot.value in own for slot in slots):
        raise Refused(pid, "another version of hak records it already")
    if not same and not any(slot.value == functions[slot.name] for slot in slots):
        raise Refused(pid, f"nothing in it calls malloc in a way that can be redirected: {BEGIN_AGAIN}")


def check_folders(pid: int, library: Path) -> None:
    """Raises LabError where the process cannot see the files of the recorder and the folder of the collector's
    socket."""
    for path in (library, Path(tempfile.gettempdir())):
        try:
            seen = os.path.samefile(path, f"/proc/{pid}/root{path.absolute()}")
        except OSError:
            seen = False
        if not seen:
            raise Refused(
                pid,
                f"it does not see {path}, for it has files of its own (a container, a service with PrivateTmp, a "
                "chroot): run hak inside, or set TMPDIR and XDG_CACHE_HOME to folders that both see",
            )
