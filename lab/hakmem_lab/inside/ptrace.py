"""Stops threads of another process by ptrace, as a debugger does. The parent of the process does not notice, and the
threads continue by themselves if hak ends.

`stopped` stops all threads, so that the process does not change while it is read. `Thread` stops one thread, and
`Calls` calls functions in it while the other threads go on. These functions run on a stack of their own. Afterwards the
thread's registers and signal mask are restored, and it continues where it was. gdb is not used for this: gdb 13 sets
only half of the registers if the processor has more of them than gdb knows.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError, rights
from hakmem_lab.inside.memory import Gone, Process
from hakmem_lab.system.files import text

# From linux/ptrace.h and linux/wait.h.
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
ROUNDS = 100  # limit on passes over the threads, which may start further ones
SPIN_S, SOON_S, PATIENCE_S = 0.001, 0.1, 10.0  # while a thread has not stopped yet

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def ptrace(request: int, thread: int, data: int = 0, address: int = 0) -> int:
    """Call ptrace; 0, or the number of the error. data: usually a signal."""
    return 0 if _libc.ptrace(request, thread, address, data) == 0 else ctypes.get_errno()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """All threads of the process are stopped within the block. Raises LabError if that is not allowed."""
    held: set[int] = set()
    with ExitStack() as threads:
        for _ in range(ROUNDS):
            fresh = [thread for thread in _threads(pid) if thread not in held]
            if not fresh:
                break
            for thread in fresh:
                held.add(thread)
                with suppress(Gone):  # this thread has ended meanwhile
                    threads.enter_context(Thread(pid, thread, of_all=True))
        yield


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        raise Gone(pid) from None


def stops(pid: int, thread: int) -> int | None:
    """Wait for a thread to stop; its status. None: it is in a call that nothing interrupts, and need not stop.

    vfork is such a call, until the child goes on.
    """
    started = time.monotonic()
    while True:
        done, status = os.waitpid(thread, WALL | os.WNOHANG)
        if done:
            return status
        waited = time.monotonic() - started
        if waited > SOON_S and _sleeps_deeply(pid, thread):
            return None
        if waited > PATIENCE_S:
            raise LabError(f"process {pid} cannot be stopped: its thread {thread} does not stop; omit --stop")
        if waited > SPIN_S:
            time.sleep(SPIN_S)


def _sleeps_deeply(pid: int, thread: int) -> bool:
    after_name = (text(f"/proc/{pid}/task/{thread}/stat") or "").rpartition(")")[2]
    return after_name.split()[:1] == ["D"]


# From linux/ptrace.h and linux/elf.h.
PTRACE_CONT, PTRACE_SINGLESTEP = 7, 9
PTRACE_GETREGSET, PTRACE_SETREGSET, PTRACE_GETSIGMASK, PTRACE_SETSIGMASK = 0x4204, 0x4205, 0x420A, 0x420B
NT_PRSTATUS, NT_PRFPREG, NT_X86_XSTATE, NT_ARM_SYSTEM_CALL, NT_ARM_SVE = 1, 2, 0x202, 0x404, 0x405
STATE_BYTES = 1 << 18  # more than any processor has of vectors and tiles
STACK_BYTES, TEXT_BYTES = 1 << 20, 1 << 16
READ_WRITE, PRIVATE_ANONYMOUS = 3, 0x22
# Signals that a thread's own instructions raise. They stay unblocked: the kernel removes the handler of a blocked one.
OWN_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS)
SINGLE_STEP, DIRECTION = 0x100, 0x400  # of x86's flags


@dataclass(frozen=True)
class Machine:
    """Positions in the general registers. extra: sets of further registers; the first one that the processor has is
    saved. align: alignment of instructions."""

    words: int
    pc: int
    sp: int
    result: int
    number: int
    arguments: tuple[int, ...]
    call_arguments: tuple[int, ...]
    extra: tuple[int, ...]
    system_call: bytes
    trap: bytes
    align: int
    mmap: int
    munmap: int


MACHINES = {
    "x86_64": Machine(
        27, 16, 19, 10, 10, (14, 13, 12, 11, 9, 8), (14, 13, 12, 7, 9, 8), (NT_X86_XSTATE, NT_PRFPREG), b"\x0f\x05",
        b"\xcc", 1, 9, 11,
    ),
    "aarch64": Machine(
        34, 32, 31, 0, 8, (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5), (NT_ARM_SVE, NT_PRFPREG), b"\x01\x00\x00\xd4",
        b"\x00\x00\x20\xd4", 4, 222, 215,
    ),
}  # fmt: skip
X86_ORIGINAL, X86_FLAGS, ARM_LINK = 15, 18, 30


class Failed(LabError):
    """A function could not be called in the process; the process continues where it was."""


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def machine() -> Machine:
    return MACHINES[platform.machine()]


def _ends(pid: int) -> bool:
    """Whether the process has no mappings any more: it is about to end, and nobody may debug it."""
    with suppress(OSError):
        return not Path(f"/proc/{pid}/maps").read_bytes()
    return not os.path.exists(f"/proc/{pid}")


class Thread:
    """One thread, stopped within the block. of_all: all threads are being stopped; one of them may be in a call that
    nothing interrupts. Raises LabError if it may not be stopped, Gone if it has ended."""

    def __init__(self, pid: int, tid: int, of_all: bool = False):
        self._pid, self.tid, self._of_all, self._signal, self._held = pid, tid, of_all, 0, False

    def __enter__(self) -> "Thread":
        if error := ptrace(PTRACE_SEIZE, self.tid):
            if error == errno.ESRCH or _ends(self._pid):
                raise Gone(self._pid)
            what, who = "may not be debugged", rights("be its user with kernel.yama.ptrace_scope at 0")
            if self._of_all:
                what, who = "cannot be stopped", "be its user, end its debugger, or omit --stop"
            raise LabError(f"process {self._pid} {what} ({os.strerror(error)}): {who}")
        self._held = True
        try:
            if ptrace(PTRACE_INTERRUPT, self.tid):
                raise Gone(self._pid)
            status = stops(self._pid, self.tid)
            if status is None and self._of_all:
                return self
            if status is None:
                raise Failed(f"process {self._pid}: its thread {self.tid} does not stop")
            self._note(status)
            if status >> 16 == 0 and os.WIFSTOPPED(status):
                self._signal = os.WSTOPSIG(status)  # to be delivered when the thread continues
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            ptrace(PTRACE_DETACH, self.tid, self._signal)
            self._held = False

    def _note(self, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._held = False
            raise Gone(self._pid)

    def _set(self, request: int, kind: int, data: Any, length: int) -> int:
        """Get or set one set of registers; its size in bytes, 0 if the processor lacks it."""
        vector = Vector(ctypes.addressof(data), length)
        return 0 if ptrace(request, self.tid, ctypes.addressof(vector), kind) else vector.length

    def registers(self) -> list[int]:
        data = ctypes.create_string_buffer(8 * machine().words)
        if not self._set(PTRACE_GETREGSET, NT_PRSTATUS, data, len(data)):
            raise Gone(self._pid)
        return list(struct.unpack(f"={machine().words}Q", data.raw))

    def set_registers(self, values: Sequence[int]) -> None:
        data = ctypes.create_string_buffer(struct.pack(f"={machine().words}Q", *values))
        self._set(PTRACE_SETREGSET, NT_PRSTATUS, data, 8 * machine().words)

    def system_call(self) -> int:
        """The number of the system call that the thread is in; -1: none."""
        if platform.machine() == "x86_64":
            return struct.unpack("=q", struct.pack("=Q", self.registers()[X86_ORIGINAL]))[0]
        data = ctypes.c_int(-1)
        self._set(PTRACE_GETREGSET, NT_ARM_SYSTEM_CALL, data, 4)
        return data.value

    def go(self, request: int) -> int:
        """Let the thread run until it stops by itself; returns the signal."""
        while True:
            ptrace(request, self.tid)
            while True:
                done, status = os.waitpid(self.tid, WALL | os.WNOHANG)
                if done:
                    break
                time.sleep(SPIN_S / 10)
            self._note(status)
            if status >> 16 == 0 and os.WSTOPSIG(status) != signal.SIGSTOP:
                return os.WSTOPSIG(status)


class Calls:
    """Calls that a stopped thread makes, within the block. code: ranges of the C library's code."""

    def __init__(self, memory: Process, thread: Thread, code: Sequence[range]):
        self._memory, self._thread, self._code = memory, thread, code
        self._room = 0

    def __enter__(self) -> "Calls":
        self._trap, self._gate = self._instruction(machine().trap), self._instruction(machine().system_call)
        self._registers = self._thread.registers()
        self._extra: tuple[int, Any, int] | None = None
        for kind in machine().extra:
            data = ctypes.create_string_buffer(STATE_BYTES)
            if length := self._thread._set(PTRACE_GETREGSET, kind, data, STATE_BYTES):
                self._extra = (kind, data, length)
                break
        self._mask = ctypes.c_uint64()
        if self._extra is None or ptrace(PTRACE_GETSIGMASK, self._thread.tid, ctypes.addressof(self._mask), 8):
            raise Failed(f"process {self._memory.pid}: the registers of a thread cannot be read")
        blocked = ctypes.c_uint64(~sum(1 << (number - 1) for number in OWN_SIGNALS) & (1 << 64) - 1)
        ptrace(PTRACE_SETSIGMASK, self._thread.tid, ctypes.addressof(blocked), 8)
        try:
            self._room = self._kernel(machine().mmap, 0, STACK_BYTES, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
            if self._room % self._memory.page:
                self._room = 0
                raise Failed(f"process {self._memory.pid}: it has no memory left")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._room:
                self._kernel(machine().munmap, self._room, STACK_BYTES)
        finally:
            self._put_back()

    def _put_back(self) -> None:
        ptrace(PTRACE_SETSIGMASK, self._thread.tid, ctypes.addressof(self._mask), 8)
        if self._extra:
            kind, data, length = self._extra
            self._thread._set(PTRACE_SETREGSET, kind, data, length)
        self._thread.set_registers(self._registers)

    def _instruction(self, wanted: bytes) -> int:
        """An address at which the code contains these bytes."""
        step = machine().align
        for part in self._code:
            code = self._memory.read(part.start, len(part))
            at = -1
            while (at := code.find(wanted, at + 1)) >= 0:
                if at % step == 0:
                    return part.start + at
        raise Failed(f"process {self._memory.pid}: its C library has no code to return to")

    def _begin(self, pc: int, places: Sequence[int], arguments: Sequence[int]) -> list[int]:
        values = self._registers.copy()
        values[machine().pc] = pc
        for place, value in zip(places, arguments, strict=False):
            values[place] = value & (1 << 64) - 1
        if platform.machine() == "x86_64":
            values[X86_ORIGINAL] = (1 << 64) - 1  # no system call to restart
            values[X86_FLAGS] &= ~(SINGLE_STEP | DIRECTION)
        return values

    def _kernel(self, number: int, *arguments: int) -> int:
        values = self._begin(self._gate, machine().call_arguments, arguments)
        values[machine().number] = number
        self._thread.set_registers(values)
        self._thread.go(PTRACE_SINGLESTEP)
        return self._thread.registers()[machine().result]

    def text(self, data: bytes) -> int:
        """Write a text into the process; its address, which is valid until the next text."""
        if len(data) > TEXT_BYTES:
            raise Failed(f"process {self._memory.pid}: {len(data)} bytes are too many")
        self._memory.write(self._room, data)
        return self._room

    def function(self, address: int, *arguments: int) -> int:
        values = self._begin(address, machine().arguments, arguments)
        top = self._room + STACK_BYTES - 256
        if platform.machine() == "x86_64":
            top -= 8  # alignment after a call instruction
            self._memory.write(top, struct.pack("=Q", self._trap))
            values[machine().result] = 0  # no vectors among the arguments
        else:
            values[ARM_LINK] = self._trap
        values[machine().sp] = top
        self._thread.set_registers(values)
        number = self._thread.go(PTRACE_CONT)
        after = self._thread.registers()
        if number != signal.SIGTRAP or after[machine().pc] - self._trap not in (0, machine().align):
            raise Failed(f"process {self._memory.pid}: a function that was called in it ended by signal {number}")
        return after[machine().result]
