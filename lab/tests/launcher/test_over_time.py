"""The launcher measures memory over time and of a whole tree of processes, and counts perf events."""

import subprocess

import pytest

from hakmem_lab.system import launcher as module
from hakmem_lab.system.launcher import Launcher, Request

MIB_KIB = 1024
# Software events of perf_event_open, which need no hardware counters.
PAGE_FAULTS = (1, 2)
NO_SUCH = (4, 2**40)
DRIVER = """
#include "launcher.h"
#include <stdlib.h>
int main(int argc, char **argv) {
  series_t series = {0};
  for (int i = 1; i < argc; i++) {
    series_add(&series, i * 10, atol(argv[i]));
  }
  series_print("s", &series);
}
"""


@pytest.fixture
def launch(fakes):
    def call(words, **keywords):
        with Launcher() as launcher:
            return launcher.run(Request(list(map(str, words)), {"PATH": "/usr/bin:/bin"}, **keywords))

    return call


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """points(samples): the points that a series keeps of samples 10 ms apart."""
    folder = tmp_path_factory.mktemp("series")
    (folder / "driver.c").write_text(DRIVER)
    words = ["cc", "-std=c17", "-D_GNU_SOURCE", f"-I{module.SOURCES}", "-o", folder / "driver"]
    subprocess.run([*words, folder / "driver.c", module.SOURCES / "memory.c"], check=True, capture_output=True)

    def call(samples):
        done = subprocess.run([folder / "driver", *map(str, samples)], check=True, capture_output=True, text=True)
        return module._series(done.stdout.strip().removeprefix("s="))

    return call


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64])
def test_a_short_run_keeps_every_sample(points, count):
    samples = list(range(1000, 1000 + count))
    assert list(points(samples)) == [(10 * (i + 1), kib) for i, kib in enumerate(samples)]


@pytest.mark.parametrize("count", [65, 66, 127, 128, 129, 1000, 4097])
def test_a_long_run_keeps_few_points_each_the_mean_until_the_next(points, count):
    samples = [(i * 7919) % 1000 + 1 for i in range(count)]
    kept = points(samples)
    starts = [at // 10 - 1 for at, _ in kept]
    assert 32 <= len(kept) <= 64
    assert starts[0] == 0
    stride = starts[1]
    assert starts == list(range(0, count, stride))
    assert [kib for _, kib in kept] == [sum(part) // len(part) for part in parts(samples, stride)]


def parts(samples, stride):
    return [samples[at : at + stride] for at in range(0, len(samples), stride)]


def test_memory_over_time_ends_at_what_the_program_filled(fakes, launch):
    outcome = launch([fakes.program, "fill", 64])
    (first, _), (last, kib) = outcome.rss_series[0], outcome.rss_series[-1]
    assert 3 <= len(outcome.rss_series) <= outcome.samples
    assert 0 < first < last <= outcome.wall_s * 1000
    assert 64 * MIB_KIB <= kib <= outcome.rss_peak_kib


def test_proportional_memory_is_that_of_the_whole_tree(fakes, launch):
    """Resident memory is that of the largest process; proportional memory is the sum over all processes."""
    outcome = launch([fakes.program, "family", 3, 48], pss_ms=10)
    assert 144 * MIB_KIB <= outcome.pss_peak_kib <= 152 * MIB_KIB
    assert outcome.rss_peak_kib <= 56 * MIB_KIB
    assert 0 < outcome.pss_mean_kib < outcome.pss_peak_kib
    assert max(kib for _, kib in outcome.pss_series) <= outcome.pss_peak_kib


def test_proportional_memory_includes_a_child_that_was_left_alone(fakes, launch):
    outcome = launch(["/bin/sh", "-c", f"({fakes.program} family 1 64 &); sleep 0.7"], pss_ms=10)
    assert outcome.pss_peak_kib >= 64 * MIB_KIB
    assert outcome.rss_peak_kib < 16 * MIB_KIB


def test_proportional_memory_is_unknown_where_it_was_not_asked_for(fakes, launch):
    outcome = launch([fakes.program, "fill", 8])
    assert (outcome.pss_peak_kib, outcome.pss_mean_kib, outcome.pss_series) == (None, None, [])


def test_counters_see_the_program_and_what_it_starts(fakes, launch):
    """The events must agree with the kernel's own count of page faults."""
    fill = f"{fakes.program} fill"
    outcome = launch(["/bin/sh", "-c", f"{fill} 40; {fill} 40"], counters=[NO_SUCH, PAGE_FAULTS])
    refused, faults = outcome.counts
    assert refused is None
    if faults is None:
        pytest.skip("this system does not let us count events")
    assert faults == pytest.approx(outcome.minor_faults, rel=0.05)
    alone = launch([fakes.program, "exit", 0], counters=[PAGE_FAULTS]).counts[0]
    assert alone < faults / 10


def test_nothing_is_counted_where_nothing_was_asked_for(fakes, launch):
    assert launch([fakes.program, "exit", 0]).counts == ()
