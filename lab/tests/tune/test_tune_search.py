"""Searching combinations of options when there are too many to try all, and goals that are latency percentiles."""

import signal

import pytest

# A program that is faster with two arenas, and still faster with a top pad as well.
SCRIPT = """#!/bin/sh
[ -n "$LD_DEBUG" ] && exit 0
echo >> "{folder}/count"
[ "$(wc -l < "{folder}/count")" = "${{HANG:-0}}" ] && exec sleep 60
rate=1000
[ "$MALLOC_ARENA_MAX" = 2 ] && rate=$((rate + 200))
[ -n "$MALLOC_TOP_PAD_" ] && rate=$((rate + 100))
[ "$MALLOC_TRIM_THRESHOLD_" = 65536 ] && exit 3
echo "ops $rate"
"""
READ = ["--read", r"ops=regex:ops (\d+)", "--most", "ops", "--combine", "--set", "tries=20", "--allocators", "glibc"]
FAST = ["--repeat", "1", "--max-blocks", "6", "--set", "looks=1", "--set", "select-blocks=1", "--seed", "3"]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "prog.sh"
    path.write_text(SCRIPT.format(folder=tmp_path))
    path.chmod(0o755)
    return path


def asked(records):
    return [(event["points"], [arm["name"] for arm in event["arms"]]) for event in records("event", what="asked")]


def test_combinations_are_searched_and_the_search_goes_on_where_it_was_cut(
    here, begin, program, tmp_path, until, records, store
):
    pytest.importorskip("optuna")
    words = ["tune", *READ, *FAST, "--quiet", "--env", "HANG=30"]
    process = begin(*words, "--", program)
    count = tmp_path / "count"
    until(lambda: count.exists() and len(count.read_text()) >= 30)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = asked(records)
    assert before
    result = here("resume", "last", "--quiet", "--json", "-").result()
    found = asked(records)
    assert found[: len(before)] == before
    assert result["verdict"] == "GO"
    assert {"MALLOC_ARENA_MAX": "2", "MALLOC_TOP_PAD_": "16777216"}.items() <= result["tune"]["service"][
        "environment"
    ].items()
    assert "MALLOC_TRIM_THRESHOLD_=65536" not in result["tune"]["use"]
    assert any(
        "MALLOC_TRIM_THRESHOLD_=65536" in line and "exit status 3" in line for line in result["tune"]["left_out"]
    )
    assert any("combinations are too many to try all" in text for text in result["tune"]["notes"])
    names = [name for _, group in found for name in group]
    assert len(names) == len(set(names)) and result["tune"]["candidates"] == 20
    other = tmp_path / "undisturbed"
    whole = here(*words, "--store", other, "--json", "-", "--", program).result()
    assert whole["tune"]["rungs"] == result["tune"]["rungs"]


def test_without_the_sampler_it_is_said_what_to_install(here, program, store, monkeypatch):
    from hakmem_lab import extras

    real = extras.importlib.util.find_spec
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None if name == "optuna" else real(name))
    answer = here("tune", *READ, *FAST, "--", program)
    assert answer.status == 2 and not store.exists()
    assert "combinations needs more than hak itself" in answer.message() and "pip install optuna" in answer.message()


def test_a_percentile_of_the_latencies_that_a_program_prints(here, tmp_path):
    """The limit is on p99; the program prints a histogram, as for hak latency."""
    path = tmp_path / "serve.sh"
    path.write_text(
        '#!/bin/sh\n[ -n "$LD_DEBUG" ] && exit 0\necho "ops ${RATE:-1000}"\n'
        'echo "response 1000 980"\necho "response ${TAIL:-5000} 20"\n'
    )
    path.chmod(0o755)
    arms = ["glibc,RATE=1500,TAIL=9000", "glibc,RATE=1200"]
    words = ["--read", r"ops=regex:ops (\d+)", "--most", "ops", "--subject-to", "p99=+2%", "--allocators", *arms]
    result = here("tune", *words, *FAST, "--quiet", "--json", "-", "--", path).result()
    assert (result["verdict"], result["tune"]["use"]) == ("GO", "glibc,RATE=1200")
    assert [(rail["metric"], rail["status"]) for rail in result["guardrails"]] == [("p99", "held")]
    least = here(
        "tune", "--least", "p99", "--allocators", "glibc,TAIL=2000", *FAST, "--quiet", "--json", "-", "--", path
    )
    assert (least.result()["verdict"], least.result()["metric"]["name"]) == ("GO", "p99")
