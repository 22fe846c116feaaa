"""From the command line of hak tune to the line for a service file, on programs with known figures."""

import json
import shlex
import signal
import subprocess

import pytest

# Prints the figures that its variables give, and hangs at an execution.
SCRIPT = """#!/bin/sh
echo >> "{folder}/count"
[ "$(wc -l < "{folder}/count")" = "${{HANG:-0}}" ] && exec sleep 60
echo "ops ${{RATE:-1000}}"
echo "p99 ${{TAIL:-100}} us"
"""
READ = ["--read", r"ops=regex:ops (\d+)", "--read", r"p99=regex:p99 (\d+) us"]
MOST = ["--most", "ops"]
FAST = ["--repeat", "1", "--max-blocks", "8", "--set", "looks=1"]
ARMS = ["glibc,RATE=1100", "glibc,RATE=1300,TAIL=103", "glibc,RATE=900", "glibc,RATE=1010"]


def printing(run) -> dict:
    """An execution of SCRIPT, which may also fail, take longer, or print another tail from some execution on."""
    n, env = run.number, {"SLOW": 99999, "BREAK": 99999, "RATE": 1000, "LATE": 0, "TAIL": 100} | run.env
    if n >= int(env["BREAK"]):
        return {"exit": 7}
    tail = 100 if n < int(env["LATE"]) else env["TAIL"]
    slow = int(env["SLOW"]) <= n < 18
    return {"stdout": f"ops {env['RATE']}\np99 {tail} us\n", "wall_s": 0.42 if slow else 0.02}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "prog.sh"
    path.write_text(SCRIPT.format(folder=tmp_path))
    path.chmod(0o755)
    return path


@pytest.fixture
def tune(here, modelled, program):
    """tune(flags…): the answer of a tuning of four arms with known figures, of which no execution is a process."""
    modelled(printing, program.name)

    def call(*flags, arms=ARMS, aim=MOST, out=("--quiet", "--json", "-")):
        return here("tune", *READ, *aim, *FAST, *flags, "--allocators", *arms, *out, "--", program)

    return call


def test_the_best_candidate_wins_on_fresh_runs(tune, records):
    result = tune().result()
    assert (result["verdict"], result["final"]) == ("GO", True)
    assert result["selection"]["chosen"] == result["tune"]["use"] == "glibc,RATE=1300,TAIL=103"
    assert result["estimate"] == pytest.approx(0.3)
    assert result["headline"].startswith("Use glibc,RATE=1300,TAIL=103: ")
    assert [(rung["blocks"], rung["arms"]) for rung in result["tune"]["rungs"]] == [(2, 4), (6, 2)]
    orders = [set(block["order"]) for block in records("block", phase="select")]
    assert orders == [{"default", *ARMS}] * 2 + [{"default", *ARMS[:2]}] * 4
    confirmed = [set(block["order"]) for block in records("block", phase="confirm")]
    assert confirmed == [{"default", ARMS[1]}] * result["blocks"]


def test_a_candidate_that_breaks_a_limit_is_not_chosen(tune):
    result = tune("--subject-to", "p99=+2%").result()
    assert (result["verdict"], result["tune"]["use"]) == ("GO", "glibc,RATE=1100")
    (rail,) = result["guardrails"]
    assert (rail["metric"], rail["status"], rail["limit"]) == ("p99", "held", pytest.approx(0.02))


def test_a_limit_vetoes_the_winner(tune):
    """If all candidates break the limit, the one that breaks it least is confirmed like a winner, and refused."""
    arms = ["glibc,RATE=1300,TAIL=110", "glibc,RATE=1200,TAIL=105"]
    result = tune("--subject-to", "p99=+2%", arms=arms).result()
    assert result["verdict"] == "NO-GO"
    assert [(rail["metric"], rail["status"]) for rail in result["guardrails"]] == [("p99", "failed")]
    assert (result["tune"]["use"], result["tune"]["service"]) == (None, None)
    assert result["headline"].startswith("Stay with default: ")
    assert "breaks the limit on p99" in result["headline"]


