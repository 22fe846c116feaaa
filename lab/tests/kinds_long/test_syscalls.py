"""Counting system calls: programs with known counts, strace's output, and budgets that data can or cannot decide."""

import shutil

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.run.endings import Progress

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.54    0.000080          40         2         1 openat
 38.46    0.000050           0       300           mmap
  0.00    0.000000           0         1         1 access
------ ----------- ----------- --------- --------- ----------------
100.00    0.000130           0       303         2 total
System call usage summary for 32 bit mode:
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
100.00    0.000001           1         7           mmap
------ ----------- ----------- --------- --------- ----------------
100.00    0.000001           1         7           total
"""


def spec(command, **keys):
    from hakmem_lab.kinds.syscalls import SyscallsSpec
    from hakmem_lab.plan.model import build

    values = {"kind": "syscalls", "command": [str(w) for w in command], "allocators": ["glibc"], "repeats": 2} | keys
    return build(SyscallsSpec, values, "s.toml")


@pytest.fixture
def analyse(header):
    from hakmem_lab.kinds.syscalls import syscalls

    def make(short, long, ops=(1000, 2000), budget=None):
        runs = [
            {"type": "run", "block": i, "arm": "glibc", "ok": True, "length": length, "ops": n, "calls": calls}
            for length, n, each in (("short", ops[0], short), ("long", ops[1], long))
            for i, calls in enumerate(each)
        ]
        return syscalls.analyse(header("syscalls", ops=list(ops), budget=budget, repeats=len(short)), runs)

    return make


def test_the_summary_of_strace_is_read():
    from hakmem_lab.kinds.syscalls import parse_summary

    assert parse_summary(SUMMARY) == {"openat": 2, "mmap": 307, "access": 1}
    assert parse_summary("strace: cannot find executable\n") == {}


def test_the_allocator_is_handed_to_the_program_and_not_to_strace(tmp_path):
    from hakmem_lab.kinds.syscalls import traced

    env = {"LD_PRELOAD": "/lib/a.so", "LD_BIND_NOW": "1", "PATH": "/bin"}
    command, own = traced("/usr/bin/strace", tmp_path / "out", ["/bin/ls", "-l"], env)
    assert own == {"PATH": "/bin"}
    at = command.index("--")
    assert command[at + 1 :] == ["/bin/ls", "-l"]
    assert "LD_PRELOAD=/lib/a.so" in command[:at] and "LD_BIND_NOW=1" in command[:at]


@needs_strace
def test_calls_per_operation_of_a_known_program(compiled, context, only_run, shown):
    from hakmem_lab.kinds.syscalls import syscalls

    result = syscalls.run(spec([compiled("calls.c"), "{ops}"], ops=[100, 600], budget=6.0), context())
    (row,) = result["syscalls"]["arms"]
    assert row["per_op"] == pytest.approx(1.1)
    assert row["per_call"] == {"getppid": pytest.approx(1.0), "getuid": pytest.approx(0.1)}
    assert row["short"]["per_call"]["getppid"] == 100 and row["long"]["per_call"]["getuid"] == 60
    assert row["least"] == row["most"] == row["per_op"]
    assert result["verdict"] == "GO" and result["final"] and result["failures"] == []
    file = only_run()
    assert sorted(run["length"] for run in file.records() if run["type"] == "run") == ["long"] * 2 + ["short"] * 2
    assert shown(syscalls.analyse(file.header(), list(file.records()))) == shown(result)


@needs_strace
def test_a_whole_process_without_a_placeholder(compiled, context):
    from hakmem_lab.kinds.syscalls import syscalls

    result = syscalls.run(spec([compiled("calls.c"), "50"]), context())
    (row,) = result["syscalls"]["arms"]
    assert row["per_op"] is None and row["whole"]["per_call"]["getppid"] == 50
    assert result["verdict"] is None and "not per operation" in result["answer"]


@needs_strace
@pytest.mark.parametrize("words", [["50"], ["{ops}", "--set", "ops=10,60"]])
def test_the_terminal_shows_whole_processes_and_rates(compiled, here, words):
    command, flags = [compiled("calls.c"), words[0]], words[1:]
    answer = here("syscalls", "--allocators", "glibc", *flags, "--set", "repeats=2", "--quiet", "--", *command)
    assert answer.status == 0, answer.err
    row = next(line for line in answer.out.splitlines() if line.strip().startswith("glibc "))
    assert "getppid" in row
    assert here("show").out == answer.out


@pytest.mark.parametrize("counted", [[], ["short"], ["long"], ["short", "long"]])
@pytest.mark.parametrize("budget", [None, 0.5])
def test_the_terminal_shows_arms_that_are_not_counted_yet(header, capsys, counted, budget):
    from hakmem_lab.kinds.syscalls import syscalls
    from hakmem_lab.show.terminal import render

    top = header("syscalls", ops=[100, 200], budget=budget, repeats=2)
    top["arms"].append(top["arms"][0] | {"name": "other"})
    lengths = {"short": (100, 100), "long": (200, 210)}
    runs = [
        {"type": "run", "block": i, "arm": "glibc", "ok": True, "length": name, "ops": lengths[name][0],
         "calls": {"brk": lengths[name][1]}}
        for i, name in enumerate(counted)
    ]  # fmt: skip
    result = syscalls.analyse(top, runs)
    render.show(result)
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.split()}
    assert rows["glibc"][1:3] == ["100" if "short" in counted else "-", "210" if "long" in counted else "-"]
    assert rows["other"][:3] == ["-", "-", "-"]
    if len(counted) == 2 and budget is None:
        assert rows["glibc"][0] == "1.1"
    assert result["verdict"] == (None if budget is None else "NO-GO" if len(counted) == 2 else "INCONCLUSIVE")


@needs_strace
def test_the_program_is_preloaded_and_strace_is_not(script, compiled):
    from hakmem_lab.kinds.syscalls import TracedRunner
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.run.workload import Workload

    program = script(
        '#!/bin/sh\ntest "$WANTED" = "$LD_PRELOAD" || exit 9\n'
        'read -r name < /proc/$PPID/comm; test "$name" = strace || exit 8\n'
        "! tr '\\0' '\\n' < /proc/$PPID/environ | grep -q ^LD_PRELOAD= || exit 7\n"
    )
    library = str(compiled("stall.c", "-shared", "-fPIC"))
    with TracedRunner(Workload.of_command([str(program)])) as runner:
        calls, part = runner.counted(parse_arm(f"{library},WANTED={library}"), {})
    assert part["why"] is None and calls["execve"] >= 1


@needs_strace
def test_a_failing_program_stops_the_run_and_resuming_counts_what_is_missing(script, context, only_run):
    from hakmem_lab import kinds
    from hakmem_lab.errors import Stopped
    from hakmem_lab.kinds.syscalls import syscalls

    program = script('#!/bin/sh\ntest "$1" != 2 || test -e "$0.repaired" || { echo no luck >&2; exit 4; }\n')
    with pytest.raises(Stopped, match="exit status 4: no luck"):
        syscalls.run(spec([program, "{ops}"], ops=[1, 2]), context())
    first = [run for run in only_run().records() if run["type"] == "run"]
    failed = first[-1]["block"]
    assert [run["ok"] for run in first] == [True] * failed + [False]
    program.with_name("program.repaired").touch()
    result = kinds.resume(only_run(), context().progress)
    runs = [run for run in only_run().records() if run["type"] == "run"]
    assert runs[: len(first)] == first
    assert [run["block"] for run in runs if run["ok"]] == [0, 1, 2, 3]
    assert [run["attempt"] for run in runs if run["block"] == failed] == [0, 1]
    assert result["final"] and len(result["failures"]) == 1


@needs_strace
def test_a_killed_launcher_stops_the_run_and_it_can_be_continued(script, context, only_run):
    from hakmem_lab import kinds
    from hakmem_lab.errors import Stopped
    from hakmem_lab.kinds.syscalls import syscalls

    program = script(
        '#!/bin/sh\nread -r name < /proc/$PPID/comm\ntest "$name" = strace || exit 0\n'
        'if test "$1" = 2 && ! test -e "$0.repaired"; then kill -9 $(cut -d" " -f4 /proc/$PPID/stat); sleep 9; fi\n'
    )
    with pytest.raises(Stopped, match=r"launcher was killed.*hak runs show .*hak runs resume"):
        syscalls.run(spec([program, "{ops}"], ops=[1, 2]), context())
    program.with_name("program.repaired").touch()
    assert kinds.resume(only_run(), context().progress)["final"]


@needs_strace
def test_a_script_that_changes_stops_the_run(script, context, only_run):
    from hakmem_lab.errors import Stopped
    from hakmem_lab.kinds.syscalls import syscalls

    named = script("exit 0\n", "named.sh")
    with pytest.raises(Stopped, match=r"named\.sh changed during run .* start a new run"):
        syscalls.run(spec(["/bin/sh", named, "{ops}"], ops=[1, 2]), context(_Editing(named)))
    assert [run["ok"] for run in only_run().records() if run["type"] == "run"][-1] is False


class _Editing(Progress):
    """A progress that edits a file at its fourth update, in the middle of the executions."""

    def __init__(self, path):
        super().__init__(quiet=True)
        self.path, self.updates = path, 0

    def update(self, *_):
        self.updates += 1
        if self.updates == 4:
            self.path.write_text("exit 0\n# another\n", encoding="utf-8")


@needs_strace
def test_an_interruption_keeps_what_was_counted(compiled, context, only_run, interrupting):
    from hakmem_lab.errors import Interrupted
    from hakmem_lab.kinds.syscalls import syscalls

    with pytest.raises(Interrupted):
        syscalls.run(spec([compiled("calls.c"), "{ops}"], ops=[10, 20]), context(interrupting(4)))
    assert len([run for run in only_run().records() if run["type"] == "run"]) == 2


def test_without_strace_there_is_one_message_and_nothing_is_stored(compiled, context, store, without_strace):
    from hakmem_lab.kinds.syscalls import syscalls

    with pytest.raises(LabError, match="needs strace"):
        syscalls.run(spec([compiled("calls.c"), "{ops}"], ops=[10, 20]), context())
    assert not store.exists()


def test_strace_that_cannot_trace_is_a_clear_error(script, context, monkeypatch, compiled, tmp_path):
    from hakmem_lab.kinds.syscalls import syscalls

    program = compiled("calls.c")
    script("#!/bin/sh\necho 'strace: ptrace(PTRACE_TRACEME): Operation not permitted' >&2\nexit 1\n", "strace")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LabError, match=r"cannot trace programs here: .*not permitted.*SYS_PTRACE"):
        syscalls.run(spec([program, "{ops}"], ops=[10, 20]), context())


def test_a_target_that_is_missed_ninefold_is_not_passed(analyse):
    # 9e-8 calls per operation, against a target of 1e-8.
    result = analyse([{"mmap": 10}] * 3, [{"mmap": 100}] * 3, ops=(10**9, 2 * 10**9), budget=1e-8)
    assert result["verdict"] == "NO-GO" and result["syscalls"]["arms"][0]["per_op"] == pytest.approx(9e-8)


def test_no_call_in_too_few_operations_proves_nothing(analyse):
    result = analyse([{"mmap": 10}] * 2, [{"mmap": 10}] * 2, ops=(10**6, 3 * 10**6), budget=1e-8)
    assert result["verdict"] == "INCONCLUSIVE"
    # If no call was seen, the 95 % bound is 3 calls. So 3 / 1e-8 different operations are needed; repeats do not count.
    assert any("must differ by at least 3e+08" in text and "{seed}" in text for text in result["warnings"])
    enough = analyse([{"mmap": 10}] * 2, [{"mmap": 10}] * 2, ops=(10**6, 301 * 10**6), budget=1e-8)
    assert enough["verdict"] == "GO" and enough["warnings"] == []


@pytest.mark.parametrize("repeats", [2, 50])
def test_equal_operations_repeated_prove_no_more_than_once(analyse, repeats):
    (row,) = analyse([{"mmap": 10}] * repeats, [{"mmap": 10}] * repeats)["syscalls"]["arms"]
    assert row["upper_bound"] == pytest.approx(3.0 / 1000, rel=2e-3)
    assert row["operations"] == 1000


def test_repeats_of_different_operations_add_up(header):
    from hakmem_lab.kinds.syscalls import syscalls

    runs = [
        {"type": "run", "block": 2 * seed + (ops > 1000), "arm": "glibc", "ok": True, "length": length, "ops": ops,
         "calls": {"brk": 3}, "argv": ["p", str(ops), str(seed)]}
        for seed in range(3)
        for length, ops in (("short", 1000), ("long", 2000))
    ]  # fmt: skip
    top = header("syscalls", ops=[1000, 2000], budget=None, repeats=3, command=["p", "{ops}", "{seed}"])
    assert syscalls.analyse(top, runs)["syscalls"]["arms"][0]["operations"] == 3000


def test_a_seed_is_another_in_every_repeat_and_the_same_within_one():
    from hakmem_lab.kinds.syscalls import plan

    order = plan(spec(["true", "{ops}", "{seed}"], ops=[1, 2], repeats=3), ["a", "b"], 7)
    repeats = [order[start : start + 4] for start in (0, 4, 8)]
    assert all(len({execution.seed for execution in repeat}) == 1 for repeat in repeats)
    assert len({execution.seed for execution in order}) == 3
    assert order[0].values == {"{ops}": str(order[0].ops), "{seed}": str(order[0].seed)}
    assert plan(spec(["true", "{ops}"], ops=[1, 2], repeats=3), ["a", "b"], 7) == order


def test_counts_that_vary_give_a_range_and_leave_a_budget_inside_it_open(analyse):
    short = [{"futex": 10, "brk": 3}, {"futex": 30, "brk": 3}]
    long = [{"futex": 120, "brk": 3}, {"futex": 100, "brk": 3}]
    result = analyse(short, long, budget=0.09)
    (row,) = result["syscalls"]["arms"]
    assert (row["per_op"], row["least"], row["most"]) == pytest.approx((0.09, 0.07, 0.11))
    assert row["per_call"] == {"futex": pytest.approx(0.09)}
    assert row["per_call_range"] == {"futex": pytest.approx([0.07, 0.11])}
    assert result["verdict"] == "INCONCLUSIVE" and "is undecided" in result["answer"]


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"ops": [100, 10]}, "shorter one first"),
        ({"ops": [1, 2], "command": ["true"]}, "{ops}"),
        ({"command": ["true", "{ops}"]}, "'ops'"),
        ({"budget": 1e-8, "command": ["true"]}, "budget"),
        ({"repeats": 1, "command": ["true"]}, "repeats"),
        ({"opps": [1, 2], "command": ["true", "{ops}"]}, "'ops'"),
    ],
)
def test_mistakes_are_named(keys, word):
    with pytest.raises(LabError, match=r"s\.toml") as error:
        spec(**({"command": ["true", "{ops}"]} | keys))
    assert word in str(error.value)


def test_lengths_as_a_flag_gives_them():
    assert spec(["true", "{ops}"], ops="1000,2000").ops == [1000, 2000]
