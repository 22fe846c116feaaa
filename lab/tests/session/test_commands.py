"""Arms that are commands, commands with several values, and the commands before, between and after runs."""

import json
import os

import pytest

CHEAP = ("--repeat", "1", "--warm-up", "0", "--margin", "40%", "--quiet")
ONE_LOOK = (*CHEAP, "--looks", "1", "--max-blocks", "8")


def test_two_commands_stand_against_each_other(here, records):
    answer = here("ab", "--commands", "sleep 0.03", "sleep 0.01", *ONE_LOOK, "--json", "-")
    result = answer.result()
    assert result["verdict"] == "GO"
    assert [arm["name"] for arm in result["arms"]] == ["sleep 0.03", "sleep 0.01"]
    assert " as fast as sleep 0.03" in here("show").out
    assert [arm["command"] for arm in records("header")[0]["arms"]] == [["sleep", "0.03"], ["sleep", "0.01"]]
    assert here("resume", "last", "--more", "1", "--quiet", "--json", "-").result()["blocks"] == result["blocks"] + 1


def test_the_least_memory_of_two_commands(here, fakes, records):
    commands = ("--commands", f"{fakes.program} fill 32", f"{fakes.program} fill 16")
    flags = ("--metric", "least-memory", "--margin", "10%", "--warm-up", "0", "--max-blocks", "6", "--looks", "1")
    answer = here("ab", *commands, *flags, "--json", "-")
    result = answer.result()
    assert result["verdict"] == "GO"
    assert "a run is 3 to 5 executions" in answer.err
    first, second = result["limits"]
    assert first["fails"]["kib"] >= 32 << 10 > second["lives"]["kib"] > second["fails"]["kib"] >= 16 << 10
    assert "least memory" in result["headline"]
    assert "lives in" in result["answer"]
    assert {run["limited_by"] for run in records("run") if run["phase"] == "measure"} == {first["by"]}


def test_every_file_that_one_of_the_commands_names_is_kept_in_mind(hak, here, records, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
    commands = [f"cat {tmp_path / name}" for name in ("first", "second")]
    here("ab", "--commands", *commands, *ONE_LOOK, "--json", "-").result()
    inputs = records("header")[0]["inputs"]
    assert {str(tmp_path / "first"), str(tmp_path / "second")} <= inputs.keys()
    (tmp_path / "second").write_text("other")
    assert "second" in hak("resume", "last", "--more", "1", "--quiet").message()


def test_values_of_commands_are_arms_of_one_run(here, records):
    flags = ("--commands", "sleep 0.0{N}", "--scan", "N=1,3", *CHEAP, "--max-blocks", "8", "--json", "-")
    result = here("compare", *flags).result()
    assert [arm["name"] for arm in result["arms"]] == ["sleep 0.01", "sleep 0.03"]
    assert result["verdict"] == "NO-GO"


def test_values_of_one_command_are_runs_that_share_alpha(here, store):
    words = ("ab", "--control", "glibc", "--treatment", "default", "--scan", "N=1,2", *ONE_LOOK)
    results = here(*words, "--json", "-", "--", "sleep", "0.0{N}").result()
    assert [result["scan"] for result in results] == [{"N": "1"}, {"N": "2"}]
    assert [result["alpha"] for result in results] == [0.025, 0.025]
    headers = [
        json.loads(path.read_text().splitlines()[0]) for path in sorted(store.glob("*.jsonl"), key=os.path.getmtime)
    ]
    assert [header["command"]["argv"][1] for header in headers] == ["0.01", "0.02"]
    lines = here(*words, "--", "sleep", "0.0{N}").out.splitlines()
    firsts = [line.partition(":")[0] for line in lines]
    assert [first for first in firsts if first != "warning"] == ["N=1", "N=2"]


def test_two_commands_are_compared_at_every_value_in_a_run_each(here):
    flags = ("--commands", "sleep 0.0{N}", "sleep 0.01", "--scan", "N=1,3", *ONE_LOOK, "--json", "-")
    results = here("ab", *flags).result()
    assert [[arm["name"] for arm in result["arms"]] for result in results] == [
        ["sleep 0.01 (control)", "sleep 0.01 (treatment)"], ["sleep 0.03", "sleep 0.01"],
    ]  # fmt: skip
    assert [result["alpha"] for result in results] == [0.025, 0.025]
    assert results[1]["verdict"] == "GO"


def test_what_is_done_around_the_runs(here, records, tmp_path):
    """setup runs first and may make the program; prepare precedes every execution, also trials; cleanup comes last."""
    log, program = tmp_path / "log", tmp_path / "made"
    program.unlink(missing_ok=True)
    make = f"printf '#!/bin/sh\\nexec sleep 0.001\\n' > {program}; chmod +x {program}; echo setup >> {log}"
    around = ("--setup", make, "--prepare", f"echo {{seed}} >> {log}", "--cleanup", f"echo cleanup >> {log}")
    here("ab", "--control", "glibc", "--treatment", "default", *ONE_LOOK, *around, "--", program)
    lines = log.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("setup", "cleanup")
    runs = records("run")
    assert len(runs) > 2 + 4
    assert lines[1:-1] == [str(run["workload_seed"]) for run in runs]


def test_what_a_preparation_writes_is_no_input(here, tmp_path):
    data = tmp_path / "data"
    data.write_text("0")
    flags = ("--prepare", f"date +%N > {data}", *ONE_LOOK, "--json", "-")
    result = here("ab", "--control", "glibc", "--treatment", "default", *flags, "--", "cat", data).result()
    assert result["blocks"] and result["failures"] == []


def test_a_failing_step_ends_in_one_line_and_cleanup_comes_all_the_same(here, store, tmp_path):
    done, start = tmp_path / "done", ("ab", "--control", "glibc", "--treatment", "default", *ONE_LOOK)
    answer = here(*start, "--setup", "echo no compiler >&2; exit 3", "--", "true")
    assert answer.status == 2 and "setup: " in answer.message() and "no compiler" in answer.message()
    assert not store.exists()
    message = here(*start, "--prepare", "exit 4", "--cleanup", f"touch {done}", "--", "true").message()
    assert "prepare: exit status 4" in message
    assert done.exists()
    answer = here(*start[:-4], "--looks", "1", "--max-blocks", "8", "--cleanup", "exit 5", "--", "true")
    assert answer.status == 0


def test_a_cleanup_comes_after_an_interruption_too(begin, until, marker, tmp_path):
    import signal

    begun, done = tmp_path / "begun", tmp_path / "done"
    steps = ("--prepare", f"touch {begun}", "--cleanup", f"touch {done}")
    process = begin("ab", "--control", "glibc", "--treatment", "default", *CHEAP, *steps, "--", "sleep", marker)
    until(begun.exists)
    process.send_signal(signal.SIGINT)
    process.wait(600)
    assert process.returncode == 130
    assert done.exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("ab", "--commands", "true"), "has two"),
        (("ab", "--commands", "true", "true", "--control", "glibc"), "'control'"),
        (("ab", "--commands", "true", "false", "--", "sleep", "1"), "either 'commands' or one 'command'"),
        (("ab", "--commands", "--", "true"), "no command follows it"),
        (("ab", "--commands", "true", "true", "--callgrind"), "--callgrind"),
        (("compare", "--commands", "true", "true"), "twice"),
        (("compare", "--commands", "true", "nowhere-to-be-found"), "no program"),
        (("compare", "--scan", "N=1,2", "--", "true"), "the command has no {N}"),
        (("compare", "--scan", "N", "--", "true"), "--scan: 'N' is not"),
        (("compare", "--scan", "seed=1,2", "--", "true", "{seed}"), "another meaning"),
    ],
)
def test_mistakes(here, store, words, text):
    answer = here(*words)
    assert answer.status == 2
    assert text in answer.message()
    assert not store.exists()