def test_where_the_winner_is_refused_the_next_best_is_named(tune):
    """The winner breaks its limit only in the confirmation. hak names the next best candidate, without a verdict."""
    arms = ["glibc,RATE=1300,TAIL=110,LATE=15", "glibc,RATE=1200"]
    result = tune("--subject-to", "p99=+2%", arms=arms).result()
    assert (result["verdict"], result["tune"]["use"]) == ("NO-GO", None)
    assert result["tune"]["runner_up"] == {"arm": arms[1], "estimate": pytest.approx(0.2), "blocks": 2}
    (note,) = [text for text in result["tune"]["notes"] if "next best" in text]
    assert f"was {arms[1]}, better by about 20.0 % in the 2 blocks" in note
    assert f"--allocators {arms[1]} confirms it" in note


@pytest.mark.parametrize(
    ("arms", "told"),
    [
        (["glibc,RATE=1300", "glibc,RATE=1200"], False),
        (["glibc,RATE=1300,BREAK=15", "glibc,RATE=1200"], True),
        (["glibc,RATE=1300,TAIL=110,LATE=15", "glibc,RATE=1200,TAIL=110"], False),
        (["glibc,RATE=1300,TAIL=110,LATE=15", "glibc,RATE=1005"], False),
    ],
)
def test_the_next_best_is_named_where_it_promises_something(tune, here, arms, told):
    """The next best is named if the winner fails in the confirmation, but not beside a winner, nor if it broke a limit
    itself or its gain would not matter."""
    answer = tune("--subject-to", "p99=+2%", arms=arms)
    assert answer.status == (3 if told else 0)
    result = here("show", "last", "--json", "-").result()
    assert any("next best" in text for text in result["tune"]["notes"]) == told
    broke = f"Not confirmed, stay with default: {arms[0]} failed in block "
    assert result["headline"].startswith(broke) == told


@pytest.mark.parametrize(("fall", "use"), [("-5%", "glibc,TAIL=80,RATE=960"), ("-20%", "glibc,TAIL=50,RATE=900")])
def test_a_rate_may_fall_by_so_much(tune, fall, use):
    """One arm has 4 % fewer operations and a tail of 80 µs, the other 10 % fewer and a tail of 50 µs."""
    arms = ["glibc,TAIL=80,RATE=960", "glibc,TAIL=50,RATE=900"]
    result = tune("--subject-to", f"ops={fall}", arms=arms, aim=["--least", "p99"]).result()
    assert (result["verdict"], result["tune"]["use"]) == ("GO", use)
    assert result["metric"]["name"] == "p99" and result["guardrails"][0]["status"] == "held"


@pytest.mark.parametrize(
    ("arms", "verdict", "says"),
    [
        (
            ["glibc,RATE=900", "glibc,RATE=800"],
            "NO-GO",
            "glibc,RATE=900 ops 10.0 % lower than default [",
        ),
        (
            ["glibc,RATE=900", "glibc,OTHER=1"],
            "NEUTRAL",
            "the best of 2 candidates, glibc,OTHER=1, is within the margin",
        ),
    ],
)
def test_nothing_helps(tune, arms, verdict, says):
    answer = tune(arms=arms)
    result = answer.result()
    assert (answer.status, result["verdict"], result["tune"]["service"]) == (0, verdict, None)
    assert result["headline"].startswith("Stay with default: ")
    assert says in result["headline"]


def test_nothing_helps_is_no_go_for_require(tune):
    assert tune("--require", "GO", arms=["glibc,RATE=900"]).status == 1


def test_a_single_candidate_is_confirmed_at_once(tune, records):
    result = tune(arms=["glibc,RATE=1200"]).result()
    assert (result["verdict"], result["tune"]["rungs"]) == ("GO", [])
    assert not records("block", phase="select")


