"""`hak replay`: turns a trace into a comparison, predictions, and a stored run that other commands can read."""

import json
from types import SimpleNamespace

import pytest

from hakmem_lab.designs.contrasts import UntilDecided
from hakmem_lab.judge.statistics.verdict import Verdict
from hakmem_lab.kinds.replay import ReplaySession

ARMS = ("--allocators", "glibc", "glibc,MALLOC_TOP_PAD_=65536")
FAST = (*ARMS, "--max-blocks", "6", "--alpha", "0.1", "--repeat", "1", "--quiet", "--seed", "7")
KIB = 1024


@pytest.fixture
def trace(written, fakes):
    """trace(complete=True): a made-up trace of a program that allocates for a while; its command can be run."""

    def make(complete: bool = True):
        info = {"command": [str(fakes.program), "burn", "20"], "cwd": "/", "environment": {}}
        end = {"reason": None if complete else "the disk was full", "wall_s": 2.0, "cpu_s": 1.0,
               "processes": [{"process": 0, "rss_peak_kib": 30 * KIB}]}  # fmt: skip
        lines = [f"t 1 0 {json.dumps(info)}", 't 2 0 {"executable": "/x", "command": ["x"], "allocator": null}']
        for _ in range(40):
            lines += [f"o 0 0 0 {1000 + slot} {slot} 0 0" for slot in range(500)]
            lines += [f"o 0 0 3 0 {slot} 0 0" for slot in reversed(range(500))]
        return written([*lines, f"e {int(complete)} {json.dumps(end)}"])

    return make


def test_a_trace_is_compared_on_several_allocators(here, trace):
    result = here("replay", trace(), *FAST, "--json", "-").result()
    assert result["kind"] == "replay"
    assert [arm["name"] for arm in result["arms"]] == ["glibc", "glibc,MALLOC_TOP_PAD_=65536"]
    found = result["replay"]
    assert (found["base"], found["left_out"]) == ("glibc", 0)
    assert found["processes"][0]["operations"] == 40_000
    levels = {each["name"]: each["rows"][0]["predicted"] for each in found["quantities"]}
    assert levels == {"wall": 2.0, "cpu": 1.0, "rss": 30 * KIB}


def test_memory_is_read_after_the_last_operation(here, trace):
    result = here("replay", trace(), *FAST, "--metric", "after-load", "--after", "50ms", "--json", "-").result()
    assert result["metric"]["name"] == "after-load"
    assert all(0 < arm["median"] < arm["rss_peak_kib"] + 4 * KIB for arm in result["arms"])


def test_live_runs_stand_beside_the_predictions(here, trace):
    result = here("replay", trace(), "--live", *FAST, "--json", "-").result()
    for quantity in result["replay"]["quantities"]:
        base, other = quantity["rows"]
        assert base["predicted"] == base["live"] > 0
        assert other["error"] == pytest.approx(other["predicted"] / other["live"] - 1)
        assert set(quantity["ranking"]) == {"agree", "contrary", "unsure", "predicted", "live"}
    assert all(" live" not in row["name"] for row in result["comparisons"])


def test_a_stored_replay_is_shown_and_reported(here, trace, tmp_path):
    assert here("replay", trace(), *FAST).status == 0
    shown = here("show", "last")
    assert "replayed: 40,000 operations of 1 thread in 1 process" in shown.out
    assert "as the replay predicts it" in shown.out
    assert "hak-replay" not in here("list").out
    page = tmp_path / "page.html"
    assert here("report", "last", "-o", page).status == 0
    text = page.read_text(encoding="utf-8")
    assert "hak replay" in text and "against glibc on trace" in text
    assert "The live program as the replay predicts it" in text and "30.0 MiB" in text


@pytest.mark.parametrize("touch", ["all", "none"])
def test_what_is_touched_otherwise_predicts_nothing(here, trace, touch):
    answer = here("replay", trace(), *FAST, "--touch", touch)
    assert f"no prediction for the live program: it touched its memory otherwise than --touch {touch}" in answer.out
    assert "30.0 MiB" not in answer.out


