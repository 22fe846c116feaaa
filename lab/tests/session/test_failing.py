"""Real runs with failing arms: other arms are still measured, and how often an arm failed is stated."""

import json

import pytest

RATE = r"regex:ops (\d+)"
FAST = ("--repeat", "1", "--warm-up", "0", "--max-blocks", "10", "--seed", "3", "--quiet", "--json", "-")
# After run FROM (1, the trial), every EVERY-th run ends by a signal: its own, that of a last child, or of a hidden one.
FLAKY = """#!/bin/sh
[ -n "$LD_DEBUG" ] && exit 0
if [ -n "$EVERY" ]; then
  n=0; [ -s "$COUNT" ] && read -r n < "$COUNT"; n=$((n + 1)); echo $n > "$COUNT"
  if [ $n -gt ${FROM:-1} ] && [ $((n % EVERY)) = 0 ]; then
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
def flaky(here, tmp_path):
    program = tmp_path / "flaky.sh"
    program.write_text(FLAKY)
    program.chmod(0o755)

    def call(kind, *words):
        settings = ["--env", f"COUNT={tmp_path / 'count'}", "--metric", RATE, "--higher-is-better"]
        return here(kind, *words, *settings, *FAST, "--", program)

    return call


@pytest.mark.parametrize("how", ["self", "last", "hidden"])
def test_an_ab_of_a_treatment_that_crashes_now_and_then(flaky, how):
    """Also if a child of a shell crashes, and the shell goes on as if nothing had happened."""
    answer = flaky("ab", "--control", "glibc", "--treatment", f"glibc,RATE=1200,EVERY=7,HOW={how}", "--looks", "1")
    result = answer.result()
    assert (answer.status, result["verdict"]) == (0, "GO")
    assert "failed" in result["answer"] and "glibc never: chance may explain it." in result["answer"]
    assert len(result["failures"]) >= 2


@pytest.mark.parametrize("since", [0, 1], ids=["from its trial on", "from its second run on"])
def test_one_flaky_arm_leaves_and_the_others_are_measured_to_the_end(flaky, records, since):
    arms = ["glibc", f"glibc,RATE=1200,EVERY=1,FROM={since}", "glibc,RATE=1100"]
    answer = flaky("compare", "--allocators", *arms)
    assert answer.status == 0, answer.err
    result = answer.result()
    verdicts = {row["treatment"]: row["verdict"] for row in result["comparisons"] if row["verdict"]}
    assert verdicts == {"glibc,RATE=1100": "GO"} and result["final"]
    assert f"{arms[1]} failed 3 times (killed by SIGSEGV), glibc never" in result["answer"]
    assert [event["arm"] for event in records("event", what="gone")] == [arms[1]]
    assert any("takes no further part" in text for text in result["warnings"])


def test_a_comparison_ends_where_its_baseline_fails(flaky):
    answer = flaky(
        "compare", "--allocators", "glibc,EVERY=1", "glibc,RATE=1100", "glibc", "--baseline", "glibc,EVERY=1"
    )
    assert answer.status == 3 and "failed 3 times in block 0" in answer.err


@pytest.mark.parametrize("since", [0, 1], ids=["from its trial on", "from its second run on"])
def test_a_sweep_chooses_among_those_that_do_not_fail(here, tmp_path, since):
    program = tmp_path / "flaky.sh"
    program.write_text(FLAKY)
    program.chmod(0o755)
    spec = {"kind": "sweep", "command": [str(program)], "metric": RATE, "higher-is-better": True, "default": "glibc",
            "candidates": {"bad": f"glibc,RATE=1300,EVERY=1,FROM={since}", "good": "glibc,RATE=1100",
                           "same": "glibc,RATE=1001"},
            "env": {"COUNT": str(tmp_path / "count")}, "repeat": 1, "warm-up": 0, "select-blocks": 2, "max-blocks": 8,
            "looks": 1}  # fmt: skip
    lines = [f"{key} = {json.dumps(value)}" for key, value in spec.items() if not isinstance(value, dict)]
    for name in ("candidates", "env"):
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in spec[name].items())]
    (tmp_path / "sweep.toml").write_text("\n".join(lines))
    answer = here("sweep", tmp_path / "sweep.toml", "--json", "-", "--quiet")
    assert answer.status == 0, answer.err
    result = answer.result()
    assert (result["selection"]["chosen"], result["verdict"]) == ("good", "GO")


@pytest.mark.parametrize("since", [0, 1], ids=["from its trial on", "from its second run on"])
def test_one_flaky_arm_leaves_a_latency_run_and_the_others_are_measured(here, tmp_path, records, since):
    program = tmp_path / "flaky.sh"
    program.write_text(FLAKY.replace("ops ${RATE:-1000}", "response ${TAIL:-50000} 10000"))
    program.chmod(0o755)
    arms = ["glibc", f"glibc,TAIL=10,EVERY=1,FROM={since}", "glibc,TAIL=30000"]
    (tmp_path / "spec.toml").write_text(
        f'kind = "latency"\ncommand = ["{program}"]\nallocators = {json.dumps(arms)}\nmax-blocks = 10\nseed = 1\n'
        f'env = {{COUNT = "{tmp_path / "count"}"}}\n'
    )
    answer = here("latency", tmp_path / "spec.toml", "--json", "-", "--quiet")
    assert answer.status == 0, answer.err
    result = answer.result()
    assert {row["treatment"]: row["verdict"] for row in result["comparisons"] if row["verdict"]} == {arms[2]: "GO"}
    assert f"{arms[1]} failed 3 times (killed by SIGSEGV), glibc never" in result["answer"]
    assert [event["arm"] for event in records("event", what="gone")] == [arms[1]]
