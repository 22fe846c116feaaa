"""A single run, alone and with a server: its record, its metrics and its failures."""

import os
import socket

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.kinds.latency.pool import Reader
from hakmem_lab.kinds.soak import LineReader
from hakmem_lab.kinds.tune.spec import Reading
from hakmem_lab.plan import metrics
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric, MetricMissing
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.executions import MEASURES
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import Workload
from hakmem_lab.system.launcher import Outcome, Running

ARM = "glibc"
MIB_KIB = 1024


@pytest.fixture
def run():
    """run(command, metric, repeat, arm, keys of the spec): the record of one run."""

    def call(command, metric="wall", repeat=1, arm=ARM, **keys):
        values = {"command": list(map(str, command)), "control": "glibc", "treatment": "glibc", "metric": metric}
        spec = build(AbSpec, values | keys, "test")
        metrics = [Metric(metric), *map(Metric, spec.guardrails)]
        with Runner(Workload.of(spec), metrics) as runner:
            return runner.run(parse_arm(arm), 64, repeat)

    return call


@pytest.fixture
def serve(fakes, run, marker):
    """serve(mode, keys of the server, keywords of run): the record of a client that asks a server once."""

    def call(mode, server=None, **keywords):
        server = {"command": [str(fakes.server), "{port}", mode, marker], "ready-timeout": 2} | (server or {})
        return run([fakes.server, "{port}", "client"], **({"metric": r"regex:answer (\d+)"} | keywords), server=server)

    return call


def an_outcome(stdout="", **changes) -> Outcome:
    values = dict.fromkeys(("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "samples"), 0)
    values |= {"exit": 0, "signal": None, "timed_out": False, "too_much_output": False, "wall_s": 1.0, "user_s": 0.5,
               "system_s": 0.25, "rss_peak_kib": 100, "rss_mean_kib": 50.0, "mapped": None, "stderr": ""}  # fmt: skip
    return Outcome(**values | {"stdout": stdout} | changes)


def test_a_good_run_has_every_measure(fakes, run):
    record = run([fakes.program, "fill", "8"], guardrails={"rss": 0.1, "cpu": 0.1})
    assert (record["ok"], record["why"], record["exit"], record["arm"], record["pad_bytes"]) == (True, None, 0, ARM, 64)
    assert set(MEASURES) <= set(record)
    assert record["value"] == record["metrics"]["wall"] == record["wall_s"]
    assert record["metrics"]["rss"] == record["rss_peak_kib"]
    assert record["metrics"]["cpu"] == record["cpu_s"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["exit", "3"], "exit status 3"),
        (["crash"], "SIGSEGV"),
        (["abort"], "SIGABRT"),
        (["signal", "9"], "SIGKILL"),
        (["sleep", "60000"], "still running"),
    ],
)
def test_a_bad_run_is_a_record_with_its_reason(fakes, run, words, why):
    record = run([fakes.program, *words], timeout=0.3)
    assert record["ok"] is False
    assert why in record["why"]
    assert "value" not in record


def test_the_reason_quotes_the_end_of_the_output_on_one_line(run):
    record = run(["sh", "-c", "echo one; echo two >&2; echo three >&2; exit 4"])
    assert record["why"] == "exit status 4: two three"


def test_control_characters_of_the_output_do_not_reach_the_terminal(run):
    record = run(["sh", "-c", "printf 'bad\\033[2J\\007thing\\n' >&2; exit 4"])
    assert not [c for c in record["why"] if ord(c) < 32]


def test_a_repeated_run_stops_at_its_first_failure(run, fakes, tmp_path):
    count = tmp_path / "count"
    record = run([fakes.script(tmp_path)], repeat=5, env={"COUNT": str(count), "AT_3": "exit"})
    assert "exit status 7" in record["why"]
    assert count.read_text() == "3\n"


