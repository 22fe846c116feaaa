"""The least memory in which a program lives: the search, its executions, and the limit that hak itself keeps."""

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.judge import limits as judged
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import LEAST, Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run import limits
from hakmem_lab.run.limits import Limit, Search, least
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import usage

MIB_KIB = 1024
FAR = 1 << 30


class Machine:
    """A runner of a program that needs `need_kib` and costs 1 s, times `slow(KiB)` under a limit."""

    def __init__(self, need_kib=0, slow=lambda kib: 1.0, noise=()):
        self.need_kib, self.slow, self.noise, self.tried = need_kib, slow, list(noise), []

    def part(self, limit=None):
        cost_s = self.slow(limit.kib) if limit else 1.0
        cost_s *= self.noise.pop(0) if self.noise else 1.0
        why = "killed" if limit and limit.kib < self.need_kib else None
        return {"cpu_s": cost_s, "wall_s": 1.0, "rss_peak_kib": 1000 if limit is None else 0, "metrics": {}, "why": why}

    def execute(self, limit, timeout_s):
        self.tried += [limit.kib] if limit else []
        return self.part(limit)

    def found(self, search=None):
        return (search or Search()).found("glibc", "cgroup v2", [self.part()], self.execute)


@pytest.mark.parametrize("edge", [0, 1, 7, 40, 41, 77, 200])
@pytest.mark.parametrize("start", [0, 41, 150])
@pytest.mark.parametrize("step", [1, 8])
def test_the_least_point_is_between_two_that_were_tried(edge, start, step):
    tried = []

    def lives(point):
        tried.append(point)
        return point >= edge

    assert least(lives, start, step, FAR) == edge
    assert edge in tried
    assert edge == 0 or edge - 1 in tried
    assert len(tried) == len(set(tried)) <= 18


def test_a_program_that_lives_nowhere_is_a_failed_run():
    found = Machine(need_kib=FAR).found()
    assert not found["ok"]
    assert "ends well without a limit" in found["why"]


def test_later_searches_test_both_ends_alone():
    machine, search = Machine(need_kib=800), Search()
    first = machine.found(search)["value"]
    assert first == min(kib for kib in map(limits.kib_at, range(400)) if kib >= 800)
    machine.tried.clear()
    assert machine.found(search)["value"] == first
    assert machine.tried == [first, max(kib for kib in map(limits.kib_at, range(400)) if kib < 800)]


def test_a_limit_that_makes_it_slower_is_too_low():
    found = Machine(slow=lambda kib: 1.2 if kib < 900 else 1.0).found()
    assert 900 <= found["value"] <= 909
    assert (kib := max(kib for kib, why, _ in found["limits"] if why)) < 900
    assert (kib, "20 % slower", 0) in found["limits"]


def test_one_slow_execution_is_noise():
    found = Machine(need_kib=800, noise=[1.0, 1.5, 1.0, 1.4, 1.0]).found()
    assert 800 <= found["value"] <= 808


def test_a_process_that_the_kernel_killed_counts_although_the_program_ended_well():
    part = {"why": None, "tree": {"oom_kills": 1}}
    assert "for want of memory" in Limit(100).failure(part)
    assert "for want of memory" in Limit(100).failure({"why": None, "server": part})


@pytest.fixture
def run(fakes):
    def call(*words, server=None):
        values = {"command": [str(fakes.program), *words], "control": "glibc", "treatment": "glibc", "metric": LEAST}
        spec = build(AbSpec, values | ({"server": server} if server else {}), "test")
        with Runner(Workload.of(spec), [Metric(LEAST), Metric("rss")]) as runner:
            return runner.run(parse_arm("glibc"), 0)

    return call


def test_a_real_program_without_control_groups(run, monkeypatch):
    monkeypatch.setattr(usage, "tried", lambda: (None, "not asked"))
    record = run("fill", "32")
    assert record["limited_by"] == limits.WATCHED
    assert 32 * MIB_KIB <= record["value"] <= 48 * MIB_KIB
    assert record["value"] == record["metrics"][LEAST]
    assert record["metrics"]["rss"] >= 32 * MIB_KIB
    assert max(over for _, _, over in record["limits"]) > 0


def test_a_real_program_in_a_control_group(run):
    if usage.tried()[0] is None:
        pytest.skip(usage.tried()[1])
    record = run("fill", "32")
    assert record["limited_by"].startswith("cgroup")
    assert 32 * MIB_KIB <= record["value"] <= 48 * MIB_KIB


def test_an_execution_under_a_limit_lives_only_if_its_output_is_right():
    values = {"command": ["true"], "control": "glibc", "treatment": "glibc", "metric": LEAST, "check": "false"}
    with Runner(Workload.of(build(AbSpec, values, "test")), [Metric(LEAST)]) as runner:
        assert runner._limited(parse_arm("glibc"), 0, None, 5.0)["why"] == "check: exit status 1"


