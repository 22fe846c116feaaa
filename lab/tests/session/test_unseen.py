"""A GO says how rare events it may have missed, and `--rare` runs enough blocks to see rarer ones."""

import numpy as np
import pytest
from tests.analysis.test_results import AB, ab_records, header

from hakmem_lab.judge import explain, unseen

RATE = r"regex:ops (\d+)"
FAST = ("--repeat", "1", "--warm-up", "0", "--quiet", "--json", "-", "--higher-is-better", "--metric", RATE)


def test_every_go_says_which_slow_runs_it_cannot_have_seen() -> None:
    from hakmem_lab.designs.contrasts import ab

    result = ab.analyse(header("ab", ["c", "t"], **AB), ab_records(12))
    assert result["verdict"] == "GO" and unseen.one_in(result) == 8  # 24 runs of each
    assert explain.explain(result).more.endswith("Slow or failing runs rarer than 1 in 8 would not have been seen.")
    none = ab.analyse(header("ab", ["c", "t"], **AB), ab_records(12, treatment=1.2))
    assert none["verdict"] == "NO-GO" and "would not have been seen" not in explain.explain(none).more


@pytest.mark.parametrize(("runs", "said"), [(4, "So few runs"), (5, "So few runs"), (6, "rarer than 1 in 2 ")])
def test_few_runs_exclude_nothing(runs: int, said: str) -> None:
    (text,) = unseen.unseen({"comparisons": [{"verdict": "GO", "runs_each": runs}]})
    assert said in text and "1 in 1 " not in text


@pytest.mark.parametrize("runs", [16, 60, 300, 1500])
def test_what_is_said_to_be_seen_is_missed_in_at_most_alpha(runs: int) -> None:
    """An event happens to one in N runs, with N = runs / 3. Counts how many of 3,000 simulated arms miss it."""
    rng = np.random.default_rng(runs)
    share = 1 / max(1, runs // 3)
    assert (rng.binomial(runs, share, 3000) == 0).sum() <= 180


@pytest.mark.parametrize(("kind", "arms", "blocks"), [("ab", 2, 15), ("compare", 3, 30)])
def test_as_many_blocks_are_run_as_see_what_is_rare(here, counted, kind, arms, blocks):
    """Events in 10 % of the runs need 3 / 10 % = 30 runs of each arm, even if the verdict is clear before."""
    names = ["glibc", "glibc,RATE=1100", "glibc,RATE=1200"][:arms]
    words = ["--control", names[0], "--treatment", names[1]] if kind == "ab" else ["--allocators", *names]
    result = here(kind, *words, *FAST, "--rare", "10%", "--max-blocks", "12", "--", counted).result()
    assert result["blocks"] == blocks and result["slow_runs_unseen_one_in"] == 10
