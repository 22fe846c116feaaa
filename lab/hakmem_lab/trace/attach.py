"""Records or samples a running process: one of its threads loads the recorder, then continues.

Everything that can be found out from outside is checked before the process is touched. The thread must hold no lock of
the dynamic linker, the C library or the allocator. So it must wait in a system call, or be in the program's own code.
"""

import contextlib
import os
import platform
import shutil
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.inside.links import Linked
from hakmem_lab.inside.memory import Gone, Process, Unreadable
from hakmem_lab.inside.ptrace import Calls, Thread, machine
from hakmem_lab.system import files, signals
from hakmem_lab.trace import named, reach, recorder, stacks
from hakmem_lab.trace.reach import ATTACH, START, Reach, Refused
from hakmem_lab.trace.record import Collector, Recorded, information, stopped_after, stopped_by_signals

LIMIT_S, PAUSE_S = 30.0, 0.005
RTLD_NOW_NODELETE = 0x1002
# Bytes of the stack that are searched for callers of the C library; while it waits for a lock, it uses more itself.
CALLERS_BYTES, LOCK_CALLERS_BYTES = 192, 512
# Numbers of system calls. WAITS: waiting calls that only a program makes. OTHERS: calls that the C library and
# allocators make, too, and the restart of an interrupted call. LOCK: the call that waits for a lock. READS: those of
# OTHERS that read from the descriptor in their first argument.
WAITS = {
    "x86_64": {7, 23, 34, 43, 45, 47, 61, 128, 130, 208, 232, 247, 270, 271, 281, 288, 441},
    "aarch64": {4, 22, 72, 73, 95, 133, 137, 202, 207, 212, 242, 260, 441},
}
OTHERS = {
    "x86_64": {0, 1, 3, 17, 18, 19, 20, 24, 35, 44, 46, 74, 75, 202, 219, 230},
    "aarch64": {57, 63, 64, 65, 66, 67, 68, 82, 83, 98, 101, 115, 124, 128, 206, 211},
}
LOCK, READS = {"x86_64": 202, "aarch64": 98}, {"x86_64": {0, 19}, "aarch64": {63, 65}}
# Reasons for the failures -1, -2, ... of hak_record_attach.
REASONS = (
    "nothing in it calls its allocator in a way that can be redirected",
    "it is recorded already",
    "one of its pages cannot be written",
    "it cannot reach the collector, or has no room for what it shares with it",
)


def process(pid: int, output: Path, seconds: float | None = None, stack_bytes: int = 0) -> Recorded:
    """Records a process until it ends, the time is over or a signal arrives; the process continues. Raises LabError."""
    library = recorder()
    found = reach.of(pid, library)
    foreign = _user(pid) != os.geteuid()
    reach.check_folders(pid, Path("/") if foreign else library)
    was_there = output.exists()
    info = information(files.words(f"/proc/{pid}/cmdline"), None, stack_bytes)
    info |= {"cwd": _folder(pid), "environment": {}, "stdin": None}
    with _names_kept(pid, output, stack_bytes), Collector(output, info) as collector:
        if foreign:  # its user may have no access to our folders
            library = Path(shutil.copy(library, collector.socket.parent))
            library.chmod(0o755)
        try:
            with signals.held():
                _inject(pid, found, library, collector.socket)
        except LabError:
            if not was_there:
                output.unlink(missing_ok=True)
            raise
        with stopped_by_signals(collector):
            collector.tell("exited 0 0 0 0")  # we started no command to wait for
            with stopped_after(collector, seconds):
                return collector.wait()


@contextlib.contextmanager
def _names_kept(pid: int, trace: Path, stack_bytes: int) -> Iterator[None]:
    """Afterwards, the names of the process's functions are in the trace, if its files are not ours."""
    root = named.elsewhere(pid) if stack_bytes else None
    try:
        yield
        if root is not None:
            with contextlib.suppress(LabError):  # a damaged trace, which the reader reports
                stacks.keep_names(trace, root)
    finally:
        if root is not None:
            os.close(root)