def test_a_repeated_run_is_the_mean_of_its_executions(run, fakes, tmp_path):
    program = tmp_path / "growing.sh"
    program.write_text('#!/bin/sh\necho x >> "$COUNT"\necho ops $(wc -l < "$COUNT")\n')
    program.chmod(0o755)
    record = run([program], r"regex:ops (\d+)", 5, env={"COUNT": str(tmp_path / "count")})
    assert record["value"] == pytest.approx(3.0)
    assert record["repeat"] == 5


def test_the_environment_is_the_callers_without_an_allocators_variables(fakes, monkeypatch, tmp_path):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name in ("HAKMEM_PROFILE", "LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW", "LD_DEBUG", "MALLOC_ARENA_MAX",
                 "GLIBC_TUNABLES",
                 "MALLOC_PERTURB_", "MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF", "TCMALLOC_RELEASE_RATE",
                 "HEAPPROFILE", "HAK_STORE", "MIMALLOC_VERBOSE", "SCUDO_OPTIONS"):  # fmt: skip
        monkeypatch.setenv(name, "leak")
    kept = ("PATH", "HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "MINE_TOO", "JAVA_HOME")
    for name in kept:
        monkeypatch.setenv(name, f"/{name}")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    arm = parse_arm("glibc,FAKE_X=1")
    env = arm.environment({"MINE": "2"}, 17)
    assert env == {name: f"/{name}" for name in kept} | {
        "LC_ALL": "C", "MINE": "2", "FAKE_X": "1", "LD_PRELOAD": str(arm.library.path), "HAK_PAD": "x" * 17,
    }  # fmt: skip


def test_a_client_gets_no_allocator_and_no_setting_of_an_arm(serve, fakes, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "mine")
    seen = tmp_path / "seen"
    client = ["sh", "-c", f"env > {seen}; exec {fakes.server} {{port}} client"]
    record = serve("serve", {"warm-up": client}, arm="glibc,FAKE_X=1")
    assert record["why"] is None
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert names >= {"PATH", "LC_ALL", "PYTHONPATH"}
    assert not names & {"LD_PRELOAD", "FAKE_X"}


@pytest.mark.parametrize("mode", ["serve", "stubborn"])
def test_a_server_is_measured_and_ended(serve, mode, processes, marker, monkeypatch):
    if mode == "stubborn":  # short, since this server ignores SIGTERM anyway
        monkeypatch.setattr(Running.terminate, "__defaults__", (0.3,))
    record = serve(mode)
    assert (record["why"], record["value"]) == (None, 42.0)
    assert record["server"]["rss_peak_kib"] > 0
    assert record["server"]["cpu_s"] >= 0
    assert processes(marker) == []


def test_the_peak_of_a_server_is_that_of_the_measured_time(serve):
    """Memory that the server used only during its start does not count."""
    record = serve("serve", metric="server-rss", env={"FAKE_START_MIB": "200"})
    assert record["why"] is None
    assert record["value"] < 150 * MIB_KIB


def test_memory_over_time_is_in_the_record(fakes, run):
    record = run([fakes.program, "fill", "200"])
    assert record["rss_series"][-1][1] <= record["rss_peak_kib"]
    given = {"command": [str(fakes.server), "{port}", "serve"]}
    client = ["/bin/sh", "-c", f"sleep 0.1; {fakes.server} {{port}} client"]
    server = run(client, metric="server-rss", server=given)["server"]
    begin, end = server["window_ms"]
    assert 0 <= begin <= end
    assert all(kib > 0 for _, kib in server["rss_series"])


def test_a_server_that_never_listens_is_given_up(serve, processes, marker):
    record = serve("deaf", {"ready-timeout": 0.3})
    assert "did not listen on port" in record["why"]
    assert "0.3 s" in record["why"]
    assert processes(marker) == []


def test_a_server_that_ends_before_it_listens(serve, run, fakes):
    record = run([fakes.server, "{port}", "client"], server={"command": [str(fakes.program), "exit", "6"]})
    assert record["ok"] is False
    assert "exit status 6" in record["why"]


def test_a_server_that_becomes_a_daemon_is_told_what_to_do(run, fakes):
    server = {"command": ["/bin/sh", "-c", f"{fakes.server} {{port}} serve &"]}
    record = run([fakes.server, "{port}", "client"], server=server)
    assert "exit status 0; a server has to stay in the foreground" in record["why"]


@pytest.mark.parametrize("attempt", range(3))
def test_a_server_that_ends_after_the_first_connection(serve, attempt):
    """The first connection is the laboratory's own check whether the server listens."""
    record = serve("one-connection")
    assert record["ok"] is False
    assert "server ended" in record["why"]


def test_a_server_that_dies_during_the_run(serve, fakes):
    client = ["sh", "-c", "kill -9 $(cat $PIDFILE); sleep 0.1; echo answer 1"]
    server = ["sh", "-c", f"echo $$ > $PIDFILE; exec {fakes.server} {{port}} serve"]
    pid = str(fakes.folder / "pid")
    record = serve("serve", {"command": server, "warm-up": client}, env={"PIDFILE": pid})
    assert record["ok"] is False


def test_a_server_that_is_killed_as_its_client_ends(run, fakes, monkeypatch):
    """As by the kernel at a limit of memory: its figures are gone before the laboratory sees that it has ended."""
    ended = Running.ended
    monkeypatch.setattr(Running, "ended", lambda running, wait_s=0.0: wait_s > 0 and ended(running, wait_s))
    client = ["sh", "-c", "echo answer 1; kill -9 $(cat $PIDFILE); while [ -e /proc/$(cat $PIDFILE)/exe ]; do :; done"]
    server = ["sh", "-c", f"echo $$ > $PIDFILE; exec {fakes.server} {{port}} serve"]
    record = run(client, r"regex:answer (\d+)", server={"command": server}, env={"PIDFILE": str(fakes.folder / "pid")})
    assert record["ok"] is False
    assert record["why"].startswith("the server ended during the run: killed by SIGKILL")


def test_a_client_that_fails_is_told_from_a_server_that_fails(serve, run, fakes):
    server = {"command": [str(fakes.server), "{port}", "serve"]}
    record = run(["sh", "-c", "echo refused >&2; exit 2"], server=server)
    assert record["why"] == "client: exit status 2: refused"


def test_somebody_elses_server_on_the_port_is_not_measured(serve):
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        record = serve("careless", {"port": port, "ready-timeout": 0.5}, metric="wall", timeout=1)
    assert record["ok"] is False
    assert str(port) in record["why"]


def test_a_client_that_cannot_be_started_is_a_reason_or_a_refusal(fakes, run, tmp_path):
    text = tmp_path / "client"
    text.write_text("not a program")
    text.chmod(0o755)
    try:
        record = run([text], server={"command": [str(fakes.server), "{port}", "serve"]})
    except LabError as error:
        assert "client" in str(error)
    else:
        assert "client" in record["why"]


def test_a_program_that_vanished_is_a_reason(fakes, tmp_path):
    program = fakes.script(tmp_path)
    spec = build(AbSpec, {"command": [str(program)], "control": ARM, "treatment": ARM}, "test")
    with Runner(Workload.of(spec), [Metric("wall")]) as runner:
        program.unlink()
        record = runner.run(parse_arm(ARM), 0)
    assert record["ok"] is False
    assert "No such file" in record["why"]


@pytest.mark.parametrize("key", ["cwd", "pin", "command", "server"])
def test_what_cannot_be_is_refused_before_anything_starts(fakes, run, key):
    keys = {"cwd": "/nonexistent", "pin": [4095], "server": {"command": ["/nonexistent/server"]}}
    command = ["/nonexistent/program"] if key == "command" else [fakes.program, "exit", "0"]
    with pytest.raises(LabError, match=f"{key}|/nonexistent"):
        run(command, **{key: keys[key]} if key in keys else {})


def test_a_processor_of_the_server_that_does_not_exist_is_refused(serve):
    with pytest.raises(LabError, match="pin"):
        serve("serve", {"pin": [4095]})


@pytest.mark.parametrize(
    ("text", "value"),
    [("ops 5\nops 7\n", 7.0), ("ops 1,234,567\n", 1234567.0), ("ops 1.5e3", 1500.0), ("ops 0.0001", 1e-4)],
)
def test_a_metric_is_the_last_match(text, value):
    assert Metric(r"regex:^ops ([\d.,e]+)").read(an_outcome(text)) == value


@pytest.mark.parametrize(
    "text", ["", "nothing", "ops 0", "ops -3", "ops nan", "ops inf", "ops 1e999", "ops abc", "ops "]
)
def test_what_is_no_number_above_zero_is_refused(text):
    with pytest.raises(MetricMissing, match="metric 'regex:ops"):
        Metric(r"regex:ops ([a-z\d.,e-]*)$").read(an_outcome(text))


@pytest.mark.parametrize("text", ["1,5", "1,15", "0,123", "1234,567", "1,5.0", "12,", ",5", "1,234,5"])
def test_a_comma_that_groups_no_thousands_is_refused_with_the_way_out(text):
    with pytest.raises(MetricMissing, match=f"matched '{text}': .* let the program print a point"):
        Metric(r"regex:ops (\S+)").read(an_outcome(f"ops {text}"))


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "\uff11"])
def test_a_number_has_the_digits_0_to_9(text):
    with pytest.raises(MetricMissing, match="not a number in the digits 0 to 9"):
        Metric(r"regex:ops (\S+)").read(an_outcome(f"ops {text}"))


