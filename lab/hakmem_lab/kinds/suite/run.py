"""The course of a suite: trials, then rounds. A round has one block of every workload, in random order.

Every workload is a session of its own; all share one file of the store. System calls per operation of a workload's arms
are counted in untimed runs of two lengths. Both contain the calls of start and end, so the difference is the steady
state.
"""

import contextlib
import itertools
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from hakmem_lab.errors import LabError
from hakmem_lab.judge import fitness
from hakmem_lab.judge.conditions import MEASURE, asked
from hakmem_lab.judge.statistics.paired import rate_interval
from hakmem_lab.kinds.suite.sheet import Figure, Sheet
from hakmem_lab.kinds.suite.spec import Places, SuiteSpec, WorkloadSpec, check_names
from hakmem_lab.kinds.syscalls import OPS, TracedRunner, check_tracing
from hakmem_lab.kinds.syscalls.result import upper_bound
from hakmem_lab.plan import model, project
from hakmem_lab.plan.arms import Arm, need_all, parse_arm
from hakmem_lab.plan.peers import file_sha256
from hakmem_lab.plan.spec import BlockSpec, ProgramKeys, RunKeys, normalised
from hakmem_lab.run import conditions, endings
from hakmem_lab.run.conduct import Context
from hakmem_lab.run.endings import ArmFailed
from hakmem_lab.run.recorder import Recorder, changed_input, check_unchanged, input_hashes
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, events, finished_blocks
from hakmem_lab.store.records import Run, present
from hakmem_lab.store.runs import RunFile
from hakmem_lab.trace import replay

LEAST_SAID_S = 60.0


def command_for(row: WorkloadSpec, operations: int) -> list[str]:
    return [word.replace(OPS, str(operations)) for word in row.command]


class CannotCount(Exception):
    """The system calls of a workload could not be counted."""


def count_all(session: Session, row: WorkloadSpec, records: Sequence[dict]) -> None:
    """Count the system calls of every arm at both lengths, except those already in the store, and record them.

    Raises CannotCount.
    """
    known = {(r["arm"], r["operations"]) for r in records if r["type"] == "count" and r["workload"] == row.key}
    try:
        with TracedRunner(session.workload) as runner:
            for arm in session.arms.values():
                for operations in row.ops or ():
                    if (arm.name, operations) not in known:
                        note = f"{row.title}: {arm.name}, {operations:,} operations, traced"
                        session.progress.update(0, 1, note)
                        words = [session.workload.argv[0], *command_for(row, operations)[1:]]
                        runner.workload = replace(session.workload, argv=words)
                        calls, part = runner.counted(arm, {})
                        if part["why"]:
                            raise LabError(f"{arm.name} could not be traced: {part['why']}")
                        count = sum(calls.values())
                        session.append({"type": "count", "arm": arm.name, "operations": operations, "calls": count})
    except (LabError, OSError) as error:
        raise CannotCount(f"workload '{row.key}': {error}") from None
    finally:
        session.progress.restart()


def rates(row: WorkloadSpec, records: Sequence[dict], alpha: float) -> dict[str, Figure]:
    """Arm -> calls per operation, for arms that were counted at both lengths; estimated as in `hak syscalls`.

    Below 0 if the longer execution made fewer calls. The ends are one-sided bounds. The lower one is that of a Poisson
    count. The upper one assumes that all calls came in one burst, since one execution does not show how they come.
    """
    counts = {(r["arm"], r["operations"]): r["calls"] for r in records if r["type"] == "count"}
    short, long = row.ops or (0, 0)
    found = {}
    for arm in dict.fromkeys(name for name, _ in counts):
        few, many = counts.get((arm, short)), counts.get((arm, long))
        if few is not None and many is not None:
            events, operations = many - few, long - short
            low = rate_interval(max(0, events), operations, 1 - 2 * alpha).low
            rate = events / operations
            found[arm] = Figure(rate, min(rate, low), upper_bound(events, alpha, max(1.0, events)) / operations)
    return found


LEAST_ROUNDS = 2
SETTLED, WORKLOAD_FAILED = "settled", "workload-failed"


def settled(records: Iterable[dict]) -> dict[str, dict]:
    """Workload -> the event that ended it, by the width of its intervals or by its time."""
    return {str(event["workload"]): dict(event) for event in events(records, SETTLED)}