def _user(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        raise LabError(files.no_process(pid)) from None


def _folder(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/cwd")
    return None


def start_sampling(pid: int, mean_bytes: int) -> bool:
    """Calls the function of hakmem in the process that starts its heap profile. It may load the library that unwinds
    stacks. False: the function is missing, or refused. Raises LabError where no thread can make the call."""
    found = reach.of(pid, Path())
    if not (start := found.calls[START]):
        return False
    with signals.held():
        return _within_a_thread(pid, found, lambda _, calls: calls.function(start, mean_bytes) & 0xFFFFFFFF) == 0


def _within_a_thread(pid: int, found: Reach, work: Callable[[Process, Calls], int]) -> int:
    """Runs `work` in a thread that holds no lock, and returns its result. Raises LabError."""
    deadline = time.monotonic() + LIMIT_S
    with Process(pid) as memory:
        while time.monotonic() < deadline:
            for tid in _threads(pid):
                # A thread may have ended while the rest of its process still runs.
                with contextlib.suppress(Gone), Thread(memory.pid, tid) as thread:
                    if Path(f"/proc/{pid}/auxv").read_bytes() != found.begun:
                        raise Refused(pid, "it has become another program: try again")
                    if _is_free(thread, found, memory):
                        return _called(found, memory, thread, work)
            time.sleep(PAUSE_S)
    raise Refused(pid, "none of its threads came to a place where it can load a library: try again")


def _called(found: Reach, memory: Process, thread: Thread, work: Callable[[Process, Calls], int]) -> int:
    with Calls(memory, thread, found.libc) as calls:
        place = calls.function(found.calls["__errno_location"])
        errno = memory.read(place, 4)
        try:
            return work(memory, calls)
        finally:
            memory.write(place, errno)


def _threads(pid: int) -> list[int]:
    """Threads of a process, the waiting ones first."""
    try:
        found = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        raise LabError(files.no_process(pid)) from None
    return sorted(found, key=lambda tid: _call(pid, tid)[0] not in WAITS[platform.machine()])


def _call(pid: int, tid: int) -> tuple[int, int]:
    """Number and first argument of the system call in which a thread sleeps; number -1: none."""
    with contextlib.suppress(OSError, ValueError):
        number, first, *_ = Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()
        return int(number), int(first, 16)
    return -1, 0


def _waits_for_others(pid: int, tid: int) -> bool:
    """Whether a thread reads from a pipe, socket or terminal. The C library and allocators read only from files."""
    number, descriptor = _call(pid, tid)
    if number not in READS[platform.machine()]:
        return False
    with contextlib.suppress(OSError):
        path = f"/proc/{pid}/fd/{descriptor}"
        mode = os.stat(path).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.readlink(path).startswith(("/dev/pts/", "/dev/tty"))
    return False


def _is_free(thread: Thread, found: Reach, memory: Process) -> bool:
    """Whether the thread holds no lock that loading a library takes."""
    values, number, kind = thread.registers(), thread.system_call(), platform.machine()
    pc, sp = values[machine().pc], values[machine().sp]
    if _within(pc, found.never, found.allocator):
        return False
    if not _within(pc, found.libc):
        in_a_file = any(each.start <= pc < each.end and each.is_file for each in memory.maps())
        return number == -1 and in_a_file and not _called_by(sp, LOCK_CALLERS_BYTES, found, memory)
    if not _at_system_call(pc, memory):
        return False
    bytes_ = LOCK_CALLERS_BYTES if number == LOCK[kind] else CALLERS_BYTES
    if number in WAITS[kind] or _waits_for_others(memory.pid, thread.tid):
        return True
    return number in OTHERS[kind] and not _called_by(sp, bytes_, found, memory)


def _within(address: int, *codes: Sequence[range]) -> bool:
    return any(address in each for code in codes for each in code)


def _called_by(sp: int, bytes_: int, found: Reach, memory: Process) -> bool:
    """Whether the allocator or the dynamic linker may be among the thread's callers. Remains of earlier calls count,
    too."""
    try:
        words = struct.unpack(f"={bytes_ // 8}Q", memory.read(sp, bytes_))
    except Unreadable:
        return True
    return any(_within(word, found.never, found.allocator) for word in words)


def _at_system_call(pc: int, memory: Process) -> bool:
    """Whether the thread is at a system call. On some machines the kernel sets pc back to before the instruction."""
    call = machine().system_call
    with contextlib.suppress(Unreadable):
        return call in (memory.read(pc - len(call), len(call)), memory.read(pc, len(call)))
    return False


def _inject(pid: int, found: Reach, library: Path, socket: Path) -> None:
    def begin(memory: Process, calls: Calls) -> int:
        attach = found.recorder or _load(pid, found, memory, calls, library)
        address = os.fsencode(socket) + b"\0"
        told = calls.text(address + found.rows().encode() + b"\0")
        return calls.function(attach, told, told + len(address)) & 0xFFFFFFFF

    answer = _within_a_thread(pid, found, begin)
    if answer >> 31:
        raise Refused(pid, REASONS[min((1 << 32) - answer, len(REASONS)) - 1])


def _load(pid: int, found: Reach, memory: Process, calls: Calls, library: Path) -> int:
    """Loads the recorder. Returns the address of its function hak_record_attach."""
    handle = calls.function(found.calls["dlopen"], calls.text(os.fsencode(library) + b"\0"), RTLD_NOW_NODELETE)
    if handle == 0:
        said = calls.function(found.calls["dlerror"])
        why = memory.read(said, memory.page - said % memory.page).partition(b"\0")[0] if said else b"no reason"
        raise Refused(pid, f"its dynamic linker does not load the recorder: {why.decode(errors='replace')}")
    base, _, dynamic = struct.unpack("=3Q", memory.read(handle, 24))
    return Linked(memory, base, dynamic).defined(ATTACH)
