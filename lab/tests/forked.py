"""Starts `hak` as a fork of a process that has loaded it, since Python and the imports take longer than most commands.

The server forks twice, so that the command is an orphan, which the test process adopts and awaits like any child of its
own. What differs from a start of its own: its command line in /proc, and the modules that it finds loaded.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

LAUNCH = (sys.executable, "-m", "hakmem_lab.cli.main")
# Parents such as nohup, or a shell with a background job, may ignore signals. The tested command must not inherit that.
FOREGROUND = ("env", "--default-signal=INT,TERM,HUP")
# Beginnings of variables that Python, its libraries or the dynamic linker read at the start.
EARLY = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "OMP_", "MKL_")
# What a command that judges loads, which takes a second.
LOADED = (
    "hakmem_lab.cli.commands",
    "hakmem_lab.cli.measure",
    "hakmem_lab.designs.engine",
    "hakmem_lab.kinds.judge",
    "hakmem_lab.show.report",
    "hakmem_lab.show.terminal.render",
    "hakmem_lab.trace.record",
    "rich.progress",
    "scipy.optimize",
    "scipy.special",
)


class Server:
    """The process that is forked."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[1])
        theirs.close()
        self.early = early(os.environ)

    def lives(self) -> bool:
        """A test may end all processes that it has started."""
        return self._process.poll() is None

    def fork(self, words: list, folder: str, env: dict, streams: list[int]) -> int:
        """The PID of a `hak` with these words."""
        with open(os.memfd_create("words"), "w+", encoding="utf-8", errors="surrogateescape") as file:
            json.dump([words, folder, env], file)
            file.flush()
            socket.send_fds(self._ours, [b"fork"], [*streams, file.fileno()])
            return int(self._ours.recv(20))


class Forked(subprocess.Popen):
    """A process with the words of LAUNCH, perhaps FOREGROUND before them, and those of hak. Where a fork would not
    do, it is started as usual."""

    server: Server | None = None

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        from hakmem_lab.system import signals

        env, folder = env or dict(os.environ), cwd
        with contextlib.suppress(FileNotFoundError):
            folder = folder or os.getcwd()
        if Forked.server is None or not Forked.server.lives():
            Forked.server = Server()
        first = len(FOREGROUND) if args[0] == FOREGROUND[0] else 0
        words = [*map(os.fsdecode, args[first:])]
        special = preexec_fn or pass_fds or not folder or early(env) != Forked.server.early
        if words[:3] != [*LAUNCH] or special:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        signals.adopt()
        ends = rest[3:9]  # two of each pipe; -1 stands for the stream of this process
        streams = [own if end < 0 else end for own, end in enumerate((ends[0], ends[3], ends[5]))]
        self.pid = Forked.server.fork(words[3:], os.fspath(folder), dict(env), streams)
        self._child_created = True
        self._close_pipe_fds(*ends)


def early(env) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(EARLY)}


def serve(connection: socket.socket) -> tuple[list, list[int]]:
    """Returns in each forked command: its words, and descriptors to close."""
    gc.freeze()
    while True:
        asked, fds, *_ = socket.recv_fds(connection, 16, 4)
        if not asked:
            os._exit(0)
        reading, writing = os.pipe()
        if os.fork() == 0:
            if pid := os.fork():
                os.write(writing, str(pid).encode())
                os._exit(0)
            return fds
        os.wait()
        connection.send(os.read(reading, 20))
        for fd in (reading, writing, *fds):
            os.close(fd)


def become(fds: list[int]) -> None:
    """Takes over the words, folder, environment and streams of a command."""
    with open(fds[3], encoding="utf-8", errors="surrogateescape") as file:
        file.seek(0)
        words, folder, env = json.load(file)
    for own, fd in enumerate(fds[:3]):
        os.dup2(fd, own)
    os.closerange(3, max(fds) + 10)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["hak", *words]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    from hakmem_lab.cli.main import main

    become(serve(socket.socket(fileno=int(sys.argv[1]))))
    main()