def block_spec(spec: SuiteSpec, row: WorkloadSpec, places: Places) -> BlockSpec:
    """The spec of a workload's own session."""
    server = row.server
    if server is not None:
        warm_up = server.warm_up and places.command(server.warm_up)
        server = server.model_copy(update={"command": places.command(server.command), "warm_up": warm_up})
    command = places.command(command_for(row, row.ops[0]) if row.ops else row.command)
    if row.trace is not None:
        command = replay.command(places.path(row.trace))
    own = {name: getattr(row, name) for name in (*ProgramKeys.model_fields, *RunKeys.model_fields)}
    own |= {name: own[name] and places.path(own[name]) for name in ("cwd", "stdin")}
    own |= {"command": command, "server": server, "check": row.check and places.command(row.check)}
    own |= {"guardrails": {}, "label": "", "unit": ""}  # the suite has these
    return BlockSpec(
        **own, kind=spec.kind, also=row.metrics()[1:], alpha=spec.alpha, looks=1, warm_up=0,
        max_blocks=spec.blocks_of(row),
    )  # fmt: skip


class Suite(Recorder):
    """All workloads of a suite. A context manager: on leaving, it ends all that it started."""

    def __init__(self, spec: SuiteSpec, context: Context):
        check_names(spec, context.source)
        self.begun, self.context = time.monotonic(), context
        self._warned_of_load = False
        self._settled: dict[str, dict] = {}
        self._spent_s = defaultdict[str, float](float)  # of each workload's blocks, since this command began
        self.phases = [MEASURE, *asked(normalised(spec))]
        self.places = Places.of(context.source)
        need_all(map(self.places.arm, spec.allocators), "allocators")
        common = [parse_arm(self.places.arm(text), text, "allocators") for text in spec.allocators]
        self.extra: dict[str, Arm] = {}
        self.sessions: dict[str, Session] = {}
        with contextlib.ExitStack() as opened:
            for row in spec.chosen():
                self.sessions[row.key] = session = self._session(spec, row, common)
                opened.callback(session.release)
            self._open = opened.pop_all()
        first = next(iter(self.sessions.values()))
        super().__init__(spec, [*common, *self.extra.values()], first.workload, context.progress)

    def _session(self, spec: SuiteSpec, row: WorkloadSpec, common: Sequence[Arm]) -> Session:
        own = [self.extra.setdefault(name, parse_arm(self.places.arm(text), name, f"workload '{row.key}': arms.{name}"))
               for name, text in row.arms.items()]  # fmt: skip
        tag = {"workload": row.key}
        try:
            one = block_spec(spec, row, self.places)
            session_type = Session if row.trace is None else replay.ReplayBlocks
            session = session_type(one, [*common, *own], self.context.progress, row.metrics(), tag)
            session.needed, session.server_key = [spec.subject, spec.reference], "[workload.server] in the suite"
            return session
        except LabError as error:
            missing = row.hint and shutil.which(self.places.command(row.command)[0]) is None
            why = f"{error}; {row.hint}" if missing else str(error)
            raise LabError(f"{self.context.source}: workload '{row.key}': {why}") from None
        except ValidationError as error:
            why = model.said(error.errors()[0])
            raise LabError(f"{self.context.source}: workload '{row.key}': {why}") from None

    def release(self) -> None:
        self._open.close()

    def begin(self) -> None:
        """Try every workload on every arm, write the header, and report the expected duration. Raises LabError."""
        self._check_tracing()
        count = sum(len(session.arms) for session in self.sessions.values())
        self.progress.say(f"{len(self.sessions)} workloads: {count} trial runs first, then the time that it will take")
        trials = {key: self._tried(key) for key in self.sessions}
        self.progress.restart()
        self.create(
            self.context.folder, self.context.source, command={"argv": [], "program": "", "sha256": None},
            programs={key: _program(session) for key, session in self.sessions.items()},
            repeats={key: session.repeat for key, session in self.sessions.items()},
        )  # fmt: skip
        self._attach()
        for key, session in self.sessions.items():
            session.keep_trials(trials[key])
            session.keep_schedule()
        self._announce(trials)
        self._check_fitness()

    def _tried(self, key: str) -> list[Run]:
        """The trials of a workload. Raises LabError, with the workload's key in its text."""
        try:
            return self.sessions[key].try_arms()
        except LabError as error:
            raise LabError(f"workload '{key}': {error}") from None

    def resume(self, file: RunFile) -> None:
        """Continue a stored suite. Raises LabError if a program, an input or an arm has changed."""
        self._check_tracing()
        header = file.header()
        first = next(iter(self.sessions))
        check_unchanged(header | {"command": header["programs"][first]}, list(self.arms.values()), self.workload)
        for key, stored in header["programs"].items():
            now = _program(self.sessions[key])
            same = now["sha256"] == stored["sha256"]
            changed = changed_input(stored["inputs"], self.sessions[key].workload) if same else stored["program"]
            if changed:
                raise LabError(f"{changed} is not what run {file.id} began with; start a new run")
            self.sessions[key].repeat = header["repeats"][key]
        file.continue_writing()
        self.file, self.seed = file, header["seed"]
        self._attach()
        for session in self.sessions.values():
            session.recall_schedule()
        self.event("resumed", "resumed")
        self._check_fitness()

    def _check_tracing(self) -> None:
        """Raises LabError, before anything is run, if system calls are to be counted but cannot be."""
        for row in self.spec.chosen():
            if row.ops is not None:
                check_tracing()
                return

    def _check_fitness(self) -> None:
        """Warn once if this machine was never checked, or was found unfit, in general or for a workload's program.

        Workloads whose system calls are counted are exempt: they are not timed.
        """
        known, programs = fitness.checks(self.file.path.parent), self.file.header()["programs"]
        said = {(record.get("workload"), record["text"]) for record in self.records() if record["type"] == "event"}
        if not known and (None, fitness.UNCHECKED) not in said:
            self.warn("fitness-unknown", fitness.UNCHECKED)
        reasons: dict[str, list[str]] = {}
        for row in [row for row in self.spec.chosen() if row.ops is None]:
            reason = fitness.reason(known, fitness.Asked(programs[row.key]["program"], row.metric))
            if reason and (row.key, reason) not in said:
                self.sessions[row.key].event("fitness", reason)
                reasons[reason] = [*reasons.get(reason, ()), row.key]
        for reason, keys in reasons.items():
            self.progress.warn(f"no verdict on {', '.join(keys)}: {reason}")

    def _attach(self) -> None:
        for position, session in enumerate(self.sessions.values()):
            session.file, session.seed = self.file, self.seed + position

    def _announce(self, trials: dict[str, list[Run]]) -> None:
        """Report how long the suite will take, estimated from the trials."""
        seconds, runs = 0.0, 0
        for row in self.spec.chosen():
            turns = (2 if len(trials[row.key]) == 2 else 1) * len(self.phases)
            executions = turns * self.spec.blocks_of(row) * self.sessions[row.key].repeat
            if row.ops is not None:
                executions = 1 + row.ops[1] / row.ops[0]
            seconds += executions * sum(present(trial["wall_s"]) for trial in trials[row.key])
            runs += turns * self.spec.blocks_of(row) * len(trials[row.key])
        time_s = f"about {endings.duration(seconds)}" if seconds >= LEAST_SAID_S else "less than a minute"
        if self.spec.within is not None:
            seconds = min(seconds, self.spec.patience * len(trials))
            time_s = f"at most {endings.duration(seconds)}"
        text = f"run {self.file.id}: {time_s} for {'up to ' if self.spec.within else ''}{runs:,} runs"
        left = self.spec.budget - (time.monotonic() - self.begun) if self.spec.budget else seconds
        if left < seconds:
            text += f", but the budget ends it in about {endings.duration(left)}"
        self.progress.say(text)

    def measure(self) -> None:
        """Count system calls, then run rounds: one block of each workload under each condition, as far as these are not
        in the store. A workload ends by its rule; one that fails takes no further part, and the others go on.
        """
        self._count_calls()
        self._settled = settled(self.records())
        rows = {row.key: row for row in self.spec.chosen() if row.ops is None}
        most = max(map(self.spec.blocks_of, rows.values()), default=1)
        courses = {place: self._course(*place) for place in itertools.product(rows, self.phases)}
        index = min([len(next(course)) for course in courses.values()], default=0)
        rounds_s: list[float] = []
        started = time.monotonic()
        while courses and index < most:
            if self._over_budget(index, rounds_s):
                self.event("budget", f"{index} rounds: another would exceed the budget")
                break
            begun = time.monotonic()
            for key, phase in random.Random(f"round {self.seed} {index}").sample([*courses], len(courses)):
                if (key, phase) not in courses:
                    continue
                self.progress.share(self._part_done(index / most, started), rows[key].title)
                try:
                    if not self._advanced(key, phase, courses[key, phase]):
                        del courses[key, phase]
                except ArmFailed as failed:
                    text = f"workload '{key}': {failed.arm} failed too often in block {index} ({failed.why})"
                    self.sessions[key].tell(WORKLOAD_FAILED, text)
                    courses = {place: course for place, course in courses.items() if place[0] != key}
            self._settle({key: rows[key] for key, _ in courses})
            rounds_s.append(time.monotonic() - begun)
            index += 1
        self.progress.share(1.0)
        self.progress.restart()

    def _count_calls(self) -> None:
        """A workload whose calls cannot be counted takes no further part."""
        for row in self.spec.chosen():
            if row.ops is not None:
                try:
                    count_all(self.sessions[row.key], row, self.records())
                except CannotCount as error:
                    self.sessions[row.key].tell(WORKLOAD_FAILED, str(error))

    def _course(self, key: str, phase: str) -> Iterator[Blocks]:
        """The blocks of a workload, as of any comparison; its rule is to end when it is settled."""
        session = self.sessions[key]
        most = session.spec.max_blocks
        return session.each_block(phase, lambda _: [] if key in self._settled else [*session.arms], most)

    def _advanced(self, key: str, phase: str, course: Iterator[Blocks]) -> bool:
        """Runs the next block, if there is one. A warning of other load is given once, and not in every session."""
        session, began = self.sessions[key], time.monotonic()
        session.warned_of_load = self._warned_of_load
        try:
            with conditions.under(phase, session):
                return next(course, None) is not None
        finally:
            self._warned_of_load = session.warned_of_load
            self._spent_s[key] += time.monotonic() - began

    def _settle(self, rows: dict[str, WorkloadSpec]) -> None:
        """Ends the workloads whose intervals are narrow enough, or that were measured for long enough.

        Fewer blocks than an interval needs would be of no use.
        """
        if self.spec.within is None:
            return
        for key, row in rows.items():
            blocks, spent_s = finished_blocks(self.sessions[key].own_records(), MEASURE), self._spent_s[key]
            sheet = Sheet(self.spec, row, blocks)
            narrow = sheet.narrow()
            if not narrow and (spent_s < self.spec.patience or len(blocks) < sheet.least_blocks()):
                continue
            count, within = len(blocks), f"{100 * self.spec.within:g} %"
            text = f"after {count} blocks all intervals are within {within}"
            if not narrow:
                text = f"an interval is still wider than {within} after {count} blocks, {endings.duration(spent_s)}"
            found = {"seconds": round(spent_s, 1), "blocks": count, "open": not narrow}
            self.sessions[key].tell(SETTLED, f"workload '{key}': {text}", **found)
            self._settled[key] = found

    def _over_budget(self, rounds: int, rounds_s: Sequence[float]) -> bool:
        if self.spec.budget is None or rounds < LEAST_ROUNDS or not rounds_s:
            return False
        return time.monotonic() - self.begun + sum(rounds_s) / len(rounds_s) > self.spec.budget

    def _part_done(self, share: float, started: float) -> float:
        """Finished share of the blocks or of the time budget, whichever is larger."""
        if self.spec.budget is None:
            return share
        left_s = self.spec.budget - (started - self.begun)
        return max(share, (time.monotonic() - started) / left_s if left_s > 0 else 0.0)


def _program(session: Session) -> dict:
    """The program of a workload and the other files that its commands name, by their hashes."""
    program = session.workload.subject()[0]
    return {
        "argv": [project.shown(session.workload.argv[0]), *session.workload.argv[1:]],
        "program": project.shown(program),
        "sha256": file_sha256(Path(program)),
        "inputs": input_hashes(session.workload, session.written_files()),
    }
