"""The launcher measures only the program's own use of resources, and passes exactly the given words and variables."""

import os

import pytest

from hakmem_lab.system.launcher import Launcher, Request

MIB_KIB = 1024
TINY_KIB = 8 * MIB_KIB


@pytest.fixture
def launcher():
    with Launcher() as shared:
        yield shared


@pytest.fixture
def launch(launcher, fakes):
    def call(*words, **keywords):
        return launcher.run(Request([str(fakes.program), *map(str, words)], **({"env": {}} | keywords)))

    return call


def listed(outcome) -> list[str]:
    """The strings that the fake printed, each ended by NUL."""
    return outcome.stdout.split("\0")[:-1]


@pytest.mark.parametrize("mib", [32, 200])
def test_peak_memory_of_a_child_that_fills_so_much(launch, mib):
    outcome = launch("fill", mib)
    assert mib * MIB_KIB <= outcome.rss_peak_kib <= (mib + 4) * MIB_KIB


def test_peak_memory_of_a_tiny_child_is_not_that_of_this_interpreter(launch):
    ballast = bytearray(256 << 20)
    ballast[::4096] = b"x" * (len(ballast) // 4096)
    outcome = launch("sleep", 30)
    assert 0 < outcome.rss_peak_kib < TINY_KIB


def test_peak_memory_is_that_of_each_run_alone(launch):
    assert launch("fill", 200).rss_peak_kib > 200 * MIB_KIB
    assert launch("sleep", 30).rss_peak_kib < TINY_KIB


def test_mean_memory_lies_between_start_and_peak(launch):
    outcome = launch("fill", 64)
    assert outcome.samples >= 5
    assert 20 * MIB_KIB < outcome.rss_mean_kib <= outcome.rss_peak_kib


def test_mean_memory_is_unknown_where_nothing_was_sampled(launch):
    outcome = launch("fill", 8, sample_ms=0)
    assert (outcome.rss_mean_kib, outcome.samples) == (None, 0)


def test_memory_over_time_rises_to_the_peak_in_few_points(launch):
    outcome = launch("fill", 64, sample_ms=1)
    times, kib = zip(*outcome.rss_series, strict=True)
    assert len(times) <= 64
    assert list(times) == sorted(times)
    assert kib[0] < kib[-1] <= outcome.rss_peak_kib
    assert max(kib) > 32 * MIB_KIB


def test_a_long_run_has_no_more_points_than_a_short_one_and_they_span_it(launch):
    outcome = launch("sleep", 700, sample_ms=2)
    times = [at_ms for at_ms, _ in outcome.rss_series]
    assert outcome.samples > 130  # so the number of points was halved at least twice
    assert 32 <= len(times) <= 64
    assert times[0] < 100 and times[-1] > 500


def test_memory_over_time_is_empty_where_nothing_was_sampled(launch):
    assert launch("fill", 8, sample_ms=0).rss_series == []


@pytest.mark.parametrize("mode", ["burn", "child-burns"])
def test_processor_time(launch, mode):
    outcome = launch(mode, 150)
    assert 0.149 <= outcome.cpu_s < 0.3
    assert outcome.wall_s >= 0.149
    assert outcome.cpu_s == outcome.user_s + outcome.system_s


def test_a_sleeping_program_uses_no_processor_time(launch):
    outcome = launch("sleep", 150)
    assert outcome.wall_s >= 0.15
    assert outcome.cpu_s < 0.05


def test_page_faults_are_those_of_the_child(launch):
    few, many = launch("sleep", 1), launch("fill", 64)
    assert many.minor_faults - few.minor_faults >= 30  # at least one for every 2 MiB, the size of a huge page
    assert few.minor_faults < 2000


def test_environment_is_exactly_what_was_given(launch, monkeypatch):
    monkeypatch.setenv("HAKMEM_PROFILE", "lean")
    given = {"A": "1", "EMPTY": "", "LINES": "a\nb", "WORDS": "x=y z", "RAW": os.fsdecode(b"\xff")}
    found = dict(entry.split("=", 1) for entry in listed(launch("env", env=given)))
    assert found == given


def test_arguments_arrive_as_they_are(launch):
    words = ["", "a b", "line\nbreak", "tab\t", "'quoted\"", "-- --flag", "$HOME `id`", "ü", "", "%s%n"]
    assert listed(launch("arguments", *words))[2:] == words


@pytest.mark.parametrize("where", ["argv", "env", "cwd"])
def test_a_nul_cannot_smuggle_itself_into_another_field(launcher, fakes, where):
    """A string with NUL cannot be passed to a program, and must not shift the fields of the request."""
    values = {"argv": ["a\0b"], "env": {"A": "x\0y"}, "cwd": "/tmp\0"}
    keywords = {"argv": [str(fakes.program), "env"], "env": {"B": "2"}}
    keywords[where] = [*keywords["argv"], *values["argv"]] if where == "argv" else values[where]
    with pytest.raises((ValueError, OSError)):
        launcher.run(Request(**keywords))
    assert listed(launcher.run(Request([str(fakes.program), "env"], {"B": "2"}))) == ["B=2"]


def test_folder(launch, tmp_path):
    assert launch("folder", cwd=str(tmp_path)).stdout == str(tmp_path)


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:2])
def test_pinning(launch, cpu):
    assert launch("processors", cpus=(cpu,)).stdout.split() == [str(cpu)]
    assert set(map(int, launch("processors").stdout.split())) == os.sched_getaffinity(0)


