"""The client that drives a server in a soak or a count of system calls.

A client runs on no arm: it sees the spec's variables and nothing of the allocator.
"""

from collections.abc import Sequence

from hakmem_lab.plan.arms import callers_environment
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.spec import Server
from hakmem_lab.run.runner import Workload
from hakmem_lab.run.serving import with_port
from hakmem_lab.system.launcher import Launcher, Outcome, Request, Running

TAIL_CHARACTERS = 400


def client_request(workload: Workload, command: Sequence[str], port: int) -> Request:
    """A client's command, ready to be started."""
    argv = with_port(command, port)
    argv[0] = str(find_program(argv[0]))
    return Request(
        argv, callers_environment() | workload.env, workload.cwd, workload.pin, workload.timeout_s, sample_ms=0
    )


def failure(outcome: Outcome, what: str = "") -> str | None:
    """Why a client, or what goes before and after, did not end well, else None."""
    why = outcome.failure()
    if why and (tail := " ".join((outcome.stderr or outcome.stdout).split())[-TAIL_CHARACTERS:]):
        why += f": {tail}"
    return f"{what}: {why}" if why and what else why


def drive(clients: Launcher, workload: Workload, server: Server, command: Sequence[str], port: int) -> str | None:
    """Runs the warm-up client, if there is one, and the client once; why one of them failed."""
    for what, argv in (("warm-up client", server.warm_up), ("client", command)):
        if argv and (why := failure(clients.run(client_request(workload, argv, port)), what)):
            return why
    return None


class Driver:
    """A client that keeps a server busy: started again whenever it has ended well, until it is closed."""

    def __init__(self, workload: Workload, server: Server, command: Sequence[str], port: int, again: bool):
        """again: False where one client runs for the whole time."""
        self._request, self._again = client_request(workload, command, port), again
        self._warm_up = server.warm_up and client_request(workload, server.warm_up, port)
        self._launcher = Launcher()
        self._running: Running | None = None
        self._offset = 0

    def begin(self) -> str | None:
        """The warm-up client from start to end, then the first client; why the former failed."""
        if self._warm_up and (why := failure(self._launcher.run(self._warm_up), "warm-up client")):
            return why
        self._running = self._launcher.start(self._request)
        return None

    def heard(self) -> tuple[bytes, str | None]:
        """(what was written since the last call, why the client failed). One that has ended well is started again."""
        if self._running is None:
            return b"", None
        over = self._running.ended()
        added = self._running.output(self._offset)
        self._offset += len(added)
        if not over:
            return added, None
        why = failure(self._running.wait(), "client")
        self._running, self._offset = None, 0
        if why is None and self._again:
            self._running = self._launcher.start(self._request)
        return added, why

    def close(self) -> None:
        """Ends what still runs."""
        if self._running is not None:
            self._running.kill()
        self._launcher.close()
