"""Runs blocks on the workers of a Dask cluster: hands them out one at a time, and collects each as it is finished.

A host measures with one worker; further workers of the same host take over if that one dies. Every host gets the same
number of blocks, unless hosts join or leave. If a worker dies before it hands its block back, a free host measures that
block again.
"""

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem_fleet import part
from hakmem_fleet.gather import LOST, Gathering
from hakmem_fleet.part import FleetSpec
from hakmem_lab import extras
from hakmem_lab.errors import LabError, Stopped, one_line
from hakmem_lab.run.endings import Progress

CONNECT_S = 10.0
POLL_S = 0.25
# Limit on fetching an answer from a worker: a worker that dies at that moment never sends it.
ANSWER_S = 2.0
# How long a fleet without a host waits for one, for instance for a worker that its nanny restarts.
PATIENCE_S = 20.0


@contextlib.contextmanager
def connected(spec: FleetSpec) -> Iterator[Any]:
    """A client of the given cluster, or of a local one with this number of processes. Raises LabError."""
    if (spec.workers is None) == (spec.scheduler is None):
        raise LabError(
            "dask: name the cluster, --scheduler ADDRESS, or try it on this machine, --workers N: one of the two"
        )
    extras.need("fleet", "hak fleet --engine dask")
    import distributed

    for name in ("distributed", "asyncio"):  # this module reports a dead worker itself, in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        address: Any = spec.scheduler
        if spec.workers is not None:
            address = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=spec.workers, threads_per_worker=1, processes=True, memory_limit=None,
                    dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
                )
            )  # fmt: skip
        try:
            client = stack.enter_context(distributed.Client(address, timeout=CONNECT_S))
        except (OSError, ValueError) as error:
            why = one_line(str(error))
            raise LabError(
                f"--scheduler: no Dask scheduler answers at '{spec.scheduler}' ({why}); dask scheduler starts one"
            ) from None
        yield client


@dataclass
class Host:
    """A host, under the name with which its blocks are stored. workers: addresses; the first one measures.

    part: the number of its part, once it has begun one; file: the part's file on that host. job: what the host is doing
    now: the number of a block, or BEGINNING.
    """

    name: str
    workers: list[str] = field(default_factory=list)
    part: int | None = None
    file: str = ""
    future: Any = None
    job: int = 0
    patience_s: float = ANSWER_S
    left_out: bool = False


BEGINNING = -1


