"""Disturbances of a measurement are recorded and shown, and an unfit machine gives no verdict."""

from types import SimpleNamespace

import pytest

from hakmem_lab.plan.schedule import TOGETHER, TURNS
from hakmem_lab.run.session import Session
from hakmem_lab.run.together import Chosen
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine

RATE = r"regex:ops (\d+)"
KINDS = {
    "ab": 'control = "glibc"\ntreatment = "glibc,RATE=1500"\n',
    "compare": 'allocators = ["glibc", "glibc,RATE=1500"]\n',
    "sweep": 'default = "glibc"\nselect-blocks = 2\n[candidates]\na = "glibc,RATE=1500"\n',
}


@pytest.fixture
def measure(here, counted, tmp_path):
    """measure(kind): the result of a short run whose treatment is 50 % better."""

    def call(kind="ab"):
        spec = tmp_path / "spec.toml"
        spec.write_text(
            f'kind = "{kind}"\ncommand = "{counted}"\nmetric = \'{RATE}\'\nhigher-is-better = true\n'
            f"looks = 1\nmax-blocks = 6\nrepeat = 1\nwarm-up = 0\n{KINDS[kind]}"
        )
        answer = here(kind, spec, "--json", "-")
        assert answer.status == 0, answer.err
        return answer

    return call


def note_aa(store, fit, facts=None):
    """Stores a finished A/A run; returns its name."""
    file = RunFile.create(
        store, "aa", {"machine": facts or machine.facts(), "arms": [], "question": "", "command": {"argv": []}}
    )
    file.append({"type": "result", "kind": "aa", "id": file.id, "aa": {"fit": fit}})
    file.close()
    return file.id


ONCE = ("--max-blocks", "6", "--looks", "1", "--repeat", "1", "--warm-up", "0", "--quiet", "--json", "-")


@pytest.mark.parametrize(
    ("arms", "way"),
    [(("--control", "default", "--treatment", "glibc"), "default,LD_PRELOAD={0},MALLOC_ARENA_MAX=1"),
     (("--commands", "/bin/true", "/bin/true 1"), "--env LD_PRELOAD={0} --env MALLOC_ARENA_MAX=1")],
)  # fmt: skip
def test_what_the_program_has_of_the_callers_allocator_is_left_out_and_said_once(here, fakes, monkeypatch, arms, way):
    monkeypatch.setenv("LD_PRELOAD", str(fakes.allocator))
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    command = () if "--commands" in arms else ("--", "/bin/true")

    def said(*words):
        answer = here("ab", *words, *ONCE, *command)
        assert answer.status == 0, answer
        return [text for text in answer.result()["warnings"] if "was left out" in text]

    (warning,) = said(*arms)
    way = way.format(fakes.allocator)
    assert warning.endswith(f"to measure with it: {way}")
    again = (*arms, *way.split()) if "--commands" in arms else ("--control", way, "--treatment", "glibc")
    assert said(*again) == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_unfit_machine_gives_no_verdict(measure, store, kind):
    name = note_aa(store, fit=False)
    result = measure(kind).result()
    assert result["verdict"] not in ("GO", "NO-GO", "NEUTRAL")
    assert name in result["answer"] + " ".join(result["warnings"])
    assert result["estimate"] == pytest.approx(0.5)


def test_a_fit_machine_gives_one(measure, store):
    note_aa(store, fit=False)
    note_aa(store, fit=True)
    files = sorted(store.glob("*-aa-*"))
    files[0].rename(files[0].with_name("20200101-000000-aa-0000.jsonl"))
    if '"fit": false' in files[1].read_text():
        files[1].write_text(files[1].read_text().replace('"fit": false', '"fit": true'))
    assert measure().result()["verdict"] == "GO"


def test_another_machine_says_nothing_about_this_one(measure, store):
    note_aa(store, fit=False, facts=machine.facts() | {"cpu": "another"})
    assert measure().result()["verdict"] == "GO"


