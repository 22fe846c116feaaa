"""Resources that all processes of a run use: in its record, as metrics, and for a server whose children answer."""

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric, MetricMissing
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import ServerMeter, Workload, within
from hakmem_lab.system import usage
from hakmem_lab.system.launcher import Outcome

MIB_KIB = 1024
ANSWER = r"regex:answer (\d+)"
WHY = "we are not asked"


@pytest.fixture
def run():
    """run(command, metrics, repeat, keys of the spec): the record of one run."""

    def call(command, metrics=("wall",), repeat=1, **keys):
        values = {"command": list(map(str, command)), "control": "glibc", "treatment": "glibc"}
        spec = build(AbSpec, values | keys, "test")
        with Runner(Workload.of(spec), [Metric(name) for name in metrics]) as runner:
            return runner.run(parse_arm("glibc"), 0, repeat)

    return call


@pytest.fixture
def serve(fakes, run):
    def call(mode, *metrics):
        server = {"command": [str(fakes.server), "{port}", mode]}
        return run([fakes.server, "{port}", "client"], (ANSWER, *metrics), server=server)

    return call


@pytest.fixture
def no_rights(monkeypatch):
    monkeypatch.setattr(usage, "tried", lambda: (None, WHY))


@pytest.fixture
def groups():
    found, why = usage.tried()
    if found is None:
        pytest.skip(f"no real group here: {why}")
    return found


def test_memory_over_time_is_kept_in_the_record(fakes, run):
    record = run([fakes.program, "fill", "32"])
    series = record["rss_series"]
    assert len(series) >= 2
    assert series[-1][1] >= 32 * MIB_KIB
    assert max(kib for _, kib in series) <= record["rss_peak_kib"]
    assert record["pss_series"] == []


def test_proportional_memory_is_sampled_where_a_metric_asks_for_it(fakes, run):
    record = run([fakes.program, "family", "2", "32"], ("pss", "pss-mean", "rss"))
    assert record["metrics"]["pss"] == record["pss_peak_kib"] >= 64 * MIB_KIB
    assert record["metrics"]["pss-mean"] == record["pss_mean_kib"] < record["pss_peak_kib"]
    assert record["metrics"]["rss"] < 48 * MIB_KIB
    assert max(kib for _, kib in record["pss_series"]) >= 64 * MIB_KIB
    assert run([fakes.program, "fill", "8"])["pss_peak_kib"] is None


def test_metrics_of_the_whole_tree(fakes, run, groups):
    record = run([fakes.program, "family", "2", "32"], ("tree-memory", "tree-cpu"), repeat=2)
    assert record["ok"], record["why"]
    assert record["metrics"]["tree-memory"] >= 64 * MIB_KIB
    assert record["metrics"]["tree-cpu"] > 0
    assert record["tree"]["by"] == f"cgroup v{groups.version}"


def test_without_the_right_the_metric_says_why(fakes, run, no_rights):
    record = run([fakes.program, "fill", "8"], ("tree-memory",))
    assert record["why"] == f"metric 'tree-memory' could not be measured: {WHY}"


def test_nobody_asks_and_no_group_is_made(fakes, run, monkeypatch):
    monkeypatch.setattr(usage, "tried", lambda: pytest.fail("a group costs 20 ms a run"))
    assert run([fakes.program, "fill", "8"])["tree"] is None


def test_a_server_that_answers_by_its_children(serve, groups):
    """Each connection takes 60 ms of processor time; the first one waits for the server, the second is measured."""
    record = serve("prefork", "cpu", "tree-cpu", "tree-memory", "pss")
    assert record["ok"], record["why"]
    assert record["server"]["tree"]["by"] == f"cgroup v{groups.version}"
    assert 0.055 < record["metrics"]["cpu"] < 0.2
    assert record["metrics"]["tree-cpu"] == record["metrics"]["cpu"]
    assert record["metrics"]["tree-memory"] >= 90 * MIB_KIB
    assert record["metrics"]["pss"] >= 48 * MIB_KIB
    assert record["server"]["rss_peak_kib"] < 16 * MIB_KIB


def test_without_the_right_a_server_is_its_first_process(serve, no_rights):
    record = serve("prefork", "rss")
    assert record["ok"], record["why"]
    assert record["server"]["tree"] is None
    assert record["server"]["cpu_s"] < 0.055