def test_a_processor_that_does_not_exist_is_an_error(launch):
    with pytest.raises(OSError, match="processors"):
        launch("exit", 0, cpus=(1023,))


def test_nothing_of_the_laboratory_is_inherited(launch):
    assert launch("descriptors").stdout.split() == ["0", "1", "2"]
    assert launch("dispositions").stdout.split() == []
    assert launch("input").stdout == "-1"


def asleep(launch, mapped, **keys):
    """On a busy machine, nobody may look at a process that sleeps for a short time."""
    found = (launch("sleep", ms, **keys).mapped for ms in (100, 1000, 10000))
    assert next((each for each in found if each is not None), None) is mapped


@pytest.mark.parametrize("wanted", [True, False])
def test_whether_the_expected_library_is_mapped(launch, fakes, wanted):
    env = {"LD_PRELOAD": str(fakes.allocator)} if wanted else {}
    asleep(launch, wanted, env=env, expect=str(fakes.allocator))


def test_a_library_whose_name_only_begins_alike_is_not_the_expected_one(launch, fakes, tmp_path):
    longer = tmp_path / "libx.so.backup"
    longer.write_bytes(fakes.allocator.read_bytes())
    asleep(launch, False, env={"LD_PRELOAD": str(longer)}, expect=str(tmp_path / "libx.so"))


def test_a_static_program_does_not_map_the_library(launcher, fakes):
    env = {"LD_PRELOAD": str(fakes.allocator)}

    def launch(*words, **keys):
        return launcher.run(Request([str(fakes.static_program), *map(str, words)], **keys))

    asleep(launch, False, env=env, expect=str(fakes.allocator))


def test_whether_it_is_mapped_is_unknown_as_long_as_the_dynamic_linker_is_at_work(launch, fakes, tmp_path):
    """The dynamic linker hangs at the first library, a pipe without a writer; on a busy machine it may be as slow."""
    os.mkfifo(tmp_path / "slow.so")
    env = {"LD_PRELOAD": f"{tmp_path}/slow.so:{fakes.allocator}"}
    outcome = launch("sleep", 1, env=env, expect=str(fakes.allocator), timeout_s=0.2)
    assert (outcome.timed_out, outcome.mapped) == (True, None)


def test_whether_it_is_mapped_is_unknown_where_nothing_was_expected(launch):
    assert launch("sleep", 60).mapped is None
