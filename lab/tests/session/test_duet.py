"""Both arms at once: who runs where and with whom, what comes first, and what is said about shared caches."""

import json
import os
import signal

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.judge import failing
from hakmem_lab.judge.fitness import UNFIT, Asked, Check, reason
from hakmem_lab.run.duet import cores, halves

FAST = ("--repeat", "1", "--warm-up", "1", "--quiet", "--json", "-", "--seed", "7")
TWO = len(os.sched_getaffinity(0)) >= 2
needs_two = pytest.mark.skipif(not TWO, reason="one processor: nothing can run at the same time")


@pytest.fixture
def topology(tmp_path):
    """topology(siblings): processors 0, 1, … each with the threads of its core, as the kernel writes them."""

    def make(*siblings):
        for number, threads in enumerate(siblings):
            folder = tmp_path / f"cpu{number}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(threads + "\n")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("siblings", "processors", "sides"),
    [
        (["0", "1"], [0, 1], ([0], [1])),
        (["0", "1", "2", "3"], [0, 1, 2, 3], ([0, 1], [2, 3])),
        (["0", "1", "2"], [0, 1, 2], ([0], [1])),
        (["0,2", "1,3", "0,2", "1,3"], [0, 1, 2, 3], ([0, 2], [1, 3])),
        (["0-1", "0-1", "2-3", "2-3"], [0, 1, 2, 3], ([0, 1], [2, 3])),
        (["0-1", "0-1"], [0, 1], ([0], [1])),
        (["0", "1", "2", "3"], [1, 3], ([1], [3])),
    ],
)
def test_a_core_is_on_one_side_and_the_sides_are_equal(topology, siblings, processors, sides):
    assert halves(processors, topology(*siblings)) == sides


def test_a_machine_that_does_not_tell_its_cores_is_taken_by_processors(tmp_path):
    assert cores([0, 1, 2], tmp_path) == [[0], [1], [2]]


def test_one_processor_is_too_few(topology):
    with pytest.raises(LabError, match="two processors"):
        halves([0], topology("0"))


@pytest.fixture
def aa(here, fakes):
    def call(*words, blocks=12):
        command = words or (fakes.program, "burn", "3")
        return here("aa", "--duet", "--max-blocks", blocks, *FAST[:2], *FAST[4:], "--", *command)

    return call


@pytest.fixture
def ab(here, fakes):
    def call(*words, flags=(), blocks=8):
        command = words or (fakes.program, "burn", "3")
        arms = ("--control", "default", "--treatment", "default,X=1")
        return here("ab", "--duet", *arms, "--max-blocks", blocks, *FAST, *flags, "--", *command)

    return call


def runs_of(folder, kind):
    (path,) = folder.glob(f"*-{kind}-*.jsonl")
    return [record for record in map(json.loads, path.read_text().splitlines()) if record["type"] == "run"]


@needs_two
def test_without_an_a_a_of_both_at_once_nothing_is_started(ab, aa, here, fakes, store):
    message = ab().message()
    assert f"hak aa --duet -- {fakes.program} burn 3" in message
    assert not list(store.glob("*.jsonl"))
    assert here("aa", "--max-blocks", 12, *FAST[:2], *FAST[4:], "--", fakes.program, "burn", "3").status == 0
    assert "hak aa --duet" in ab().message()


@needs_two
def test_the_a_a_names_what_it_must_be_about(ab, aa):
    assert aa().status == 0
    message = ab(flags=("--metric", r"regex:(\d+) ops", "--higher-is-better")).message()
    assert r"hak aa --duet --metric 'regex:(\d+) ops' --higher-is-better -- " in message


@needs_two
def test_the_a_a_reads_the_same_input(ab, tmp_path):
    data = tmp_path / "two words"
    data.write_text("3\n")
    assert f"hak aa --duet --input '{data}' -- cat" in ab("cat", flags=("--input", data)).message()


