"""The course of a run in blocks: the plan, the commands around it, and how many more blocks a resumed run gets."""

import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.judge import planning
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run import conduct, recorder
from hakmem_lab.run.workload import Workload


class Session:
    """A session that records the calls it gets, in their order."""

    def __init__(self, confirms=False, arms=2, rare=None, records=(), head=None):
        self.done, self.confirms = [], confirms
        self.arms = {f"arm {number}": None for number in range(arms)}
        self.spec = SimpleNamespace(rare=rare)
        self.head = head or {"spec": {"max-blocks": 60}}
        self.file = SimpleNamespace(header=lambda: self.head)
        self.kept = list(records)

    def __call__(self, spec, arms, progress):
        """Acts as the constructor that conduct calls."""
        self.spec = spec
        return self

    def runs_of_each(self, arms):
        return 2 if arms == 2 else 1

    def __enter__(self):
        self.done.append("enter")
        return self

    def __exit__(self, *_):
        self.done.append("exit")

    def records(self):
        return self.kept

    def event(self, what, text, **more):
        self.done.append((what, text, more))
        self.kept.append({"type": "event", "what": what, **more})

    tell = event

    def begin(self, *words):
        self.done.append(("begin", *words))

    def resume(self, *words):
        self.done.append(("resume", *words))

    def finish(self, result):
        self.done.append("finish")
        return result


def wanted(until, settled=True):
    return {"type": "event", "what": planning.MORE, "until": until, "settled": settled}


@pytest.mark.parametrize(
    ("confirms", "arms", "rare", "blocks", "share"),
    [
        (False, 2, 0.1, 15, "10"),
        (False, 2, 0.07, 22, "7"),
        (False, 2, 3 / 7, 4, "43"),
        (False, 2, 3 / 94, 47, "3.2"),
        (False, 3, 0.1, 30, "10"),
        (True, 4, 0.1, 15, "10"),
    ],
)
def test_what_is_rare_needs_runs_of_every_arm(confirms, arms, rare, blocks, share):
    """A block has two runs of each of two arms, but one of each of more. A sweep judges two arms at its end."""
    session = Session(confirms, arms, rare)
    conduct.plan_rare(session)
    text = f"to see what happens to {share} % of the runs: {blocks} blocks at least"
    assert session.done == [(planning.MORE, text, {"until": blocks, "settled": True})]


@pytest.mark.parametrize(("rare", "records"), [(None, []), (None, [wanted(9)]), (0.1, [wanted(9)])])
def test_nothing_rare_is_planned_twice_or_for_nothing(rare, records):
    session = Session(rare=rare, records=records)
    conduct.plan_rare(session)
    assert session.done == []


@pytest.mark.parametrize(("final", "until"), [(True, 12), (False, 75)])
@pytest.mark.parametrize("settled", [True, False, None])
def test_more_blocks_come_after_those_that_there_are_or_were_to_be(final, until, settled):
    session = Session(records=[wanted(70, settled=False)])
    given = []
    found = {"blocks": 7, "final": final} | ({} if settled is None else {"settled": settled})
    conduct._prolong(session, 5, lambda *words: given.append(words) or found)
    more = {"until": until, "settled": settled or False}
    assert session.done == [(planning.MORE, f"5 more blocks wanted, {until} in all", more)]
    assert [header for header, _ in given] == [session.head]


@pytest.fixture
def conducted(tmp_path):
    """conducted(session, …): (result of conduct, lines said); continued: a stored run and a number of extra blocks."""

    def call(session, *continued, **keys):
        said = []
        context = conduct.Context(tmp_path, "it", SimpleNamespace(say=said.append), *continued)
        spec = build(BlockSpec, {"kind": "ab", "command": ["true"], **keys}, "test")

        def measure(of):
            of.done.append("measure")

        def analyse(header, records):
            return {"blocks": 8, "final": True, "header": header, "events": len(records)}

        return conduct.conduct(spec, context, [], "runs of a block", measure, analyse, session), said

    return call


def test_a_new_run_begins_plans_and_measures(conducted, tmp_path):
    session = Session()
    result, said = conducted(session, rare=0.1)
    first, begun, (what, _, planned), *rest = session.done
    assert (first, begun) == ("enter", ("begin", tmp_path, "it", "runs of a block"))
    assert rest == ["measure", "finish", "exit"]
    assert (what, planned["until"]) == (planning.MORE, 15)
    assert result == {"blocks": 8, "final": True, "header": session.head, "events": 1} and said == []


@pytest.mark.parametrize("more", [[], [4]])
def test_a_stored_run_goes_on_by_as_many_blocks_as_are_wanted(conducted, more):
    stored, session = SimpleNamespace(header=lambda: "stored"), Session()
    conducted(session, stored, *more)
    prolonged = [(planning.MORE, "4 more blocks wanted, 12 in all", {"until": 12, "settled": False})] if more else []
    assert session.done == ["enter", ("resume", stored, "stored"), *prolonged, "measure", "finish", "exit"]


