"""One run of one arm: start the program (and its server), measure it, read the metrics.

A run that fails is not an exception but a record with `ok: false` and `why`.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.metrics import (
    AFTER,
    COUNTED,
    COUNTERS,
    GROWTH,
    LEAST,
    PSS,
    TREE,
    Metric,
    MetricMissing,
    Thousands,
)
from hakmem_lab.plan.spec import Server
from hakmem_lab.run import after, served
from hakmem_lab.run.demand import Demand
from hakmem_lab.run.executions import EXECUTION_KEYS, KEPT, combined
from hakmem_lab.run.folder import Folder
from hakmem_lab.run.limits import WATCHED, Limit, Search, Watched
from hakmem_lab.run.workload import (
    DAEMON,
    SEED,
    TRIAL_SEED,
    ServerMeter,
    Workload,
    choose_port,
    client_request,
    failure,
    with_port,
    within,
)
from hakmem_lab.store.records import Record, Run
from hakmem_lab.system import counting, follower, machine, usage
from hakmem_lab.system.freezer import Freezer
from hakmem_lab.system.launcher import ANY_BYTE, Launcher, Outcome, Request, Running, wait_for_port

SAMPLE_MS = 10
PSS_MS = 50
ENDING_S = 0.2  # wait for the end of a server whose client failed


def alone(record: Run, block: int) -> Run:
    """The record of a run that is a block of its own, for kinds that compare no blocks."""
    return {"type": "run", "block": block, "attempt": 0, "position": 0, "phase": "measure", "value": None, **record}


def _failed(outcome: Outcome, expected: Sequence[int] = (0,)) -> str | None:
    return outcome.explained(outcome.failure(expected) or outcome.not_served())


class Runner:
    """Runs one workload on any arm. A context manager: on leaving, nothing that it started still runs."""

    def __init__(self, workload: Workload, metrics: Sequence[Metric]):
        self.workload, self.metrics = workload, metrics
        self._seed, self._folder = TRIAL_SEED, Folder()
        self._probed = False  # measure how many processors an execution would use
        self._report: follower.Report | None = None  # report on an execution that is followed
        self._workers: dict[str, str | None] = {}  # arm -> the program that did the work in its trial
        self.launchers = [Launcher() for _ in range(2 if workload.server else 1)]
        self.joined: Sequence[str] = ()  # cgroup.procs files of groups that all programs of an execution join
        self._steal = machine.StealMeter()
        names = [metric.name for metric in metrics]
        self._counted = [name for name in names if name in COUNTERS]
        self._after_load, self._growth = AFTER in names, GROWTH in names
        self._counts = any(name in COUNTED for name in names)
        self._pss_ms = PSS_MS if self._growth or any(name in PSS for name in names) else 0
        self.groups, self.no_groups = None, None
        self.search = Search() if LEAST in names else None  # it adds executions under limits to each run
        self.limit: Limit | None = None  # of the next execution
        if workload.server or self.search or any(name in TREE for name in names):
            self.groups, self.no_groups = usage.tried()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for launcher in self.launchers:
            launcher.close()
        self._folder.clear()  # when no program writes into it any longer

    def another(self, metrics: Sequence[str], slower: float) -> "Runner":
        """A runner of the same workload for these of its metrics, where programs take `slower` times as long."""
        w = self.workload
        server = w.server and w.server.model_copy(update={"ready_timeout": w.server.ready_timeout * slower})
        kept = [metric for metric in self.metrics if metric.name in metrics]
        found = Runner(replace(w, timeout_s=w.timeout_s * slower, server=server), kept)
        found._workers = self._workers
        return found

    def run(self, arm: Arm, pad_bytes: int, repeat: int = 1, seed: int = TRIAL_SEED) -> Run:
        """The record of a run: all measures, as means over `repeat` executions (for peaks, the greatest). seed: the
        value of {seed} in the commands."""
        self.draw(seed)
        started, parts = time.time(), []
        for _ in range(repeat):
            parts.append(self._execute(arm, pad_bytes))
            if parts[-1]["why"]:
                break
        record = self.record(arm, pad_bytes, repeat, started, parts)
        if not self.search or self._probed or not record["ok"]:
            return record
        by = f"cgroup v{self.groups.version}" if self.groups else WATCHED
        return record | self.search.found(arm.name, by, parts, partial(self._limited, arm, pad_bytes))

    def _limited(self, arm: Arm, pad_bytes: int, limit: Limit | None, timeout_s: float) -> Record:
        """One execution under a limit of memory, or without."""
        whole, self.limit = self.workload, limit
        self.workload = replace(whole, timeout_s=timeout_s)
        try:
            return self._checked([self._execute(arm, pad_bytes)])[0]
        finally:
            self.workload, self.limit = whole, None

    def stay_in(self, freezer: Freezer) -> None:
        """Lets all programs of the next executions run in this group."""
        self.joined = [freezer.processes]
        self.groups = freezer.groups

    def draw(self, seed: int) -> None:
        """Sets the value of {seed} in the commands of the next executions."""
        self._seed = seed

    def record(self, arm: Arm, pad_bytes: int, repeat: int, started: float, parts: Sequence[Record]) -> Run:
        """The record of a run from its executions."""
        record: Run = {"arm": arm.name, "started": started, "repeat": repeat, "pad_bytes": pad_bytes}
        if self.workload.seeded():
            record["workload_seed"] = self._seed
        parts = self._checked(parts)
        record |= combined(parts)
        if len(parts) > 1:
            record["executions"] = [{key: part[key] for key in EXECUTION_KEYS} for part in parts]
        record["ok"] = record["why"] is None
        if record["ok"]:
            record["value"] = record["metrics"].get(self.metrics[0].name)
        record["load_1m"], record["steal_percent"] = machine.load_1m(), self._steal.percent()
        return record

    def _checked(self, parts: Sequence[Record]) -> Sequence[Record]:
        """The executions up to the first one that failed, or whose output the check of the workload refuses."""
        for count, part in enumerate(parts, 1):
            output = part.pop("output", "")
            if self.workload.check and not part["why"]:
                part["why"] = self._refusal(self.workload.check, output)
            if part["why"]:
                return parts[:count]
        return parts

    def _refusal(self, check: Sequence[str], output: str) -> str | None:
        with tempfile.NamedTemporaryFile(prefix="hak-output-") as file:
            file.write(output.encode(errors=ANY_BYTE))
            file.flush()
            try:
                return self._client(check, None, "check", file.name)[1]
            except OSError as error:
                return f"check: cannot be started: {error.strerror}"

    def trial(self, arm: Arm) -> Run:
        """A run whose figures do not count; every program that it starts is followed. If the arm's allocator does not
        serve the program that does the work, the trial fails with `lost`. `unserved`: a warning to print with the
        figures. If the run fails while it is followed, it is repeated without."""
        self._probed = True
        try:
            return self._trial(arm)
        finally:
            self._probed = False

    def _trial(self, arm: Arm) -> Run:
        library = arm.library.path
        if library is None:
            return self.run(arm, 0)
        with follower.Report(library) as self._report:
            record = self.run(arm, 0)
            images = self._report.images()
        self._report = None
        self._workers[arm.name] = served.worker(images)
        if why := served.refusal(arm, images):
            return record | {"ok": False, "why": why, "lost": True}
        if not record["ok"]:
            record = self.run(arm, 0)
        return record | {"unserved": served.warning(arm, images)}

    def _execute(self, arm: Arm, pad_bytes: int) -> Record:
        counts: Record = {}
        try:
            if self._counts and (why := self._prepared()) is None:
                counts = self._counted_calls(arm)
            if (why := self._prepared()) is None:
                return self._measured(arm, pad_bytes, counts)
        except OSError as error:
            return self.unstarted(error)
        return self._without_figures(why)

    def _prepared(self) -> str | None:
        self._folder.clear()
        return self._client(self.workload.prepare, None, "prepare")[1] if self.workload.prepare else None

    def _counted_calls(self, arm: Arm) -> Record:
        """An execution whose calls of the allocator are counted, and nothing else. Without padding, which shells
        allocate."""
        w = self.workload.on(arm)
        with counting.Counts() as counts:
            if w.server:
                outcome, _, why = self._with_server(w.server, arm, 0, counts)
                return {"why": f"while its allocations were counted: {why}"} if why else counts.read()
            environment = counts.environment(arm.environment(w.env))
            outcome = self.launchers[0].run(self.request(self.filled_in(w.argv), environment, arm, stdin=w.stdin))
            why = _failed(outcome, w.expect_exit)
            return {"why": f"while its allocations were counted: {why}"} if why else counts.read()

    def unstarted(self, error: OSError) -> Record:
        """The execution of a program that could not be started."""
        return self._without_figures(f"cannot be started: {error.strerror}")

    @staticmethod
    def _without_figures(why: str) -> Record:
        return dict.fromkeys(KEPT) | {"timed_out": False, "metrics": {}, "why": why}

    def _measured(self, arm: Arm, pad_bytes: int, counts: Record) -> Record:
        if self.workload.server:
            outcome, used, why = self._with_server(self.workload.server, arm, pad_bytes)
            return self._part(replace(outcome, extra=counts | outcome.extra), used, why)
        environment = arm.environment(self.workload.env, pad_bytes)
        with self._new_group() as group:
            launcher, w = self.launchers[0], self.workload
            argv = self.filled_in(w.on(arm).argv)
            with after.Mark(w.after_s) if self._after_load else contextlib.nullcontext() as mark:
                environment |= mark.environment() if mark else {}
                running = launcher.start(self.request(argv, environment, arm, group=group, stdin=w.stdin))
                with (
                    Demand(running.pid) if self._probed else contextlib.nullcontext() as demand,
                    self._watched(running),
                ):
                    outcome = mark.wait(running) if mark else self._awaited(running)
                    outcome = replace(outcome, tree=group.read() if group else None)
        outcome = replace(outcome, extra=counts | outcome.extra)
        return self.part(outcome) | ({"processors": demand.processors(outcome)} if demand else {})

    def _awaited(self, running: Running) -> Outcome:
        """The outcome of a program that is no server."""
        return running.wait()

    def part(self, outcome: Outcome) -> Record:
        """The execution of a program that is no server."""
        return self._part(outcome, None, _failed(outcome, self.workload.expect_exit))

    def filled_in(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The words of a command with the values of {seed}, {folder} and {port}."""
        words = [word.replace(SEED, str(self._seed)) for word in self._folder.fill(words)]
        return words if port is None else with_port(words, port)

    @contextlib.contextmanager
    def _new_group(self) -> Iterator[usage.Group | None]:
        """A group for one execution; None where none can be made, or no metric needs one."""
        group = self.groups.new() if self.groups else None
        try:
            if group and self.limit:
                group.limit(self.limit.kib)
            yield group
        finally:
            if group:
                group.close()

    def _watched(self, running: Running) -> contextlib.AbstractContextManager:
        """Where no group can be made, the laboratory keeps the limit."""
        return Watched(running.pid, self.limit) if self.limit and self.limit.watched else contextlib.nullcontext()

    def request(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        arm: Arm,
        pin: Sequence[int] = (),
        group: usage.Group | None = None,
        stdin: str | None = None,
    ) -> Request:
        """The request to start the program on this arm, with all that is to be measured."""
        w, library = self.workload, arm.library.path
        expect = str(library.resolve()) if library else None
        groups = [*self.joined, *(group.processes() if group else ())]
        if self._report and library:
            argv, expect = self._report.command(argv), None
        counters = [COUNTERS[name] for name in self._counted]
        timeout_s = w.timeout_s + (w.after_s if self._after_load else 0)
        request = Request(argv, env, w.cwd, pin or w.pin, timeout_s, SAMPLE_MS, expect, stdin=stdin)
        request = replace(request, worker=None if self._report else self._workers.get(arm.name))
        return replace(request, pss_ms=self._pss_ms, counters=counters, groups=groups)

    def _part(self, outcome: Outcome, server: Record | None, why: str | None) -> Record:
        part = {name: getattr(outcome, name) for name in KEPT} | {"metrics": {}, "why": why}
        outcome = replace(outcome, extra=outcome.extra | self._grown(outcome, server)) if self._growth else outcome
        part |= {"extra": outcome.extra} if outcome.extra else {}
        part |= {"output": outcome.stdout} if self.workload.check else {}
        if server is None:
            part |= {"tree": outcome.tree, "rss_series": outcome.rss_series, "pss_series": outcome.pss_series}
        else:
            part["server"] = server
        if why is None:
            try:
                read = [metric for metric in self.metrics if metric.name != LEAST]
                part["metrics"] = {metric.name: self._read(metric, outcome, server) for metric in read}
                doubtful = {name: value for name, value in part["metrics"].items() if isinstance(value, Thousands)}
                part |= {"thousands": doubtful} if doubtful else {}
            except MetricMissing as error:
                part["why"] = str(error)
        return part

    def _grown(self, outcome: Outcome, server: Record | None) -> Record:
        """How fast the memory of all processes grew, PSS where it is known: that of a server while its client ran."""
        from hakmem_lab.judge.growth import growth  # slow to load

        if server is None:
            return growth(outcome.pss_series or outcome.rss_series, self.workload.requests)
        series = within(server["pss_series"] or server["rss_series"], server["window_ms"])
        return growth(series, self.workload.requests)

    def _read(self, metric: Metric, outcome: Outcome, server: Record | None) -> float:
        try:
            return metric.read(outcome, server, self._counted)
        except MetricMissing:
            if metric.name in TREE and self.no_groups:
                raise MetricMissing(f"metric '{metric.name}' could not be measured: {self.no_groups}") from None
            raise

    def _with_server(
        self, server: Server, arm: Arm, pad_bytes: int, counts: counting.Counts | None = None
    ) -> tuple[Outcome, Record, str | None]:
        """(the outcome of the client, or of the server if no client ran; the server's use; why it failed)."""
        w = self.workload
        port = choose_port(server)
        argv = self.filled_in(w.subject(), port)
        environment = arm.environment(w.env, pad_bytes)
        environment = counts.environment(environment) if counts else environment
        client: Outcome | None = None
        used: Record = {}
        why: str | None = f"the server did not listen on port {port} within {server.ready_timeout:g} s"
        with self._new_group() as group:
            running = self.launchers[1].start(self.request(argv, environment, arm, server.pin, group))
            meter = ServerMeter(running.pid, group)
            try:
                with self._watched(running):
                    if wait_for_port(port, running, server.ready_timeout):
                        client, used, why = self._clients(server, running, counts or meter, port)
                        if client and not why and self._after_load and not counts:
                            client = replace(client, extra=after.reading(running, w.after_s))
            finally:
                gone = bool(client and not used and not counts)  # the kernel ends it, for want of memory
                ended = running.ended(ENDING_S if why or gone else 0)  # a client may notice the end first
                outcome = self._ended(running)
        used |= meter.memory(outcome, used)
        if ended or gone:
            why = f"the server ended during the run: {_failed(outcome) or DAEMON}"
        elif why is None:
            why = outcome.explained(outcome.not_served())
        return client or outcome, used, why

    def _ended(self, server: Running) -> Outcome:
        return server.terminate()

    def _clients(
        self, server: Server, running: Running, meter: ServerMeter | counting.Counts, port: int
    ) -> tuple[Outcome | None, Record, str | None]:
        """Runs the warm-up client, then the measured one. Returns its outcome, the server's use meanwhile, and why it
        failed."""
        if server.warm_up and (why := self._client(server.warm_up, port, "warm-up client")[1]):
            return None, {}, why
        meter.begin()
        client, why = self._client(self.workload.argv, port, "client", self.workload.stdin)
        return client, meter.end(), why

    def _client(
        self, command: Sequence[str], port: int | None, what: str, stdin: str | None = None
    ) -> tuple[Outcome, str | None]:
        request = client_request(self.workload, self.filled_in(command), port)
        try:
            request = replace(request, sample_ms=SAMPLE_MS, stdin=stdin, groups=self.joined)
            outcome = self.launchers[0].run(request)
        except OSError as error:
            raise OSError(error.errno, f"{what} {request.argv[0]}: {error.strerror}") from None
        return outcome, failure(outcome, what)