def test_a_reading_a_histogram_and_a_soak_read_numbers_by_the_same_rule():
    with pytest.raises(MetricMissing, match="let the program print a point"):
        Reading("ops", pattern=r"regex:ops (\S+)").read(an_outcome("ops 1,5"))
    with pytest.raises(MetricMissing, match="let the program print a point"):
        Reader(r"(?P<value>\S+) ns (?P<count>\d+)").parse("1,5 ns 7")
    soaked = LineReader(r"ops=(?P<operations>\S+) live=(?P<live_kib>\S+)").read(b"ops=1,234,567 live=1,5\n", 1.0)
    assert (soaked["operations"], soaked["live_kib"]) == (1234567, None)


@pytest.mark.parametrize(("printed", "thousands"), [("1,234", {r"regex:ops (\S+)": 1234.0}), ("1,234,567", None)])
def test_a_single_comma_is_in_the_record_for_it_may_be_a_decimal_point(run, printed, thousands):
    record = run(["/bin/echo", "ops", printed], r"regex:ops (\S+)")
    assert record["value"] == float(printed.replace(",", ""))
    assert record.get("thousands") == thousands


def test_a_pattern_that_takes_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(metrics, "MATCH_S", 0.1)
    with pytest.raises(MetricMissing, match=r"characters for 0\.1 s: make the pattern simpler"):
        Metric("regex:^(a+)+b$").read(an_outcome("a" * 60))


def test_a_metric_in_the_standard_error_is_found():
    assert Metric(r"regex:ops (\d+)").read(an_outcome("", stderr="ops 3\n")) == 3.0


@pytest.mark.parametrize("name", ["cpu", "rss", "rss-mean", "faults"])
def test_a_measure_that_is_not_there_is_refused_by_name(name):
    outcome = an_outcome(user_s=0.0, system_s=0.0, rss_peak_kib=0, rss_mean_kib=None)
    with pytest.raises(MetricMissing, match=name):
        Metric(name).read(outcome)


def test_the_allocator_that_was_not_loaded_is_noticed_in_every_run(fakes, run, tmp_path):
    """The program drops LD_PRELOAD and then becomes another program, which a check at its start cannot see."""
    script = tmp_path / "drops.sh"
    script.write_text(f"#!/bin/sh\nunset LD_PRELOAD\nexec {fakes.program} sleep 150\n")
    script.chmod(0o755)
    record = run([script], arm=str(fakes.allocator))
    assert (record["ok"], record["mapped"]) == (False, False)
    assert "not loaded" in record["why"]
