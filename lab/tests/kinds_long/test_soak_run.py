"""Soaks of a few seconds: real processes, sampled, interrupted, killed, resumed."""

import signal
import subprocess
import sys

import pytest

from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.store.records import Sample

LINE = r"^done (?P<operations>\d+)"


def spec(command, **keys):
    from hakmem_lab.kinds.soak import SoakSpec
    from hakmem_lab.plan.model import build

    keys = {"allocator": "glibc", "line": LINE, "duration": "3s", "sample-interval": "100ms"} | keys
    return build(SoakSpec, {"kind": "soak", "command": [str(word) for word in command]} | keys, "s.toml")


def samples_of(file) -> list[dict]:
    return [record for record in file.records() if record["type"] == "sample"]


def test_a_leak_of_known_rate_is_measured(compiled, context, only_run, shown):
    from hakmem_lab.kinds.soak import soak

    made = spec([compiled("leak.c"), 2000, "{seconds}"], duration="6s", budget="100 MiB/h")
    result = soak.run(made, context())
    # 2000 KiB/s = 7031 MiB/h; the program sleeps a little longer than it says on a busy machine.
    assert result["verdict"] == "NO-GO"
    assert 3500 < result["soak"]["rss_slope_mib_per_h"] < 7700
    assert result["soak"]["slope_low"] > 100
    assert result["arms"][0]["name"] == "glibc"
    file = only_run()
    assert soak.analyse(file.header(), list(file.records())) == result
    stored = [record for record in file.records() if record["type"] == "result"][-1]
    of_the_store = ("type", "version")
    assert shown(result) == shown({key: value for key, value in stored.items() if key not in of_the_store})


def test_a_flat_program_passes_and_is_ended_when_the_time_is_over(compiled, context, only_run):
    from hakmem_lab.kinds.soak import soak

    result = soak.run(spec([compiled("leak.c"), 0, 1000], budget="100 MiB/h"), context())
    assert result["verdict"] == "GO" and result["failures"] == [] and result["final"]
    (run,) = [record for record in only_run().records() if record["type"] == "run"]
    assert run["ok"] and run["signal"] == signal.SIGTERM
    taken = samples_of(only_run())
    assert len(taken) >= 10 and taken[-1]["operations"] > 1000
    assert all(sample.keys() - {"type"} == Sample.__annotations__.keys() for sample in taken)
    assert all(sample["pss_kib"] <= sample["rss_kib"] for sample in taken)
    assert [sample["t_s"] for sample in taken] == sorted(sample["t_s"] for sample in taken)


def test_a_program_reads_its_standard_input(tmp_path, context, only_run):
    from hakmem_lab.kinds.soak import soak

    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\nthree\n", encoding="utf-8")
    count = "n=0; while read -r _; do n=$((n + 1)); done; while :; do echo done $n; sleep 0.1; done"
    soak.run(spec(["/bin/sh", "-c", count], duration="4s", stdin=str(lines)), context())
    assert samples_of(only_run())[-1]["operations"] == 3


def test_phases_and_threads_of_the_benchmark(compiled, context):
    from hakmem_lab.kinds.soak import DEFAULT_LINE, soak

    made = spec([compiled("soak.c"), "{seconds}", 2, 2000, 1, 1], duration="7s", line=DEFAULT_LINE)
    found = soak.run(made, context())["soak"]
    names = [phase["name"] for phase in found["phases"]]
    assert set(names) == {"small", "mixed", "large", "shrunk", "medium"} and len(names) >= 6
    assert found["threads"]["started"] >= 6
    assert all(row["ops_per_s"] > 0 and row["p50_us"] > 0 for row in found["epochs"][1:-1])
    assert found["service"]["p999_us"]["worst"] >= found["service"]["p50_us"]["median"]


def processes_of_segments(run):
    found = [each["text"] for each in run.records() if each["type"] == "event" and each["what"] == "segment"]
    return [int(text.split()[3]) for text in found]


def test_an_interruption_keeps_the_samples_and_a_resumed_soak_is_a_second_segment(
    compiled, context, only_run, interrupting, alive
):
    from hakmem_lab import kinds
    from hakmem_lab.errors import Interrupted
    from hakmem_lab.kinds.soak import soak

    made = spec([compiled("leak.c"), 100, "{seconds}"], duration="4s")
    with pytest.raises(Interrupted, match="hak runs resume"):
        soak.run(made, context(interrupting(12)))
    before = samples_of(only_run())
    assert len(before) >= 10
    (run,) = [record for record in only_run().records() if record["type"] == "run"]
    assert not run["ok"] and run["why"] == "interrupted"
    (first,) = processes_of_segments(only_run())
    assert not alive(first)

    result = kinds.resume(only_run(), context().progress)
    after = samples_of(only_run())
    assert after[: len(before)] == before
    assert {sample["segment"] for sample in after} == {0, 1}
    second = [sample for sample in after if sample["segment"] == 1]
    assert second[0]["t_s"] > before[-1]["t_s"] and second[-1]["t_s"] > 3.0
    assert len(set(processes_of_segments(only_run()))) == 2
    assert [part["segment"] for part in result["soak"]["segments"]] == [0, 1]
    assert result["failures"] == [{"block": 0, "arm": "glibc", "why": "interrupted"}]
    assert any("across a restart" in text for text in result["warnings"])