def test_of_a_server_the_mean_is_never_above_the_peak(fakes, run):
    server = {"command": [str(fakes.server), "{port}", "serve"]}
    client = ["/bin/sh", "-c", f"sleep 0.1; {fakes.server} {{port}} client"]
    record = run(client, (ANSWER, "rss", "rss-mean"), server=server)
    assert 0 < record["metrics"]["rss-mean"] <= record["metrics"]["rss"]
    first, last = record["server"]["window_ms"]
    assert 0 <= first < last
    assert any(first <= at <= last for at, _ in record["server"]["rss_series"])


def test_without_rights_a_run_with_a_server_says_what_is_missing(here, fakes, tmp_path, no_rights):
    spec = tmp_path / "s.toml"
    spec.write_text(
        'kind = "ab"\ncontrol = "default"\ntreatment = "default,X=1"\nmax-blocks = 6\nlooks = 1\n'
        f'metric = \'{ANSWER}\'\ncommand = ["{fakes.server}", "{{port}}", "client"]\n'
        f'[server]\ncommand = ["{fakes.server}", "{{port}}", "serve"]\n'
    )
    result = here("ab", spec, "--json", "-", "--quiet").result()
    (text,) = [text for text in result["warnings"] if "first process" in text]
    assert text.endswith(WHY)


@pytest.mark.parametrize(
    ("window", "points"),
    [((0, 100), [(10, 5), (20, 9), (60, 7)]), ((15, 30), [(20, 9)]), ((21, 59), [(20, 9)]), ((0, 5), [(10, 5)])],
)
def test_a_window_of_a_series(window, points):
    assert within([(10, 5), (20, 9), (60, 7)], window) == points


def test_a_server_is_what_it_was_while_its_client_was_measured():
    meter = ServerMeter(0, None)
    meter._window_ms = (15.4, 35.2)
    found = meter.memory(outcome(rss_series=[(10, 900), (20, 100), (30, 300), (40, 900)]), {"rss_peak_kib": 250})
    assert found["window_ms"] == [15, 35]
    assert (found["rss_mean_kib"], found["rss_peak_kib"]) == (200, 300)
    meter._window_ms = (32, 34)
    assert meter.memory(outcome(rss_series=[(10, 900), (30, 300), (40, 900)]), {})["rss_mean_kib"] == 300
    empty = meter.memory(outcome(), {})
    assert (empty["rss_mean_kib"], empty["pss_peak_kib"]) == (None, None)


def outcome(**changes):
    whole = ("rss_peak_kib", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "samples")
    values = dict.fromkeys(whole, 1) | dict.fromkeys(("wall_s", "user_s", "system_s", "rss_mean_kib"), 1.0)
    return Outcome(**values | {"exit": 0, "signal": None, "timed_out": False, "too_much_output": False, "mapped": None}
                   | changes)  # fmt: skip


def test_counters_are_read_by_their_names():
    measured = outcome(counts=(5.0, None, 7.0))
    counted = ("instructions", "cycles", "dtlb-misses")
    assert Metric("instructions").read(measured, counted=counted) == 5.0
    assert Metric("dtlb-misses").read(measured, counted=counted) == 7.0
    with pytest.raises(MetricMissing, match="'cycles' could not be measured: this machine has no such counter"):
        Metric("cycles").read(measured, counted=counted)


def test_a_program_that_the_kernel_ended_for_want_of_memory():
    killed = outcome(exit=None, signal=9, tree={"oom_kills": 1})
    assert killed.failure() == "killed by SIGKILL: the kernel ended it for want of memory"
    assert outcome(exit=None, signal=9, tree={"oom_kills": 0}).failure() == "killed by SIGKILL"


@pytest.mark.parametrize("name", ["instructions", "cycles", "cache-misses", "dtlb-misses", "faults"])
def test_what_is_counted_per_program_is_not_counted_for_a_server(name, fakes):
    values = {"command": "x", "control": "a", "treatment": "b", "also": [name], "server": {"command": "y"}}
    with pytest.raises(LabError, match=f"the metric '{name}' is not counted for a \\[server\\]"):
        build(AbSpec, values, "test")


def test_what_is_measured_beside_is_compared_but_not_judged(here, fakes):
    words = ("--control", "default", "--treatment", "default,X=1", "--max-blocks", 6, "--looks", 1, "--repeat", 1)
    result = here("ab", *words, "--also", "pss", "--quiet", "--json", "-", "--", fakes.program, "fill", "16").result()
    (row,) = [row for row in result["comparisons"] if row["metric"] == "pss"]
    assert row["verdict"] is None
    assert abs(row["estimate"]) < 0.1
