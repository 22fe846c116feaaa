"""Two variants of a library, paired inside one process: the header hak_pairs.h, and how often verdicts are right."""

import json
import subprocess

import numpy as np
import pytest
from scipy.stats import wilcoxon
from tests.statistics.noise_kinds import KINDS

from hakmem_lab.judge.statistics.paired import paired_interval

PROGRAM = r"""
#include <stdio.h>
#include "hak_pairs.h"
static int entered = -1, calls;
static char order[1 << 20];
static volatile unsigned sink;
static void enter(void *context, int side) { (void)context; entered = side; }
static void region(void *context, int side, size_t times) {
  if (*(int *)context != 7 || entered != side) { fprintf(stderr, "side %d entered %d\n", side, entered); }
  if (calls < (int)sizeof order - 1) { order[calls++] = (char)('0' + side); }
  while (times--) { for (int i = 0; i < 100; i++) { sink++; } }
}
int main(void) {
  int seven = 7;
  hak_pairs_t pairs = {{"the \"old\"", "new"}, region, enter, &seven, 0.05};
  int status = hak_pairs(&pairs, stdout);
  fprintf(stderr, "%s", order);
  return status;
}
"""


def written(tmp_path, control, treatment):
    rows = [{"name": name, "wall_ns": [*values], "cpu_ns": [value // 2 for value in values]}
            for name, values in (("old", control), ("new", treatment))]  # fmt: skip
    (tmp_path / "pairs.json").write_text(json.dumps({"hak_pairs": 1, "times": 8, "pairs": rows}))
    return tmp_path / "pairs.json"


@pytest.mark.parametrize("compiler", [("cc", "-std=c11", "-x", "c"), ("c++", "-std=c++17", "-x", "c++")])
def test_a_program_with_the_header_writes_what_can_be_judged(here, tmp_path, compiler):
    (tmp_path / "hak_pairs.h").write_text(here("judge", "--header").out)
    (tmp_path / "bench.c").write_text(PROGRAM)
    words = (*compiler, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "bench.c", "-o", "bench")
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([tmp_path / "bench"], check=True, capture_output=True, text=True)
    found, order = json.loads(done.stdout), done.stderr
    first, second = found["pairs"]
    assert (first["name"], second["name"]) == ('the "old"', "new")
    count = len(first["wall_ns"])
    assert count == len(second["wall_ns"]) == len(first["cpu_ns"]) > 20
    # Every pair has both sides, and each side comes first in some pairs.
    pairs = {order[i : i + 2] for i in range(len(order) - 2 * count, len(order), 2)}
    assert pairs == {"01", "10"}
    (tmp_path / "pairs.json").write_text(done.stdout)
    result = here("judge", tmp_path / "pairs.json", "--json", "-").result()
    assert result["comparisons"][0]["control"] == 'the "old"'


def test_regions_are_judged_in_pairs(here, tmp_path):
    """The drift is a hundred times as large as the difference."""
    drift = np.linspace(100_000, 400_000, 900).astype(int).tolist()
    file = written(tmp_path, drift, [int(ns * (0.97 + 0.002 * (i % 3))) for i, ns in enumerate(drift)])
    for metric in ("wall", "cpu"):
        result = here("judge", file, "--metric", metric, "--json", "-").result()
        assert result["verdict"] == "GO" and result["estimate"] == pytest.approx(0.029, abs=0.002)
    assert any("alternate in one process" in text for text in result["warnings"])
    assert not any("taken from --interleaved" in text or "resemble" in text for text in result["warnings"])


def test_a_few_regions_that_were_delayed_do_not_hide_the_others(here, tmp_path):
    control = [100_000 + 500 * (i % 5) for i in range(1000)]
    treatment = [int(ns * 0.98) for ns in control]
    delayed = [ns * (300 if i == 17 else 1) for i, ns in enumerate(treatment)]
    assert here("judge", written(tmp_path, control, delayed), "--json", "-").result()["verdict"] == "GO"
    often = [ns * (40 if i % 20 == 0 else 1) for i, ns in enumerate(treatment)]
    result = here("judge", written(tmp_path, control, often), "--json", "-").result()
    assert result["verdict"] == "INCONCLUSIVE" and result["comparisons"][0]["torn"]


def test_two_files_of_pairs_are_two_questions(here, tmp_path):
    file = written(tmp_path, [9] * 9, [9] * 9)
    (tmp_path / "other").write_text(file.read_text().replace("8", "9"))
    assert "judge one at a time" in here("judge", file, tmp_path / "other").message()


RUNS, FEW, PAIRS, PART = 3000, 200, 2000, 100
SPREAD = 0.08  # of the ratios of neighbouring regions of 50 us, measured on two busy processors
MOST = {
    RUNS: 180,
    FEW: 22,
}  # wrong verdicts tolerated at 5 % each: exceeded by chance once in 100, or 2,000, times


def simulated(name, runs):
    """How many runs call the second side slower, and how many faster: for equal sides, and for sides 1 % apart."""
    rng, found = np.random.default_rng(39), np.zeros((2, 2), dtype=int)
    for _ in range(runs // PART):
        pairs = KINDS[name](rng, PART, 2 * PAIRS).reshape(PART, PAIRS, 2)
        apart = (pairs[..., 1] - pairs[..., 0]) * rng.choice((-1.0, 1.0), (PART, PAIRS))
        apart *= SPREAD / (1.48 * np.median(np.abs(apart)))
        for i, effect in enumerate((0.0, np.log(1.01))):
            p = wilcoxon(apart + effect, axis=1, alternative="greater", method="approx").pvalue
            found[i] += (p < 0.025).sum(), (p > 0.975).sum()
    return found


@pytest.mark.parametrize("runs", [FEW, pytest.param(RUNS, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KINDS)
def test_one_percent_is_shown_within_a_second_and_nothing_is_not(name, runs):
    (wrongly, either), (slower, faster) = simulated(name, runs)
    assert wrongly + either <= MOST[runs]
    assert slower >= 0.9 * runs and faster <= 0.01 * runs


def test_the_simulation_asks_what_the_interval_says():
    rng = np.random.default_rng(5)
    for effect in (0.0, 0.002, 0.01):
        d = effect + rng.standard_t(3, 4000) * 0.05
        interval = paired_interval(d)
        for above in (True, False):
            p = wilcoxon(d if above else -d, alternative="greater", method="approx").pvalue
            assert (interval.low > 0 if above else interval.high < 0) == (p < 0.025)