def test_load_is_recorded_and_shown(measure, monkeypatch, records, store):
    monkeypatch.setattr(machine, "load_1m", lambda: 99.0)
    monkeypatch.setattr(machine, "busy_processors", lambda: 100.0)
    answer = measure()
    (event,) = records("event", what="load")
    assert "load average 99.0" in event["text"]
    assert event["text"] in answer.result()["warnings"]
    assert "warning: load average 99.0" in answer.err
    assert all(run["load_1m"] == 99.0 for run in records("run"))


def test_load_that_begins_later_is_shown_too(measure, monkeypatch, records):
    """The machine is quiet at the start, and loaded from the third block on."""
    calls = iter(range(10_000))
    monkeypatch.setattr(machine, "load_1m", lambda: 0.0 if next(calls) < 14 else 99.0)
    assert any("load" in text for text in measure().result()["warnings"])


def test_the_load_of_sides_in_turns_is_not_that_of_others(monkeypatch):
    """A freezer of version 1 lets the load average count programs that stand still."""
    session = SimpleNamespace(warned_of_load=False, chosen=Chosen(TURNS), warn_of_load=lambda load: load > 1)
    monkeypatch.setattr(machine, "load_1m", lambda: 99.0)
    for name, warned in ((TURNS, False), (TOGETHER, True)):
        session.chosen = Chosen(name, processors=(0, 1))
        Session._look_for_load(session, {})
        assert session.warned_of_load == warned


def test_stolen_time_is_recorded_and_shown(measure, monkeypatch, records):
    monkeypatch.setattr(machine.StealMeter, "percent", lambda self: 40.0)
    result = measure().result()
    assert all(run["steal_percent"] == 40.0 for run in records("run"))
    assert all("40 %" in block["disturbed"] for block in records("block"))
    assert any("stolen" in text for text in result["warnings"])


def test_a_quiet_machine_that_was_checked_is_not_warned_about(measure, monkeypatch, store):
    note_aa(store, fit=True)
    monkeypatch.setattr(machine, "load_1m", lambda: 0.1)
    monkeypatch.setattr(machine.StealMeter, "percent", lambda self: 0.0)
    answer = measure()
    assert answer.result()["warnings"] == []
    assert "warning" not in answer.err


@pytest.mark.parametrize(
    ("load", "steal", "trouble"), [(0, 0, None), (1e9, 0, "load"), (0, 50, "stolen"), (0, 5, None)]
)
def test_disturbance(load, steal, trouble):
    found = machine.disturbance(load, steal)
    assert found is None if trouble is None else trouble in found


def test_the_header_says_what_the_result_depends_on(measure, records):
    measure()
    (header,) = records("header")
    assert set(header["machine"]) >= {"cpu", "processors", "memory_mib", "kernel", "distribution", "thp", "governor",
                                      "aslr", "page_bytes", "load_1m", "steal_percent", "virtualised"}  # fmt: skip
    assert header["command"]["program"].endswith("counted.sh")
    assert len(header["command"]["sha256"]) == 64
    assert all(len(arm["sha256"]) == 64 for arm in header["arms"])


@pytest.mark.parametrize("busy", [False, True])
def test_a_machine_under_load_is_not_called_fit(here, fakes, monkeypatch, busy):
    monkeypatch.setattr(machine, "load_1m", lambda: 9.0 if busy else 0.0)
    monkeypatch.setattr(machine, "busy_processors", lambda: 9.0 if busy else 0.0)
    words = ["aa", "--max-blocks", "16", "--repeat", "1", "--metric", r"regex:ops (\d+)", "--seed", "1", "--quiet"]
    script = "echo ops $((1000 + ${#HAK_PAD} % 10))"  # the padding's length follows from the seed
    answer = here(*words, "--", "sh", "-c", script)
    assert answer.status == 0, answer
    said = " ".join(answer.out.split())
    assert ("This machine is fit to measure" in said) is not busy
    assert ("Other programs were at work" in said) is busy