@needs_two
def test_pairs_run_at_once_each_on_its_side_and_change_sides(ab, aa, store, fakes):
    assert aa(fakes.program, "burn", "60").status == 0
    result = ab(fakes.program, "burn", "60").result()
    assert result["blocks"] in (3, 5, 8)
    runs = [run for run in runs_of(store, "ab") if run["phase"] == "measure"]
    for block in range(result["blocks"]):
        four = [run for run in runs if run["block"] == block]
        assert [run["position"] for run in four] == [0, 1, 2, 3]
        assert [run["side"] for run in four] == [0, 1, 0, 1]
        outer, inner = four[0]["arm"], four[1]["arm"]
        assert {outer, inner} == {"default", "default,X=1"}
        assert [run["arm"] for run in four] == [outer, inner, inner, outer]
    together = [(a, b) for a, b in zip(runs[::2], runs[1::2], strict=True) if overlap_s(a, b) > 0]
    assert len(together) == len(runs) / 2


def overlap_s(one, other):
    return min(run["started"] + run["wall_s"] for run in (one, other)) - max(run["started"] for run in (one, other))


@needs_two
def test_the_sides_are_processors_of_their_own(here, fakes, store):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    words = ("--metric", r"regex:cpu (\d+)", "--pin", f"{first},{second}", "--max-blocks", 12, *FAST[:2], *FAST[4:])
    script = f"echo cpu $(( $({fakes.program} processors) + 1 ))"
    assert here("aa", "--duet", *words, "--", "/bin/sh", "-c", script).status == 0
    where = {(run["side"], run["value"]) for run in runs_of(store, "aa") if run["phase"] in ("measure", "solo")}
    assert where == {(0, first + 1.0), (1, second + 1.0)}


@needs_two
def test_every_arm_also_runs_alone_on_both_sides(ab, aa, store):
    assert aa().status == 0
    assert ab().status == 0
    solo = [run for run in runs_of(store, "ab") if run["phase"] == failing.SOLO]
    where = sorted((run["arm"], run["side"]) for run in solo)
    assert where == [(arm, side) for arm in ("default", "default,X=1") for side in (0, 1)]


@needs_two
def test_of_a_pair_with_a_failed_run_both_are_kept_and_the_block_is_run_again(aa, ab, fakes, tmp_path, store):
    """The treatment runs four times before the first block: on trial, to warm up, alone on both sides."""
    script, count = tmp_path / "fails.sh", tmp_path / "count"
    fifth = f'[ -n "$X" ] && {{ printf x >>{count}; [ $(stat -c %s {count}) = 5 ] && exit 3; }}'
    script.write_text(f"#!/bin/sh\n{fifth}\nexec {fakes.program} burn 3\n")
    script.chmod(0o755)
    assert aa(script).status == 0
    assert ab(script).status == 0
    begun = [run for run in runs_of(store, "ab") if (run["phase"], run["block"], run["attempt"]) == ("measure", 0, 0)]
    assert [run["side"] for run in begun] == [0, 1]
    assert [run["why"] for run in begun if run["arm"] == "default,X=1"] == ["exit status 3"]
    assert [run["ok"] for run in begun if run["arm"] == "default"] == [True]
    again = [run for run in runs_of(store, "ab") if (run["phase"], run["block"], run["attempt"]) == ("measure", 0, 1)]
    assert len(again) == 4


@needs_two
def test_a_killed_launcher_of_either_side_stops_the_run(here, fakes, tmp_path, store):
    """The second program that is started in company kills who started it."""
    script, mark = tmp_path / "kills.sh", tmp_path / "mark"
    script.write_text(f"#!/bin/sh\n[ -e {mark} ] && kill -9 $PPID\n[ $HAK_PAD ] && touch {mark}\nsleep 0.05\n")
    script.chmod(0o755)
    answer = here("aa", "--duet", "--max-blocks", 12, *FAST[:2], *FAST[4:], "--", script)
    assert answer.status == 3
    assert "launcher was killed" in answer.message()


@needs_two
def test_ctrl_c_ends_both_sides_and_the_run_can_be_continued(begin, tmp_path, processes, until, store):
    """What is started in a block has a padded environment, and hangs."""
    script, mark = tmp_path / "hangs.sh", f"6{os.getpid()}"
    script.write_text(f'#!/bin/sh\n[ "$HAK_PAD" ] && exec sleep {mark}\nexit 0\n')
    script.chmod(0o755)
    hak = begin("aa", "--duet", "--max-blocks", 12, *FAST[:2], *FAST[4:], "--", script)
    until(lambda: len(processes(mark)) == 2)
    hak.send_signal(signal.SIGINT)
    _, said = hak.communicate(timeout=30)
    assert hak.returncode == 130
    assert "hak resume" in said
    until(lambda: processes(mark) == [])