def test_a_group_gets_its_limit_in_the_words_of_its_version(tmp_path):
    for version, names in ((2, ("memory.max", "memory.oom.group")), (1, ("memory.limit_in_bytes",))):
        for name in names:
            (tmp_path / name).write_text("")
        usage.Group(version, {"memory": tmp_path}).limit(4)
        assert (tmp_path / names[0]).read_text() == "4096"
    assert (tmp_path / "memory.swap.max").read_text() == "0"


def side(name, tried, over=0, by="cgroup v2"):
    return {"type": "run", "arm": name, "limited_by": by, "limits": [[kib, why, over] for kib, why in tried]}


def test_both_ends_of_each_side_with_their_counts():
    records = [side("a", [(2048, ""), (1024, "killed")]), side("a", [(2048, ""), (1024, "killed"), (4096, "")])]
    records += [side("b", [(1024, ""), (2048, "killed"), (2048, ""), (4096, ""), (512, "died")])]
    rows = judged.brackets({"arms": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, records)
    assert rows[0]["lives"] == {"kib": 2048, "count": 3, "of": 3}
    assert rows[0]["fails"] == {"kib": 1024, "count": 2, "of": 2}
    assert (rows[1]["lives"], rows[1]["fails"]["kib"]) == ({"kib": 1024, "count": 3, "of": 4}, 512)
    said = judged.finding({"limits": rows})
    assert said[1] == "a lives in 2 MiB (3 of 3 executions), fails in 1 MiB (2 of 2)."
    assert "The kernel kept the limits" in said[-1]


@pytest.mark.parametrize("times", [1, 30])
def test_a_rare_failure_does_not_move_an_end(times):
    tried = [(2048, ""), (1024, "killed")] * times + [(4096, "crashed"), (512, "")]
    (row,) = judged.brackets({"arms": [{"name": "a"}]}, [side("a", tried)])
    assert row["lives"] == {"kib": 2048, "count": times, "of": times + 1}
    assert row["fails"] == {"kib": 1024, "count": times, "of": times + 1}


@pytest.mark.parametrize(("crashes", "lives"), [(2, {"kib": 2048, "count": 40, "of": 42}), (3, None)])
def test_one_failure_in_twenty_executions_with_more_memory_is_chance(crashes, lives):
    tried = [(2048, ""), (1024, "killed")] * 40 + [(4096, "crashed")] * crashes
    (row,) = judged.brackets({"arms": [{"name": "a"}]}, [side("a", tried)])
    assert row["lives"] == lives


@pytest.mark.parametrize(
    ("by", "how"),
    [
        ("cgroup v2", "The kernel kept the limits; processor time and waiting for memory decided what is slower."),
        ("cgroup v1", "The kernel kept the limits; processor time alone decided what is slower."),
        (
            limits.WATCHED,
            "The laboratory kept the limits, for no control group can be made here: it killed programs that held up to "
            "1,500 KiB more.",
        ),
    ],
)
def test_the_result_says_who_kept_the_limits(by, how):
    records = [side("a", [(2048, ""), (1024, "killed")], over, by) for over in (1500, 20)]
    records += [side("b", [(2048, "killed")], 7, by)]
    rows = judged.brackets({"arms": [{"name": "a"}, {"name": "b"}]}, records)
    assert [row["over_kib"] for row in rows] == [1500, 7]
    said = judged.finding({"limits": rows})
    assert said[1:] == [
        "a lives in 2 MiB (2 of 2 executions), fails in 1 MiB (2 of 2).",
        "b lives in no limit, fails in 2 MiB (1 of 1).",
        how,
    ]
    assert judged.finding({"limits": judged.brackets({"arms": [{"name": "a"}]}, [side("a", [(2048, "")])])})[1] == (
        "a lives in 2 MiB (1 of 1 executions), failed in no limit."
    )


def test_a_limit_at_which_half_of_the_executions_end_well_is_no_end():
    tried = [(4096, ""), (2048, ""), (2048, "killed"), (1024, "killed")]
    (row,) = judged.brackets({"arms": [{"name": "a"}]}, [side("a", tried)])
    assert (row["lives"], row["fails"]) == ({"kib": 4096, "count": 1, "of": 1}, {"kib": 1024, "count": 1, "of": 1})


def test_a_trial_has_no_limits_and_a_run_that_goes_on_as_root_has_those_of_the_kernel():
    records = [{"type": "run", "arm": "a"}, *(side("a", [(2048, "")], 0, by) for by in (limits.WATCHED, "cgroup v2"))]
    assert judged.brackets({"arms": [{"name": "a"}]}, records)[0]["by"] == "cgroup v2"


@pytest.mark.parametrize("keys", [{"also": [LEAST]}, {"guardrails": {LEAST: "5%"}}])
def test_it_can_only_be_the_metric_of_the_verdict(keys):
    with pytest.raises(LabError, match="can only be the metric of the verdict"):
        build(AbSpec, {"command": "true", "control": "glibc", "treatment": "hakmem"} | keys, "spec.toml")
