"""A mistake in a tuning is reported in one line, before anything is started."""

import pytest


@pytest.fixture
def refused(here, store, fakes):
    def call(*flags, program=None):
        answer = here("tune", *flags, "--quiet", "--", program or fakes.program, "exit", "0")
        assert answer.status == 2
        assert not store.exists()
        return answer.message()

    return call


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--least", "wal"], "did you mean 'wall'"),
        (["--least", "wall", "--most", "rss"], "name only one metric"),
        (["--most", "rss"], "ask for the least"),
        (["--least", "latency"], "--read 'latency=regex:PATTERN'"),
        (["--subject-to", "p99"], "not METRIC=+N%"),
        (["--subject-to", "rss=2%"], "not METRIC=+N%"),
        (["--subject-to", "rss=+2"], "not METRIC=+N%"),
        (["--subject-to", "rss=+200%"], "not METRIC=+N%"),
        (["--subject-to", "rss=+nan%"], "not METRIC=+N%"),
        (["--subject-to", "speed=+2%"], "guardrails: no metric 'speed'"),
        (["--subject-to", "rss=-2%"], "more of 'rss' is not better"),
        (["--subject-to", "p99=-2%"], "a limit says by how much it may grow"),
        (["--subject-to", "rss=+2%", "--subject-to", "rss=+5%"], "--subject-to: 'rss' is given twice"),
        (["--read", "x=regex:a (.)", "--read", "x=regex:b (.)"], "--read: 'x' is given twice"),
        (["--least", ""], "--least: no metric is named"),
        (["--most", " "], "--most: no metric is named"),
        (["--read", "x=ops"], "not NAME=regex:PATTERN"),
        (["--read", "wall=regex:(a)"], "cannot be the name of a figure"),
        (["--read", "x=regex:a"], "needs exactly one group"),
        (["--allocators", "glib"], "did you mean 'glibc'"),
        (["--allocators", "glibc,hakm"], "there is no allocator 'hakm'"),
        (["--allocators", "default"], "there is nothing to try"),
        (["--allocators", "hakmem,HAKMEM_PROFIL=lean"], "did you mean 'HAKMEM_PROFILE'"),
        (["--default", "glib"], "did you mean 'glibc'"),
        (["--max-blocks", "3"], "too few for any verdict"),
        (["--budget", "soon"], "a duration is written as"),
        (["--set", "histogram=x"], "the regular expression needs the groups"),
    ],
)
def test_a_mistake_on_the_command_line(refused, flags, says):
    assert says in refused(*flags)


def test_a_percentile_of_a_program_that_prints_none(refused):
    message = refused("--least", "wall", "--subject-to", "p99=+2%", "--allocators", "glibc")
    assert "prints no latencies that hak can read" in message
    assert "--read 'p99=regex:PATTERN'" in message and "histogram" in message


def test_a_budget_in_which_no_verdict_is_possible(refused):
    message = refused("--allocators", "glibc", "--budget", "10ms", "--repeat", "1")
    assert "budget: no verdict is possible in so short a time: at least " in message


def test_an_allocator_that_is_not_there_is_left_out(here, fakes, monkeypatch):
    from hakmem_lab.errors import LabError
    from hakmem_lab.plan import peers

    real = peers.library

    def library(name):
        if name == "jemalloc":
            raise LabError("jemalloc is not installed: apt install libjemalloc2")
        return real(name)

    monkeypatch.setattr(peers, "library", library)
    flags = ["--repeat", "1", "--max-blocks", "6", "--set", "looks=1", "--set", "select-blocks=1"]
    answer = here(
        "tune", *flags, "--allocators", "jemalloc", "glibc,A=1", "--json", "-", "--", fakes.program, "exit", "0"
    )
    assert answer.result()["tune"]["left_out"] == [
        "jemalloc is left out: jemalloc is not installed: apt install libjemalloc2"
    ]
    assert "jemalloc is left out" in answer.err


def test_a_program_that_nothing_can_be_preloaded_into(refused, fakes):
    """The message names each allocator once, however many arms it has."""
    message = refused("--allocators", "glibc,hakmem", program=fakes.static_program)
    assert "allocators: no candidate can be tried: " in message
    assert message.count("statically linked") == 2


def test_glibc_is_preloaded_where_a_program_brings_another_allocator(here, fakes):
    words = ["--repeat", "1", "--max-blocks", "6", "--set", "looks=1", "--allocators", "glibc,FAKE_OTHER=1"]
    result = here("tune", *words, "--quiet", "--json", "-", "--", fakes.linked_program, "burn", "5")
    (note,) = [text for text in result.result()["tune"]["notes"] if "brings an allocator of its own" in text]
    assert str(fakes.allocator) in note


def test_a_spec_of_a_tuning(here, tmp_path, fakes):
    path = tmp_path / "tune.toml"
    path.write_text(
        f'kind = "tune"\ncommand = ["{fakes.program}", "exit", "0"]\nallocators = ["glibc,A=1"]\nrepeat = 1\n'
        'max-blocks = 6\nlooks = 1\n[guardrails]\nrss = "5%"\n'
    )
    result = here("tune", path, "--quiet", "--json", "-").result()
    assert result["tune"]["limits"] == {"rss": 0.05}
    path.write_text('kind = "tune"\ncommand = "true"\nalocators = ["glibc"]\n')
    assert "did you mean 'allocators'" in here("tune", path).message()


REFUSED = {
    "hakmem": ("HAKMEM_RETAIN=abc", "hakmem: warning: HAKMEM_RETAIN=abc: not understood"),
    "jemalloc": ("MALLOC_CONF=dirty_decay:0", "<jemalloc>: Invalid conf pair: dirty_decay:0"),
    "scudo": ("SCUDO_OPTIONS=release=1", "Scudo WARNING: found 1 unrecognized flag"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_that_the_allocator_refuses_is_no_candidate(here, fakes, name):
    """The setting is refused in whatever order the arms are checked, and other arms of the library still take part."""
    from hakmem_lab.errors import LabError
    from hakmem_lab.plan import peers

    try:
        peers.library(name)
    except LabError as error:
        pytest.skip(str(error))
    (setting, says), words = REFUSED[name], ["--repeat", "1", "--max-blocks", "6", "--set", "looks=1", "--quiet"]
    for arms in ([f"{name},{setting}", f"{name},OTHER=1"], [f"{name},OTHER=1", f"{name},{setting}"]):
        answer = here("tune", *words, "--allocators", *arms, "--json", "-", "--", fakes.program, "exit", "0")
        result = answer.result()
        assert result["selection"]["chosen"] == f"{name},OTHER=1"
        (line,) = result["tune"]["left_out"]
        assert line.startswith(f"{name},{setting} is left out: {says}")


def test_what_it_runs_on_now_by_another_name_is_no_candidate(here, fakes):
    """The program already runs on the C library, so plain glibc would be the default under another name."""
    words = ["--repeat", "1", "--max-blocks", "6", "--set", "looks=1", "--set", "select-blocks=1", "--quiet"]
    answer = here("tune", *words, "--allocators", "glibc", "--json", "-", "--", fakes.program, "exit", "0").result()
    assert "glibc is left out: it is what the program runs on now" in answer["tune"]["left_out"]
    assert "glibc" not in [row["arm"] for row in answer["selection"]["candidates"]]
