"""`--workers N`: forks of the process that collected the tests run them, since to collect takes as long as many tests.

A pipe holds the numbers of all batches of tests. A worker takes the next one when it begins the last test of its own,
and sends its reports to the collecting process, which shows and stores them as if it had run the tests itself.
"""

import itertools
import os
import signal
import struct
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path

import pytest

NUMBER = struct.Struct("I")
LARGEST = 8  # tests of a batch, which share what their file prepares
SHOWING = ("_pytest.cacheprovider", "_pytest.junitxml", "_pytest.terminal")
SHARED = pytest.StashKey[Path]()  # the folder above those of the workers

Batches = list[list[pytest.Item]]


def batches(items: Sequence[pytest.Item], workers: int) -> Batches:
    """Tests marked `one_worker` with the same name; otherwise neighbours in a file, and near the end single tests."""
    found: Batches = []
    named: dict[str, list[pytest.Item]] = {}
    last: list[pytest.Item] = []
    for number, item in enumerate(items):
        mark = item.get_closest_marker("one_worker")
        most = min(LARGEST, 1 + (len(items) - number) // (50 * workers))
        if mark and mark.args[0] in named:
            named[mark.args[0]].append(item)
        elif mark:
            found.append(named.setdefault(mark.args[0], [item]))
        elif last and last[-1].path == item.path and len(last) < most:
            last.append(item)
        else:
            last = [item]
            found.append(last)
    return found


class Sender:
    """The plugin that sends what a worker reports."""

    def __init__(self, config: pytest.Config, pipe: Connection):
        self._config, self._pipe = config, pipe

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._pipe.send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._pipe.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def taken(queue: int, tests: Batches) -> Iterator[pytest.Item]:
    """The tests that this worker runs, until there are none, or until its parent is gone."""
    parent = os.getppid()
    while number := os.read(queue, NUMBER.size):
        yield from itertools.takewhile(lambda _: os.getppid() == parent, tests[NUMBER.unpack(number)[0]])


def work(config: pytest.Config, queue: int, tests: Batches, pipe: Connection, folder: Path) -> None:
    """In a fork, whose temporary folder, captured output and reports must be its own."""
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__module__ in SHOWING:
            config.pluginmanager.unregister(plugin)
    config.pluginmanager.register(Sender(config, pipe))
    for item, following in itertools.pairwise(itertools.chain(taken(queue, tests), [None])):
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class Worker:
    """One of the forks. test: the name of the one that it runs."""

    def __init__(self, config: pytest.Config, queue: int, tests: Batches, folder: Path):
        self._config, self.test, self.ended = config, "", False
        self._pipe, theirs = Pipe(duplex=False)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                work(config, queue, tests, theirs, folder)
                theirs.send(None)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        theirs.close()

    def fileno(self) -> int:
        return self._pipe.fileno()

    def receive(self) -> None:
        """Passes on what the worker has said."""
        try:
            said = self._pipe.recv()
        except EOFError:
            said = None
        if said is None:
            self.end()
        elif isinstance(said, str):
            self.test = said
        else:
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=said)
            self._config.hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                self.test = ""

    def end(self) -> None:
        """A test that has not ended by now is one that has ended its worker."""
        if self.test:
            place = (self.test.partition("::")[0], None, self.test)
            report = pytest.TestReport(self.test, place, {}, "failed", "its worker has ended", "call")
            self._config.hook.pytest_runtest_logreport(report=report)
        if not self.ended:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self.test, self.ended = "", True


def run(session: pytest.Session, left: dict[str, pytest.Item], workers: int, folder: Path) -> None:
    """Takes all tests out of `left` that a worker has begun."""
    tests = batches([*left.values()], workers)
    queue, writing = os.pipe()
    os.write(writing, b"".join(NUMBER.pack(number) for number in range(len(tests))))
    os.close(writing)
    running = [Worker(session.config, queue, tests, folder / f"worker{number}") for number in range(workers)]
    os.close(queue)
    try:
        while running:
            for worker in wait(running):
                worker.receive()
                left.pop(worker.test, None)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
            running = [worker for worker in running if not worker.ended]
    finally:
        for worker in running:
            worker.test = ""
            worker.end()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N forks of this process")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    workers = session.config.getoption("workers")
    if not workers or session.testsfailed or session.config.option.collectonly:
        return None
    base = session.config._tmp_path_factory.getbasetemp()
    session.config.stash[SHARED] = base
    left = {item.nodeid: item for item in session.items}
    for turn in itertools.count():  # again where a worker ended early
        before, folder = len(left), base / f"turn{turn}"
        folder.mkdir(mode=0o700)
        run(session, left, workers, folder)
        if not left:
            return True
        if len(left) == before:
            raise session.Failed("the workers began no test")