def test_an_exit_code_may_be_expected(here):
    """For example, `grep -q` that finds nothing, or `cmp` of different files, ends with 1."""
    words = ("ab", "--commands", "sh -c 'sleep 0.03; exit 1'", "sh -c 'sleep 0.01; exit 1'", *ONE_LOOK, "--json", "-")
    refused = here(*words)
    assert refused.status == 2 and "exit status 1" in refused.message()
    assert here(*words, "--expect-exit", "0,1").result()["verdict"] == "GO"
    assert here(*words, "--expect-exit", "0,2").status == 2


RIGHT = ("--check", "grep -qx right")


def test_a_check_reads_every_byte_that_an_execution_printed(here, records):
    words = ("--commands", *(f"sh -c 'sleep 0.0{n}; printf \"\\\\377\"'" for n in (3, 1)), *ONE_LOOK, "--json", "-")
    assert here("ab", *words, "--check", 'test "$(od -An -tx1)" = " ff"').result()["verdict"] == "GO"
    assert not any("output" in run for run in records("run"))


@pytest.mark.parametrize("flags", [(), ("--metric", "cpu", "--schedule", "together"), ("--repeat", "3")])
def test_a_side_that_prints_something_wrong_has_failed(here, tmp_path, records, flags):
    """The second one is wrong from its fifth execution on."""
    wrong = tmp_path / "wrong"
    wrong.write_text(
        f"#!/bin/sh\necho >> {tmp_path}/count\n"
        f"if [ $(wc -l < {tmp_path}/count) -lt 5 ]; then echo right; else echo wrong; fi\n"
    )
    wrong.chmod(0o755)
    answer = here("ab", "--commands", "echo right", wrong, *ONE_LOOK, *flags, *RIGHT)
    failed = [run for run in records("run") if not run["ok"]]
    assert {(run["arm"], run["why"]) for run in failed} == {(str(wrong), "check: exit status 1")}
    assert "check: exit status 1" in answer.err


def test_a_program_whose_output_is_wrong_from_the_start_is_not_measured(here, store):
    answer = here("ab", "--commands", "echo right", "echo left", *ONE_LOOK, *RIGHT)
    assert (answer.status, store.exists()) == (2, False)
    assert "echo left: check: exit status 1" in answer.message()


def test_what_only_a_shell_understands_is_said(here):
    words = ("sleep 0.01 < in.txt", "sleep 0.01 | cat", "sleep 0.01 >out", "sleep 0.01")
    for first, sign in zip(words, ("'<'", "'|'", None, None), strict=True):
        answer = here("ab", "--commands", first, "sleep 0.02", "--max-blocks", "1", "--quiet")
        assert ("no shell is used" in answer.err) == bool(sign)
        assert sign is None or sign in answer.err


def test_a_run_is_resumed_where_it_was_begun(here, records, tmp_path, monkeypatch):
    here("ab", "--commands", "sleep 0.03", "sleep 0.01", *ONE_LOOK, "--json", "-").result()
    begun = records("header")[0]["folder"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    answer = here("resume", "last", "--more", "1", "--quiet")
    assert answer.status == 2 and f"was begun in {begun}; go there" in answer.message()