def test_the_terminal_ends_with_the_line_for_the_service(tune, fakes, program):
    answer = tune(arms=[f'{fakes.allocator},RATE=1200,FAKE_TEXT=a "b" 5%'], out=("--quiet",))
    lines = answer.out.splitlines()
    assert any(line.startswith("GO  Use ") for line in lines)
    assert lines[-4:-2] == [
        "In the [Service] section of the unit:",
        f'Environment="LD_PRELOAD={fakes.allocator}" "RATE=1200" "FAKE_TEXT=a \\"b\\" 5%%"',
    ]
    words = shlex.split(lines[-1])
    assert words == [f"LD_PRELOAD={fakes.allocator}", "RATE=1200", 'FAKE_TEXT=a "b" 5%', str(program)]
    done = subprocess.run(["sh", "-c", lines[-1]], capture_output=True, text=True, check=True)
    assert "ops 1200" in done.stdout


def test_the_line_takes_the_settings_of_the_default_away(tune):
    answer = tune("--default", "glibc,RATE=500", arms=["glibc,TAIL=1"], out=("--quiet",))
    *_, first, line, second, shell = answer.out.splitlines()[-6:]
    assert (first, line) == ("and below it, so that what it runs on now is gone:", "UnsetEnvironment=RATE")
    assert second == "In a shell:" and shell.startswith("env -u RATE TAIL=1 ")
    alone = tune("--default", "glibc,RATE=500", arms=["glibc"], out=("--quiet",)).out
    assert "In the [Service] section of the unit:\nUnsetEnvironment=RATE\n" in alone
    assert "\nEnvironment=" not in alone


def test_a_candidate_that_fails_takes_no_further_part(tune, records):
    arms = ["glibc,RATE=1100", "glibc,RATE=2000,BREAK=8", "glibc,RATE=3000,BREAK=1"]
    answer = tune(arms=arms)
    result = answer.result()
    assert (result["verdict"], result["tune"]["use"]) == ("GO", "glibc,RATE=1100")
    assert arms[2] not in [arm["name"] for arm in records("header")[0]["arms"]]
    first, second = result["tune"]["left_out"]
    assert first.startswith(f"{arms[2]} is left out: exit status 7")
    assert second.startswith(f"{arms[1]} failed in block ")
    assert "(exit status 7)" in second


def test_a_budget_that_ends_early_chooses_from_what_there_is(tune, records):
    """The trials are quick, but the first blocks take four times as long as half of the budget allows."""
    result = tune("--env", "SLOW=6", "--budget", "3s").result()
    (note,) = [note for note in result["tune"]["notes"] if "half of the budget was over" in note]
    (rung,) = result["tune"]["rungs"]
    assert rung["arms"] == 4 and rung["kept"] == [result["selection"]["chosen"]] == ["glibc,RATE=1300,TAIL=103"]
    assert f"after {rung['blocks']} blocks" in note
    assert rung["blocks"] == len(records("block", phase="select")) <= 2
    assert result["verdict"] == "GO"


def test_where_the_default_fails_nothing_is_stored(tune, store):
    answer = tune("--env", "BREAK=1")
    assert answer.status == 2 and answer.message().startswith("hak: default: ")
    assert not store.exists()


def test_one_verdict_and_each_reason_on_one_line(tune):
    """What a user reads: candidates that are left out for one reason share a line, and nothing is said twice."""
    arms = ["glibc,RATE=1001", *(f"glibc,BREAK=1,N={n}" for n in range(12))]
    answer = tune(arms=arms, out=())
    said = [*answer.err.splitlines(), *answer.out.splitlines()]
    left_out = [line for line in said if "left out" in line]
    assert len(left_out) == 2 and "and 8 more are left out: exit status 7" in left_out[0]  # at once, and in the result
    assert not any(line.startswith("warning: ") for line in left_out)
    verdicts = ("NEUTRAL", "INCONCLUSIVE", "GO", "NO-GO")
    (verdict,) = [line for line in answer.out.splitlines() if line.startswith(verdicts)]
    assert verdict.startswith("NEUTRAL  Stay with default: ")
    rows = [line for line in answer.out.splitlines() if "too few blocks" in line]
    assert len(rows) <= 1


