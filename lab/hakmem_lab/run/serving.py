"""The port of a server under test."""

import contextlib
import errno
import socket
import threading
from collections import deque
from collections.abc import Sequence

from hakmem_lab.plan.spec import Server

PORT = "{port}"
RECENT_PORTS = 64

_recent: deque[int] = deque(maxlen=RECENT_PORTS)
_choosing = threading.Lock()


def choose_port(server: Server) -> int:
    """The server's port, or one that nobody uses. Raises OSError where somebody else has it."""
    if server.port == "auto":
        return _free_port()
    if _in_use(server.port):
        raise OSError(errno.EADDRINUSE, f"port {server.port} is in use by another program")
    return server.port


def _free_port() -> int:
    """Not one that was given lately to a server that may not listen yet: two of them may be started at once."""
    with _choosing:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            if port not in _recent:
                _recent.append(port)
                return port


def _in_use(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def with_port(words: Sequence[str], port: int) -> list[str]:
    return [word.replace(PORT, str(port)) for word in words]