@needs_two
def test_each_side_has_a_server_of_its_own(here, fakes, tmp_path, store):
    def spec(kind, arms):
        path = tmp_path / f"{kind}.toml"
        path.write_text(
            f"kind = \"{kind}\"\nduet = true\n{arms}\nrepeat = 1\nmetric = 'regex:answer (\\d+)'\n"
            f'command = ["{fakes.server}", "{{port}}", "client"]\n'
            f'[server]\ncommand = ["{fakes.server}", "{{port}}", "serve"]\n'
        )
        return path

    quiet = ("--quiet", "--json", "-")
    ab = spec("ab", 'control = "default"\ntreatment = "default,X=1"\nlooks = 1\nmax-blocks = 6')
    assert "SPEC.toml, of kind aa" in here("ab", ab, *quiet).message()
    assert here("aa", spec("aa", 'allocator = "default"\nmax-blocks = 12'), *quiet).status == 0
    assert here("ab", ab, *quiet).result()["verdict"] == "NEUTRAL"
    runs = [run for run in runs_of(store, "ab") if run["phase"] == "measure"]
    assert {run["side"] for run in runs} == {0, 1}
    assert all(run["server"]["window_ms"][1] > 0 for run in runs)


@needs_two
@pytest.mark.parametrize("key", ["port = 12345", "pin = [0]"])
def test_two_servers_cannot_share_a_port_or_a_processor(here, fakes, tmp_path, key):
    path = tmp_path / "s.toml"
    path.write_text(
        'kind = "aa"\nduet = true\nallocator = "default"\n'
        f'command = ["{fakes.server}", "{{port}}", "client"]\n'
        f'[server]\n{key}\ncommand = ["{fakes.server}", "{{port}}", "serve"]\n'
    )
    assert f"server.{key.split()[0]} cannot be given" in here("aa", path).message()


def header(duet=True, higher=False):
    return {"kind": "ab", "spec": {"duet": duet, "higher-is-better": higher}, "arms": [{"name": "A"}, {"name": "B"}]}


def run(arm, phase, value, ok=True):
    return {"type": "run", "arm": arm, "phase": phase, "value": value, "ok": ok}


def both(alone, company):
    """Records of both arms: two runs alone, eight in company."""
    return [run(arm, phase, value) for arm in "AB" for phase, values in (("solo", alone), ("measure", company))
            for value in values]  # fmt: skip


def test_shared_caches_are_named_where_company_costs_more():
    found = failing.shared(header(), both([1.0, 1.0], [1.3] * 8))
    assert "A 30 %, B 30 %" in found
    assert "cache" in found


def test_of_a_rate_less_is_worse():
    records = both([100.0, 100.0], [80.0] * 8)
    assert failing.slowdowns(header(higher=True), records) == pytest.approx({"A": 0.25, "B": 0.25})
    assert failing.slowdowns(header(), records)["A"] < 0


@pytest.mark.parametrize(
    ("alone", "company"),
    [
        ([1.0, 1.0], [1.05] * 8),
        ([1.0, 1.0], [1.0] * 4 + [1.8] * 4),  # others took the processor from half of the runs
        ([], [1.5] * 8),
        ([1.0], []),
    ],
)
def test_what_strikes_some_runs_only_is_no_pressure(alone, company):
    assert failing.shared(header(), both(alone, company)) is None


def test_without_duet_there_is_no_pressure_to_speak_of():
    assert failing.shared(header(duet=False), both([1.0], [2.0])) is None


def test_failed_runs_say_nothing():
    records = [run("A", "solo", 1.0), run("A", "measure", 9.0, ok=False), run("A", "measure", 1.0)]
    assert failing.slowdowns(header(), records) == {"A": 0.0}


@pytest.mark.parametrize("duet", [True, False])
def test_an_a_a_answers_for_its_own_way_of_running_only(duet):
    unfit = Check("x", UNFIT, "/bin/p", "wall", duet=duet)
    assert "gave false verdicts" in reason([unfit], Asked("/bin/p", "wall", duet=duet))
    assert reason([unfit], Asked("/bin/p", "wall", duet=not duet)) is None
