"""Runs exported in hyperfine's JSON format, and commands with values, which hyperfine calls parameters."""

import json
import math

import pytest

from hakmem_lab.cli.measure import expanded
from hakmem_lab.errors import LabError

SMALL = (
    "--metric",
    "wall",
    "--repeat",
    "1",
    "--warm-up",
    "0",
    "--max-blocks",
    "7",
    "--schedule",
    "one-by-one",
    "--quiet",
)


def test_every_execution_is_exported_and_judged_again(here, modelled, tmp_path):
    out = tmp_path / "both.json"
    program = modelled(lambda run: {"wall_s": float(run.argv[1]) * (1 + 0.01 * (run.number % 3)), "exit": 3})
    words = ("--scan", "s=0.06,0.015", "--expect-exit", "3", *SMALL, "--json", "-", "--commands", f"{program} {{s}}")
    found = here("compare", *words).result()
    assert [row["verdict"] for row in found["comparisons"] if row["verdict"]] == ["GO"]
    assert here("export", found["run"], "--format", "hyperfine", "-o", out).status == 0
    rows = json.loads(out.read_text())["results"]
    assert [row["command"] for row in rows] == [f"{program} 0.06", f"{program} 0.015"]
    assert [row["parameters"] for row in rows] == [{"s": "0.06"}, {"s": "0.015"}]
    for row in rows:
        assert len(row["times"]) == len(row["memory_usage_byte"]) == 14 and set(row["exit_codes"]) == {3}
        assert row["min"] <= row["median"] <= row["max"] and math.isclose(sum(row["times"]) / 14, row["mean"])
    out.write_text(out.read_text().replace('"exit_codes"', '"statuses"'))  # hak judge takes status 3 for a failure
    assert here("judge", out, "--json", "-").result()["estimate"] > 1


def test_a_comma_in_a_value():
    assert [*expanded(["echo {n}"], [r"n=a\,b,c\\,d\e"])] == ["echo a,b", "echo c\\", "echo d\\e"]
    with pytest.raises(LabError, match=r"^--scan: 'n=a,,b'"):
        expanded(["echo {n}"], ["n=a,,b"])


@pytest.mark.parametrize("words", [("echo 'a", "true"), ("sort big", "sort -S 1M big")])
def test_the_suites_take_no_commands(here, words):
    answer = here("bench", *words)
    assert answer.status == 2 and len(answer.message().splitlines()) == 1
    assert "hak compare --commands" in answer.message()