class Fleet:
    """Hands out the blocks of a job."""

    def __init__(self, client: Any, gathering: Gathering, progress: Progress, folder: Path):
        self._client, self._gathering, self._progress = client, gathering, progress
        self._spec, self._job = gathering.spec, gathering.job
        self._folder = str(folder) if self._spec.workers is not None else None
        self._hosts: dict[str, Host] = {}
        self._known: set[str] = set()

    def run(self) -> None:
        """Work until every block is counted. Raises LabError or Stopped where no host can measure."""
        alive_s = time.monotonic()
        try:
            while not self._done():
                self._look()
                self._hand_out()
                busy = [host for host in self._hosts.values() if host.future is not None]
                if busy:
                    alive_s = time.monotonic()
                    self._wait(busy)
                elif time.monotonic() - alive_s > PATIENCE_S or self._all_left_out():
                    raise self._nobody()
                else:
                    time.sleep(POLL_S)
        finally:
            self._progress.restart()
            self._end()

    def _done(self) -> bool:
        count = len(self._gathering.counted())
        self._progress.update(count, self._job.blocks, f"blocks, {len(self._live())} hosts")
        return count >= self._job.blocks

    def _live(self) -> list[Host]:
        return [host for host in self._hosts.values() if host.workers and not host.left_out]

    def _all_left_out(self) -> bool:
        return bool(self._hosts) and all(host.left_out for host in self._hosts.values())

    def _nobody(self) -> LabError | Stopped:
        if self._gathering.begun:
            return self._gathering.ledger.stopped("no host is left that can measure")
        if reasons := self._gathering.reasons():
            return LabError(f"no host can measure this: {'; '.join(dict.fromkeys(reasons))}")
        return LabError(
            f"the scheduler at {self._spec.scheduler} has no workers: dask worker {self._spec.scheduler} starts one"
        )

    def _look(self) -> None:
        """Record the hosts that have joined or left."""
        now = set(self._client.nthreads())
        for address in sorted(self._known - now):
            self._known.discard(address)
            for host in self._hosts.values():
                if address in host.workers:
                    self._lose(host, address)
        new = sorted(now - self._known)
        found = self._client.run(part.introduce, workers=new, on_error="return") if new else {}
        for address, answer in found.items():
            if isinstance(answer, OSError):
                continue  # it has gone again
            self._known.add(address)
            self._meet(address, answer)

    def _meet(self, address: str, answer: Any) -> None:
        if isinstance(answer, BaseException):
            host = self._hosts.setdefault(address, Host(address))
            self._leave_out(host, f"hak does not run in its workers: {one_line(str(answer))}")
            return
        name = answer["host"]
        if self._spec.workers is not None:
            name = f"{name}/{answer['name']}"
        self._hosts.setdefault(name, Host(name)).workers.append(address)

    def _lose(self, host: Host, address: str) -> None:
        measuring = host.workers[0] == address
        host.workers.remove(address)
        if measuring:
            if host.future is not None:
                self._client.cancel([host.future], force=True)
            if host.part is not None and Path(host.file).is_file():  # blocks that it finished but did not hand back
                self._gathering.collect([Path(host.file)])
            host.future, host.part = None, None
            self._gathering.leave_out(host.name, "its worker has died; its finished blocks are kept", LOST)
            self._progress.say(f"{host.name}: its worker has died; what it had not finished is measured again")

    def _leave_out(self, host: Host, why: str) -> None:
        host.left_out = True
        self._gathering.leave_out(host.name, one_line(why))
        self._progress.say(f"warning: {host.name} is left out: {one_line(why)}")

    def _hand_out(self) -> None:
        live = self._live()
        counted = self._gathering.counted()
        taken = {host.job for host in live if host.future is not None}
        pending = iter(sorted(set(range(self._job.blocks)) - set(counted) - taken))
        share = -(-self._job.blocks // len(live)) if live else 0
        done = list(counted.values())
        for host in live:
            if host.future is not None:
                continue
            if host.part is None:
                self._submit(host, BEGINNING, part.begin_in_worker, self._job.plain(), host.name, self._folder)
            elif done.count(host.name) < share and (index := next(pending, None)) is not None:
                self._submit(host, index, part.measure_in_worker, self._job.id, index)

    def _submit(self, host: Host, job: int, function: Any, *words: object) -> None:
        host.job = job
        host.future = self._client.submit(
            function, *words, workers=[host.workers[0]], allow_other_workers=False, pure=False, retries=0
        )

    def _wait(self, busy: list[Host]) -> None:
        import distributed

        with contextlib.suppress(TimeoutError):
            distributed.wait([host.future for host in busy], timeout=POLL_S, return_when="FIRST_COMPLETED")
        for host in busy:
            if host.future.done():
                self._take(host)

    def _take(self, host: Host) -> None:
        """Take what a host hands back: the beginning of its part, a block, or the reason for having neither."""
        future, host.future = host.future, None
        if future.status == "finished":
            try:
                answer = future.result(timeout=host.patience_s)
            except TimeoutError:  # the worker is slow, or dead: then _look notices soon
                host.future, host.patience_s = future, 2 * host.patience_s
                return
            if host.job == BEGINNING:
                host.part, host.file = self._gathering.part(answer["header"]), answer["file"]
            assert host.part is not None
            self._gathering.ledger.add([(host.part, answer["records"])])
            if answer.get("why"):
                self._leave_out(host, answer["why"])
        elif future.status == "error":
            error = future.exception()
            if type(error).__name__ != "KilledWorker":  # _look notices a dead worker soon
                self._leave_out(host, str(error) or type(error).__name__)

    def _end(self) -> None:
        """Cancel what is pending and end every host's part; a block that is being measured is finished first."""
        addresses = [host.workers[0] for host in self._hosts.values() if host.workers and host.part is not None]
        with contextlib.suppress(Exception):
            busy = [host.future for host in self._hosts.values() if host.future is not None]
            self._client.cancel(busy, force=True)
            last = [self._client.submit(part.end_in_worker, workers=[a], pure=False, retries=0) for a in addresses]
            import distributed

            distributed.wait(last, timeout=CONNECT_S)