@pytest.fixture
def step(tmp_path):
    """A command that logs its words and variables."""
    path = tmp_path / "step.sh"
    path.write_text('#!/bin/sh\necho "$@" "$OWN" "$LC_ALL" >> "$LOG"\nexit "${STATUS:-0}"\n')
    path.chmod(0o755)
    return path


def test_what_is_done_before_and_after_a_run_has_its_words_and_variables(conducted, step, tmp_path):
    env = {"LOG": str(tmp_path / "log"), "OWN": "own"}
    session = Session()
    _, said = conducted(session, setup=[str(step), "a", "b"], cleanup=[str(step), "c"], env=env)
    assert (tmp_path / "log").read_text() == "a b own C\nc own C\n"
    assert said == [] and session.done[-1] == "exit"


def test_nobody_asks_for_the_memory_of_a_step(conducted, monkeypatch):
    asked = []

    class Launcher(conduct.Launcher):
        def run(self, request):
            asked.append(request.sample_ms)
            return super().run(request)

    monkeypatch.setattr(conduct, "Launcher", Launcher)
    conducted(Session(), setup=["true"], cleanup=["true"])
    assert asked == [0, 0]


def test_no_run_is_begun_where_its_setup_fails(conducted, step, tmp_path):
    session = Session()
    with pytest.raises(LabError, match=r"^setup: .*exit status 7"):
        conducted(session, setup=[str(step)], env={"LOG": str(tmp_path / "log"), "STATUS": "7"})
    assert session.done == []


@pytest.mark.parametrize("fail", [None, LabError("no")])
def test_a_failing_cleanup_is_a_warning_however_the_run_ended(conducted, step, tmp_path, fail):
    said = []
    env = {"STATUS": "7", "LOG": str(tmp_path / "log")}
    spec = build(BlockSpec, {"kind": "ab", "command": ["true"], "cleanup": [str(step)], "env": env}, "test")
    try:
        with conduct._around(spec, SimpleNamespace(warn=said.append)):
            if fail:
                raise fail
    except LabError as error:
        assert error is fail
    else:
        assert fail is None
    (text,) = said
    assert text.startswith("cleanup: ") and "exit status 7" in text


def test_a_step_that_is_no_program_says_which(conducted, tmp_path):
    path = tmp_path / "nothing"
    path.write_bytes(b"\x7fELF" + bytes(60))
    path.chmod(stat.S_IRWXU)
    with pytest.raises(LabError, match=f"^setup: {path} cannot be started: Exec format error"):
        conducted(Session(), setup=[str(path), "word"])


class Recorded(conduct.Recorder):
    """A recorder that notes its calls instead of executing them."""

    def __init__(self, *words):
        self.done = []
        super().__init__(*words)

    def reopen(self, *words):
        self.done.append(("reopen", *words))

    def check_arms(self):
        self.done.append("check")

    def create(self, *words):
        self.done.append(("create", *words))

    def append(self, record):
        self.done.append(record)


@pytest.fixture
def recorded(tmp_path):
    def make(resume=None, *files):
        spec = build(BlockSpec, {"kind": "ab", "command": ["/bin/cat", *map(str, files)]}, "test")
        context = conduct.Context(tmp_path, "it", SimpleNamespace(), resume)
        made = Recorded(spec, [], Workload.of(spec), context)
        assert (made.spec, made.arms, made.workload.argv[1:]) == (spec, {}, [str(file) for file in files])
        return made

    return make


def test_the_records_of_a_run_without_blocks_are_new_or_go_on(recorded, tmp_path):
    stored = SimpleNamespace(header=lambda: "stored")
    new, old = recorded(), recorded(stored)
    new.begin()
    old.begin()
    assert new.done == ["check", ("create", tmp_path, "it")]
    assert old.done == [("reopen", stored, "stored")]


def test_a_file_that_the_program_writes_is_told_once(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(conduct, "now_utc", lambda: "now")
    files: list[Path] = [tmp_path / name for name in ("first", "second", "third")]
    for file in files:
        file.write_text("old")
    made = recorded(None, *files)
    for changed in (files[:1], files[1:]):
        made._watch._steady.clear()
        for file in changed:
            file.write_text("longer")
        assert made.changed_file() is None and made.changed_file() is None
    told = [["first"], ["second", "third"]]
    paths = [[str(tmp_path / name) for name in names] for names in told]
    assert made.done == [
        {"type": "event", "time": "now", "what": recorder.WRITTEN, "files": names,
         "text": f"written by the program, so not watched: {', '.join(names)}"}
        for names in paths
    ]  # fmt: skip
    files[0].write_text("longer still")
    assert made.changed_file() is None and len(made.done) == 2
