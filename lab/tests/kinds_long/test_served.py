"""Soaks and counts of system calls of servers: a client drives the server, which is measured; failures are named."""

import shutil
import socket

import pytest

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
LINE = r"^answer (?P<operations>\d+)"


def soak_spec(fakes, mode="serve", command=None, **keys):
    from hakmem_lab.kinds.soak import SoakSpec
    from hakmem_lab.plan.model import build

    server = {"command": [str(fakes.server), "{port}", mode], "ready-timeout": "5s"}
    given = {"kind": "soak", "allocator": "glibc", "line": LINE, "duration": "2s", "sample-interval": "100ms"}
    client = command or [str(fakes.server), "{port}", "client"]
    return build(SoakSpec, given | {"server": server | keys.pop("server", {}), "command": client} | keys, "s.toml")


def test_a_soaked_server_is_sampled_and_its_client_runs_again_and_again(fakes, context, only_run):
    from hakmem_lab.kinds.soak import soak

    made = soak_spec(fakes, env={"FAKE_START_MIB": "20"}, budget="10000 MiB/h")
    result = soak.run(made, context())
    assert result["failures"] == [] and result["final"]
    taken = [record for record in only_run().records() if record["type"] == "sample"]
    assert len(taken) >= 10 and taken[-1]["operations"] == 42
    assert sum(sample["operations"] is not None for sample in taken) >= 2
    (run,) = [record for record in only_run().records() if record["type"] == "run"]
    assert run["ok"] and run["rss_peak_kib"] > 20 * 1024
    arm = result["arms"][0]
    assert arm["rss_mean_kib"] <= arm["rss_peak_kib"]


@pytest.mark.parametrize(
    ("mode", "why"),
    [("one-connection", "the server ended during the run: exit status 5"), ("deaf", "did not listen on port")],
)
def test_a_server_that_fails_fails_the_soak(fakes, context, only_run, mode, why):
    from hakmem_lab.errors import Stopped
    from hakmem_lab.kinds.soak import soak

    made = soak_spec(fakes, mode, server={"ready-timeout": "300ms"} if mode == "deaf" else {})
    try:
        soak.run(made, context())
    except Stopped as stopped:
        assert why in str(stopped)
    (run,) = [record for record in only_run().records() if record["type"] == "run"]
    assert not run["ok"] and why in run["why"]


def test_a_client_that_fails_fails_the_soak(fakes, script, context):
    from hakmem_lab.kinds.soak import soak

    client = script('#!/bin/sh\nsleep 1; echo "no use" >&2; exit 7\n')
    result = soak.run(soak_spec(fakes, command=[str(client)]), context())
    assert result["verdict"] == "NO-GO" and "client: exit status 7: no use" in result["answer"]


def test_one_client_for_the_whole_time_is_told_how_long(fakes, script, context, only_run):
    from hakmem_lab.kinds.soak import soak

    client = script('#!/bin/sh\necho "answer $1"\nsleep "$1"\n')
    soak.run(soak_spec(fakes, command=[str(client), "{seconds}"]), context())
    said = [r["operations"] for r in only_run().records() if r["type"] == "sample" and r["operations"] is not None]
    assert said == [2]


def calls_spec(fakes, client, **keys):
    from hakmem_lab.kinds.syscalls import SyscallsSpec
    from hakmem_lab.plan.model import build

    server = {"command": [str(fakes.server), "{port}", keys.pop("mode", "serve")], "ready-timeout": "5s"}
    given = {"kind": "syscalls", "allocators": ["glibc"], "repeats": 2, "ops": [5, 25], "server": server}
    return build(SyscallsSpec, given | {"command": client} | keys, "s.toml")


MANY = """#!/bin/sh
i=0; while test "$i" -lt "$3"; do "$1" "$2" client >/dev/null || exit 3; i=$((i + 1)); done
"""


@needs_strace
def test_the_calls_of_a_server_are_counted_and_not_those_of_its_client(fakes, script, context, only_run):
    from hakmem_lab.kinds.syscalls import syscalls

    client = [str(script(MANY)), str(fakes.server), "{port}", "{ops}"]
    result = syscalls.run(calls_spec(fakes, client), context())
    (row,) = result["syscalls"]["arms"]
    # A connection is one accept, one write and one close. The accept that SIGTERM interrupts may or may not be counted,
    # which is one call in the 20 between the short and the long run.
    assert row["per_call"] == {name: pytest.approx(1.0, abs=1.5 / 20) for name in ("accept", "write", "close")}
    assert result["failures"] == [] and result["final"]
    assert "connect" not in row["long"]["per_call"]


@needs_strace
def test_a_stubborn_server_is_killed_and_counted(fakes, monkeypatch):
    from hakmem_lab.kinds import syscalls as kind
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.run.workload import Workload

    monkeypatch.setattr(kind, "GRACE_S", 0.3)  # short, since this server ignores SIGTERM anyway
    made = calls_spec(fakes, [str(fakes.server), "{port}", "client", "{ops}"], mode="stubborn")
    with kind.TracedRunner(Workload.of(made)) as runner:
        calls, part = runner.counted(parse_arm("default"), {})
    assert part["why"] is None and calls["accept"] >= 1


@needs_strace
@pytest.mark.parametrize(
    ("mode", "client", "why"),
    [("serve", "exit 4", "client: exit status 4"), ("one-connection", "sleep 1", "the server ended during the run")],
)
def test_what_fails_stops_the_count(fakes, script, context, mode, client, why):
    from hakmem_lab.errors import Stopped
    from hakmem_lab.kinds.syscalls import syscalls

    command = [str(script(f"#!/bin/sh\n{client}\n")), "{ops}"]
    with pytest.raises(Stopped, match=why):
        syscalls.run(calls_spec(fakes, command, mode=mode), context())


def test_a_port_that_is_taken_is_named(fakes, context):
    from hakmem_lab.errors import Stopped
    from hakmem_lab.kinds.soak import soak

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Stopped, match=f"port {port} is in use"):
            soak.run(soak_spec(fakes, server={"port": port}), context())