def test_an_allocator_that_refuses_is_told_of(here, written):
    path = written([f"o 0 0 0 {1 << 47} 0 0 0", 'e 1 {"processes": []}'])
    result = here("replay", path, *FAST, "--json", "-").result()
    refused = [text for text in result["warnings"] if "refused 1 of the allocations" in text]
    assert [text.split()[0] for text in refused] == ["glibc", "glibc,MALLOC_TOP_PAD_=65536"]


def test_an_allocator_that_crashes_in_its_trial_leaves_and_the_others_are_replayed(here, written, fakes):
    lines = [f"o 0 0 {3 * (at % 2)} {(at + 1) % 2 * 4321} 0 0 0" for at in range(2000)]
    dies = f"{fakes.allocator},FAKE_DEADLY=4321"
    allocators = ("--allocators", "glibc", dies, "glibc,MALLOC_TOP_PAD_=65536")
    path = written([*lines, 'e 1 {"processes": [], "wall_s": 2.0, "cpu_s": 1.0}'])
    answer = here("replay", path, *FAST[len(ARMS) :], *allocators, "--json", "-")
    assert answer.status == 0, answer.err
    result = answer.result()
    assert [row["treatment"] for row in result["comparisons"] if row["verdict"]] == ["glibc,MALLOC_TOP_PAD_=65536"]
    assert list(result["replay"]["quantities"][0]) and "takes no further part" in " ".join(result["warnings"])
    assert dies not in [row["arm"] for quantity in result["replay"]["quantities"] for row in quantity["rows"]]


def test_a_live_command_that_fails_is_named(here, written, fakes):
    info = {"command": [str(fakes.program), "exit", "3"], "cwd": "/", "environment": {}}
    path = written([f"t 1 0 {json.dumps(info)}", "o 0 0 0 64 0 0 0", 'e 1 {"processes": []}'])
    answer = here("replay", path, "--live", *FAST)
    assert answer.status == 2
    assert str(fakes.program) in answer.message() and "hak-replay" not in answer.message()


def test_a_partial_trace_says_so(here, trace):
    result = here("replay", trace(complete=False), *FAST, "--json", "-").result()
    assert any("incomplete" in text and "the disk was full" in text for text in result["warnings"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "which trace?"),
        (("nowhere.trace",), "there is no trace 'nowhere.trace'"),
        (("a", "b"), "one trace at a time"),
        (("{trace}", "--touch", "some"), "touch"),
        (("{trace}", "--processes", "x"), "processes"),
        (("{trace}", *ARMS, "--processes", "0,7"), "has no process 7; it has: 0"),
    ],
)
def test_mistakes_are_one_line(here, trace, words, message):
    path = str(trace())
    answer = here("replay", *(path if word == "{trace}" else word for word in words))
    assert answer.status == 2
    assert message in answer.message()


def test_something_that_is_no_trace_is_refused(here, tmp_path):
    path = tmp_path / "text"
    path.write_text("no trace\n" * 10)
    answer = here("replay", path, *ARMS)
    assert answer.status == 2
    assert "not a trace" in answer.message()


def test_a_suite_takes_a_trace_in_place_of_a_command(here, trace, tmp_path):
    spec = tmp_path / "suite.toml"
    spec.write_text(
        'kind = "suite"\nallocators = ["glibc", "default"]\nsubject = "default"\nmax-blocks = 2\n'
        f'[[workload]]\nkey = "one"\ntrace = "{trace()}"\nrepeat = 1\n'
    )
    result = here("suite", spec, "--quiet", "--json", "-").result()
    metrics = [row["metric"] for row in result["suite"]["rows"]]
    assert len(metrics) == 2


def test_a_verdict_in_the_progress_is_not_on_the_program():
    """The result may be INCONCLUSIVE: then no difference of the whole program is predicted."""
    said: list[str] = []
    header = {"spec": {"max-blocks": 12, "looks": 1}, "anytime": 0.35}
    session = SimpleNamespace(file=SimpleNamespace(header=lambda: header), records=list, judged=ReplaySession.judged,
                              gone=set(), untried=set(), progress=SimpleNamespace(say=said.append))  # fmt: skip
    UntilDecided(session, ["c", "t"], lambda *_: Verdict.GO)([{"c": [], "t": []}])
    assert said == ["1 blocks of at most 12: t: GO on the replayed allocations alone"]
