"""`hak replay --by stack`: a block's time belongs to its stack, and few of the many tests give wrong answers."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.kinds.replay import result as by_stack
from hakmem_lab.show.kinds.replay import stack_rows
from hakmem_lab.trace import replayer

MALLOC, FREE, FREE_FOREIGN, REALLOC, WAIT, STACK = 0, 3, 4, 5, 8, 10
MAPPED = "glibc,MALLOC_MMAP_THRESHOLD_=65536"  # plain glibc adapts and stops mapping short-lived blocks
LOOK = ("--allocators", "glibc", MAPPED, "--repeat", "1", "--max-blocks", "8", "--alpha", "0.1", "--quiet",
        "--seed", "7")  # fmt: skip


def stacks_of(trace: Path, mean: int) -> dict[int, list]:
    """Stack node -> [samples, blocks, ns], as the replay reports it."""
    done = subprocess.run([replayer(), f"--stacks={mean}", trace], capture_output=True, text=True, check=True)
    return {node: rest for node, *rest in json.loads(done.stdout.splitlines()[0])["stacks"]}


def test_whose_block_it_is(written):
    """A stack applies only to the next allocation. A reallocation ends one block and begins one of the new stack. Frees
    count for the block's stack, whichever thread frees."""
    lines = [
        *(f"o 0 0 {STACK} 0 0 5 0", f"o 0 0 {MALLOC} 100 0 0 0", f"o 0 0 {MALLOC} 100 1 0 0"),
        *(f"o 0 0 {STACK} 0 0 6 0", f"o 0 0 {REALLOC} 200 0 0 0", f"o 0 0 {REALLOC} 300 0 0 0"),
        *(f"o 0 0 {STACK} 0 0 7 0", f"o 0 0 {FREE} 0 1 0 0", f"o 0 0 {MALLOC} 100 1 0 0"),
        *(f"o 0 1 {WAIT} 9 0 0 0", f"o 0 1 {FREE_FOREIGN} 0 1 0 0", f"o 0 0 {FREE} 0 0 0 0"),
        'e 1 {"processes": []}',
    ]
    found = stacks_of(written(lines), 1)
    assert {node: row[:2] for node, row in found.items()} == {5: [1, 1], 6: [1, 1], 7: [1, 1]}


@pytest.mark.parametrize(("size", "mean"), [(100, 1 << 19), (1 << 20, 1 << 19), (64, 64)])
def test_a_sample_stands_for_as_many_as_it_does_in_the_trace(written, size, mean):
    lines = [f"o 0 0 {STACK} 0 0 5 0", f"o 0 0 {MALLOC} {size} 0 0 0", 'e 1 {"processes": []}']
    assert stacks_of(written(lines), mean)[5][1] == pytest.approx(-1 / np.expm1(-size / mean), rel=1e-3)


def test_which_code_gains(hak, here, tmp_path):
    program, trace, page = tmp_path / "gains", tmp_path / "gains.trace", tmp_path / "page.html"
    source = Path(__file__).parent / "gains.c"
    subprocess.run(["cc", "-w", "-O1", "-fno-builtin", "-o", program, source], check=True)
    assert hak("record", "--stacks", "--rate", "1", "-o", trace, "--", program).status == 0
    result = here("replay", trace, "--by", "stack", *LOOK, "--json", "-").result()
    found = result["replay"]["stacks"]
    rows = {row["frames"][0]: row for row in found["rows"]}
    assert (rows["large"]["calls"], rows["small"]["calls"]) == (300, 10_000)
    base, mapped = rows["large"]["arms"]
    assert (base["arm"], mapped["arm"], mapped["verdict"]) == ("glibc", MAPPED, "NO-GO")
    assert mapped["ci_high"] < 0 and mapped["gain_s"] == pytest.approx(300 * (base["ns"] - mapped["ns"]) / 1e9)
    assert found["rows"][-1]["frames"][0] == "large"  # where most is lost
    shown = here("show", "last").out
    assert "NO-GO" in shown and "large ← main" in shown
    assert here("report", "last", "-o", page).status == 0
    assert "large ← main" in page.read_text(encoding="utf-8")


def test_a_trace_without_stacks_says_what_to_do(here, written):
    path = written([f"o 0 0 {MALLOC} 64 0 0 0", 'e 1 {"processes": []}'])
    answer = here("replay", path, "--by", "stack", *LOOK)
    assert answer.status == 2 and "hak record --stacks" in answer.message()
    assert here("replay", path, "--by", "size", *LOOK).status == 2


def test_of_all_stacks_and_arms_together_few_are_wrong():
    rng, simulations, stacks, arms = np.random.default_rng(81), 300, 5, 3
    wrong = 0
    for _ in range(simulations):
        cells = rng.standard_t(3, size=(stacks, 12, arms + 1)) * 0.1
        columns = {(row, str(arm)): cells[row, :, arm] - cells[row, :, arms]
                   for row in range(stacks) for arm in range(arms)}  # fmt: skip
        found = by_stack.judged(columns, stacks * arms, 0.01, 0.2)
        wrong += any(decision.verdict in ("GO", "NO-GO") for decision in found.values())
    assert 0 < wrong <= binom.ppf(0.999, simulations, 0.2)


def test_what_is_shown_of_a_stack_is_judged_with_all_of_them():
    """A stack that alone is better stays open among so many that these few blocks cannot decide."""
    columns = {(0, "a"): np.full(8, 0.5)}
    assert by_stack.judged(columns, 10, 0.01, 0.1)[0, "a"].verdict == "GO"
    assert by_stack.judged(columns, 20, 0.01, 0.1)[0, "a"].verdict == "INCONCLUSIVE"


def test_an_interval_that_the_store_keeps_open_is_left_out():
    arm = {"arm": "b", "ns": 20.0, "low": None, "high": 30.0, "estimate": 0.1, "ci_low": None, "ci_high": None,
           "gain_s": 0.5, "verdict": "INCONCLUSIVE"}  # fmt: skip
    (row,) = stack_rows({"rows": [{"frames": ["f"], "arms": [arm]}]})
    assert row[2] == "20.0 ns"
