"""Real runs with failing arms: other arms are still measured, and how often an arm failed is stated."""

import json
import signal

import pytest

RATE = r"regex:ops (\d+)"
FAST = ("--repeat", "1", "--warm-up", "0", "--max-blocks", "10", "--seed", "3", "--quiet", "--json", "-")
# After its trial, every EVERY-th run ends by a signal: its own, that of a last child, or of a hidden one.
FLAKY = """#!/bin/sh
[ -n "$LD_DEBUG" ] && exit 0
if [ -n "$EVERY" ]; then
  n=0; [ -s "$COUNT" ] && read -r n < "$COUNT"; n=$((n + 1)); echo $n > "$COUNT"
  if [ $n -gt 1 ] && [ $((n % EVERY)) = 0 ]; then
    case "$HOW" in
      last) sh -c 'kill -SEGV $$' ; exit $? ;;
      hidden) sh -c 'kill -SEGV $$' ; true ;;
      *) kill -SEGV $$ ;;
    esac
  fi
fi
echo "ops ${RATE:-1000}"
"""


@pytest.fixture
def flaky(here):
    """flaky(kind, words…, program): the answer of hak about this program."""

    def call(kind, *words, program):
        return here(kind, *words, "--metric", RATE, "--higher-is-better", *FAST, "--", program)

    return call


@pytest.fixture
def crashing(modelled):
    """crashing(line): a program as FLAKY is, that prints this line with variables in it."""

    def make(line):
        marked = []

        def model(run):
            marked.append(run) if "EVERY" in run.env else None
            if "EVERY" in run.env and len(marked) > int(run.env["FROM"]) and len(marked) % int(run.env["EVERY"]) == 0:
                return {"exit": None, "signal": signal.SIGSEGV}
            return {"stdout": line.format_map({"RATE": 1000, "TAIL": 50000} | run.env)}

        return modelled(model)

    return make


@pytest.mark.parametrize("how", ["self", "last", "hidden"])
def test_an_ab_of_a_treatment_that_crashes_now_and_then(flaky, tmp_path, how):
    """Also if a child of a shell crashes, and the shell goes on as if nothing had happened."""
    program = tmp_path / "flaky.sh"
    program.write_text(FLAKY)
    program.chmod(0o755)
    words = ["--control", "glibc", "--treatment", f"glibc,RATE=1200,EVERY=7,HOW={how}", "--looks", "1"]
    answer = flaky("ab", *words, "--env", f"COUNT={tmp_path / 'count'}", program=program)
    result = answer.result()
    assert (answer.status, result["verdict"]) == (0, "GO")
    assert "failed" in result["answer"] and "glibc never: chance may explain it." in result["answer"]
    assert len(result["failures"]) >= 2


@pytest.mark.parametrize("since", [0, 1], ids=["from its trial on", "from its second run on"])
def test_one_flaky_arm_leaves_and_the_others_are_measured_to_the_end(flaky, crashing, records, since):
    arms = ["glibc", f"glibc,RATE=1200,EVERY=1,FROM={since}", "glibc,RATE=1100"]
    answer = flaky("compare", "--allocators", *arms, program=crashing("ops {RATE}"))
    assert answer.status == 0, answer.err
    result = answer.result()
    verdicts = {row["treatment"]: row["verdict"] for row in result["comparisons"] if row["verdict"]}
    assert verdicts == {"glibc,RATE=1100": "GO"} and result["final"]
    assert f"{arms[1]} failed 3 times (killed by SIGSEGV), glibc never" in result["answer"]
    assert [event["arm"] for event in records("event", what="gone")] == [arms[1]]
    assert any("takes no further part" in text for text in result["warnings"])


def test_a_comparison_ends_where_its_baseline_fails(flaky, crashing):
    bad = "glibc,EVERY=1,FROM=1"
    words = ["--allocators", bad, "glibc,RATE=1100", "glibc", "--baseline", bad]
    answer = flaky("compare", *words, program=crashing("ops {RATE}"))
    assert answer.status == 3 and "failed 3 times in block 0" in answer.err


@pytest.mark.parametrize("since", [0, 1], ids=["from its trial on", "from its second run on"])
def test_a_sweep_chooses_among_those_that_do_not_fail(here, crashing, tmp_path, since):
    spec = {"kind": "sweep", "command": [str(crashing("ops {RATE}"))], "metric": RATE, "higher-is-better": True,
            "default": "glibc",
            "candidates": {"bad": f"glibc,RATE=1300,EVERY=1,FROM={since}", "good": "glibc,RATE=1100",
                           "same": "glibc,RATE=1001"},
            "repeat": 1, "warm-up": 0, "select-blocks": 2, "max-blocks": 8,
            "looks": 1}  # fmt: skip
    lines = [f"{key} = {json.dumps(value)}" for key, value in spec.items() if not isinstance(value, dict)]
    lines += ["[candidates]", *(f"{key} = {json.dumps(value)}" for key, value in spec["candidates"].items())]
    (tmp_path / "sweep.toml").write_text("\n".join(lines))
    answer = here("sweep", tmp_path / "sweep.toml", "--json", "-", "--quiet")
    assert answer.status == 0, answer.err
    result = answer.result()
    assert (result["selection"]["chosen"], result["verdict"]) == ("good", "GO")


@pytest.mark.parametrize("since", [0, 1], ids=["from its trial on", "from its second run on"])
def test_one_flaky_arm_leaves_a_latency_run_and_the_others_are_measured(here, crashing, tmp_path, records, since):
    program = crashing("response {TAIL} 10000")
    arms = ["glibc", f"glibc,TAIL=10,EVERY=1,FROM={since}", "glibc,TAIL=30000"]
    (tmp_path / "spec.toml").write_text(
        f'kind = "latency"\ncommand = ["{program}"]\nallocators = {json.dumps(arms)}\nmax-blocks = 10\nseed = 1\n'
    )
    answer = here("latency", tmp_path / "spec.toml", "--json", "-", "--quiet")
    assert answer.status == 0, answer.err
    result = answer.result()
    assert {row["treatment"]: row["verdict"] for row in result["comparisons"] if row["verdict"]} == {arms[2]: "GO"}
    assert f"{arms[1]} failed 3 times (killed by SIGSEGV), glibc never" in result["answer"]
    assert [event["arm"] for event in records("event", what="gone")] == [arms[1]]
