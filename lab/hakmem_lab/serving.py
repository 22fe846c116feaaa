"""The port of a server under test. Imports spec."""

import contextlib
import errno
import socket
from collections.abc import Sequence

from .spec import Server

PORT = "{port}"


def choose_port(server: Server) -> int:
    """The server's port, or one that nobody uses. Raises OSError where somebody else has it."""
    if server.port == "auto":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]
    if _in_use(server.port):
        raise OSError(errno.EADDRINUSE, f"port {server.port} is in use by another program")
    return server.port


def _in_use(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def with_port(words: Sequence[str], port: int) -> list[str]:
    return [word.replace(PORT, str(port)) for word in words]