@pytest.mark.parametrize("at", [8, 17, 26])
def test_killed_in_the_middle_and_resumed_as_if_nothing_had_happened(begin, here, program, tmp_path, until, at, store):
    """The kill happens in the first rung, in the second one, or in the confirmation."""
    words = ["tune", *READ, *MOST, *FAST, "--seed", "5", "--quiet", "--env", f"HANG={at}", "--allocators", *ARMS]
    process = begin(*words, "--", program)
    count = tmp_path / "count"
    until(lambda: count.exists() and len(count.read_text()) >= at)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = next(store.glob("*.jsonl")).read_bytes()
    resumed = here("resume", "last", "--quiet", "--json", "-").result()
    assert next(store.glob("*.jsonl")).read_bytes().startswith(kept)
    assert (resumed["verdict"], resumed["tune"]["use"]) == ("GO", ARMS[1])
    other = tmp_path / "undisturbed"
    whole = here(*words, "--store", other, "--json", "-", "--", program).result()
    assert whole["tune"]["rungs"] == resumed["tune"]["rungs"]
    orders = [
        [r["order"] for r in map(json.loads, next(folder.glob("*.jsonl")).read_text().splitlines()) if r.get("order")]
        for folder in (store, other)
    ]
    assert [order for order in orders[0] if order] == orders[1]


def test_shown_listed_and_reported(tune, here, tmp_path):
    run = tune().result()["run"]
    shown = here("show", "last", "--json", "-").result()
    assert shown["tune"]["service"]["environment"] == {"RATE": "1300", "TAIL": "103"}
    assert "tune" in here("list").out
    page = tmp_path / "report.html"
    assert here("report", run, "-o", page).status == 0
    text = page.read_text()
    assert "Use glibc,RATE=1300,TAIL=103" in text and "Candidates, and the one confirmed" in text
    line = 'Environment="RATE=1300" "TAIL=103"'
    assert line.replace('"', "&#34;") in text
    markdown = here("show", run, "--format", "markdown").out
    assert markdown.startswith("### GO: Use glibc,RATE=1300,TAIL=103") and f"`{line}`" in markdown
    for name in ("junit", "github", "openmetrics"):
        assert here("show", run, "--format", name).status == 0


def test_of_many_candidates_those_that_came_furthest_are_shown(tune):
    arms = [f"glibc,RATE={rate}" for rate in range(1010, 1250, 10)]
    out = tune("--set", "select-blocks=1", arms=arms, out=("--quiet",)).out
    assert out.count("… and 14 more: hak runs report") == 2
    assert "glibc,RATE=1240" in out and "glibc,RATE=1010" not in out


@pytest.mark.long
def test_a_real_tuning_of_a_real_program(here, tmp_path):
    """glibc maps blocks of 40 MiB anew every time; options that retain them, and huge pages, save page faults."""
    source = tmp_path / "holds.c"
    source.write_text(
        "#include <stdlib.h>\n#include <string.h>\nint main(void) {\n  for (int i = 0; i < 2; i++) {\n"
        "    char *p = malloc(40 << 20);\n    memset(p, 1, 40 << 20);\n    free(p);\n  }\n  return 0;\n}\n"
    )
    program = tmp_path / "holds"
    subprocess.run(["cc", "-O0", "-o", program, source], check=True)
    flags = ["--least", "faults", "--subject-to", "rss=+20%", "--allocators", "glibc,hakmem", "--max-blocks", "6"]
    cheap = ["--repeat", "1", "--set", "looks=1", "--set", "select-blocks=1", "--quiet", "--json", "-"]
    result = here("tune", *flags, *cheap, "--", program).result()
    assert result["verdict"] == "GO" and result["estimate"] > 0.3
    tune = result["tune"]
    assert tune["candidates"] > 25 and tune["rungs"][0]["arms"] == tune["candidates"]
    environment = tune["service"]["environment"]
    allocator, _, settings = tune["use"].partition(",")
    given = dict(each.split("=", 1) for each in settings.split(",") if each)
    assert given.items() <= environment.items() and set(environment) - set(given) <= {"LD_PRELOAD"}
    assert ("libhakmem" in environment.get("LD_PRELOAD", "")) == (allocator == "hakmem")
    assert tune["service"]["systemd"].startswith('Environment="')
    assert str(program) in tune["service"]["shell"]
