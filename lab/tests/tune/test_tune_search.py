"""Combinations of options when there are too many to try all, and goals that are latency percentiles."""

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


def test_combinations_are_drawn_and_the_best_one_is_confirmed(here, program, records):
    """The last look counts the draw of the whole space: the two options that help together are found."""
    result = here("tune", *READ, *FAST, "--quiet", "--json", "-", "--", program).result()
    assert result["verdict"] == "GO" and "MALLOC_ARENA_MAX=2" in result["tune"]["use"]
    assert "MALLOC_TRIM_THRESHOLD_=65536" not in result["tune"]["use"]
    assert any("=65536" in line and "exit status 3" in line for line in result["tune"]["left_out"])
    assert len(records("header")[0]["arms"]) + len(result["tune"]["left_out"]) >= 20


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