RUN_IT = """
import sys
from pathlib import Path
from hakmem_lab.run.conduct import Context
from hakmem_lab.kinds.soak import soak
from hakmem_lab.plan.spec import build
from hakmem_lab.run.endings import Progress
keys = {"kind": "soak", "allocator": "glibc", "duration": 60, "sample-interval": 0.05}
keys["command"] = [sys.argv[1], "9", "99"]
soak.run(build(soak.Spec, keys, "s"), Context(Path(sys.argv[2]), "s", Progress(quiet=True)))
"""


def test_a_killed_laboratory_loses_no_sample_and_leaves_no_process(compiled, store, only_run, until, alive):
    from hakmem_lab import kinds

    process = subprocess.Popen([sys.executable, "-c", RUN_IT, compiled("leak.c"), store])
    try:
        until(lambda: process.poll() is not None or len(list(store.glob("*.jsonl"))) == 1)
        until(lambda: process.poll() is not None or len(samples_of(only_run())) >= 5)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    (event,) = [r for r in only_run().records() if r["type"] == "event" and r["what"] == "segment"]
    until(lambda: not alive(int(event["text"].split()[3])))
    result = kinds.result_of(only_run())
    assert result["verdict"] == "INCONCLUSIVE" and result["soak"]["segments"][0]["samples"] >= 5


def test_a_program_that_crashes_fails_with_its_samples_kept(script, context, only_run):
    from hakmem_lab.kinds.soak import soak

    program = script("#!/bin/sh\nsleep 1; echo broken >&2; kill -SEGV $$\n")
    result = soak.run(spec([program]), context())
    assert result["verdict"] == "NO-GO" and "SIGSEGV" in result["answer"] and "broken" in result["failures"][0]["why"]
    assert len(samples_of(only_run())) >= 5


def test_a_program_that_ends_at_once_stops_the_run(script, context):
    from hakmem_lab.kinds.soak import soak

    said = r"ended before the first sample: exit status 3: no such option.*hak runs show .*hak runs resume "
    with pytest.raises(Stopped, match=said):
        soak.run(spec([script("#!/bin/sh\necho no such option >&2\nexit 3\n")]), context())


def test_a_killed_launcher_stops_the_run_and_keeps_the_samples(script, here, records):
    program = script("#!/bin/sh\nsleep 1; kill -9 $PPID; sleep 60\n")
    flags = ["--set", "allocator=glibc", "--set", "duration=30s", "--set", "sample-interval=100ms", "--quiet"]
    answer = here("soak", *flags, "--", program)
    assert answer.status == 3
    run = records("header")[0]["id"]
    assert f"hak runs show {run}" in answer.message() and f"hak runs resume {run}" in answer.message()
    assert len(records("sample")) >= 5
    assert here("show", run).status == 0


def test_every_byte_of_the_output_is_read_once(compiled, context, only_run, monkeypatch):
    from hakmem_lab.kinds.soak import soak
    from hakmem_lab.system.launcher import Running

    read, real = [], Running.output

    def output(self, start_offset=0):
        found = real(self, start_offset)
        read.append((start_offset, len(found)))
        return found

    monkeypatch.setattr(Running, "output", output)
    soak.run(spec([compiled("leak.c"), 0, "{seconds}"], duration="2s"), context())
    assert len(read) >= 10 and read[-1][0] > 0
    assert [start for start, _ in read] == [sum(size for _, size in read[:i]) for i in range(len(read))]
    assert samples_of(only_run())[-1]["operations"] > 100


def test_a_file_that_the_program_writes_does_not_hinder_resuming(script, context, only_run, interrupting, tmp_path):
    from hakmem_lab import kinds
    from hakmem_lab.errors import Interrupted
    from hakmem_lab.kinds.soak import soak

    data = tmp_path / "data"
    data.write_text("old\n", encoding="utf-8")
    program = script('#!/bin/sh\necho x >> "$1"\nsleep 60\n')
    with pytest.raises(Interrupted):
        soak.run(spec([program, data], duration="2s"), context(interrupting(8)))
    kinds.resume(only_run(), context().progress)
    (event, *_) = [r for r in only_run().records() if r.get("what") == "written"]
    assert event["files"] == [str(data)]


def test_a_program_that_ends_early_is_reported(script, context):
    from hakmem_lab.kinds.soak import soak

    result = soak.run(spec([script("#!/bin/sh\nsleep 1\n")]), context())
    assert not result["final"] and any("ended by itself after" in text for text in result["warnings"])


def test_a_finished_soak_is_not_run_again(compiled, context, only_run):
    from hakmem_lab import kinds
    from hakmem_lab.kinds.soak import soak

    soak.run(spec([compiled("leak.c"), 0, "{seconds}"], duration="1s"), context())
    before = samples_of(only_run())
    kinds.resume(only_run(), context().progress)
    assert samples_of(only_run()) == before


def test_nothing_is_started_for_an_unknown_program(context, store):
    from hakmem_lab.kinds.soak import soak

    with pytest.raises(LabError, match="no program"):
        soak.run(spec(["no-such-program"]), context())
    assert not store.exists() or not list(store.iterdir())


def test_the_soak_itself_does_not_need_the_libraries_of_pictures():
    code = "import sys, hakmem_lab.kinds.soak as s; sys.exit('jinja2' in sys.modules or 'duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
