"""Regions seen from outside: what each holds, by name, in hak heap explain, top, metrics, profile and --block."""

import io
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rich.console import Console

from hakmem_lab.inside import layout
from hakmem_lab.inside.memory import Process
from hakmem_lab.inside.profile import forms
from hakmem_lab.inside.watch import Subject, Watch
from hakmem_lab.show.terminal import live

INCLUDE = Path(__file__).parents[3] / "include"
NAMES = {('cache "1"', ""), ("tenant", 'cache "1"'), ("request", ""), ("given", "")}


@pytest.fixture
def program(start, made, hakmem):
    found = start(made("regions.c", f"-I{INCLUDE}", hakmem, "-fno-omit-frame-pointer"))
    found.places = found.do("a")
    return found


def named(reading):
    return {row["name"]: row for row in reading["regions"]}


def adds_up(reading, program):
    assert reading["sum_kib"] == reading["rss_kib"] == program.rss_kib()
    rows = {row["owner"]: row["kib"] for row in reading["rows"]}
    assert not rows.keys() & {"changed meanwhile", "being changed"}
    assert (reading["broken"], reading["unmatched_kib"]) == (0, 0)
    return rows


def test_each_page_of_a_region_has_its_owner(program, explain):
    reading = explain("--stop", program.pid)
    rows, found = adds_up(reading, program), named(reading)
    assert {(row["name"], row["parent"]) for row in reading["regions"]} == NAMES
    assert reading["regions_left_out"] == 0
    own = sum(row["resident_kib"] for row in reading["regions"])
    assert abs(rows["regions"] - own) <= len(found)  # each is rounded
    assert 5300 * 1000 // 1024 < found["tenant"]["resident_kib"] < 5500
    assert 1000 <= found['cache "1"']["resident_kib"] < 1200
    assert found["given"]["resident_kib"] == 0  # it lies in memory of the program
    assert found['cache "1"']["hard_limit"] == 64 << 20
    assert found['cache "1"']["live_blocks"] == 999
    assert found['cache "1"']["used_bytes"] > found["tenant"]["used_bytes"] > 5300000
    assert (found["request"]["regions"], found["request"]["live_blocks"]) == (20, 20)
    program.do("d")
    after = explain("--stop", program.pid)
    assert "tenant" not in named(after)
    assert named(after)["[released]"]["live_blocks"] == 1
    adds_up(after, program)


def test_a_block_is_known_by_its_region(program, here):
    said = {name: here("explain", "--block", hex(at + 10), program.pid).out for name, at in program.places.items()}
    assert 'a block of the region "cache "1""' in said["live"]
    assert "1024 bytes, live" in said["live"]
    assert "free, in its region" in said["freed"]
    assert 'a block of the region "tenant"' in said["large"]
    assert "5001216 bytes, live" in said["large"]


def test_all_forms_name_them(program, here, explain):
    answer = here("explain", program.pid)
    assert "regions by name" in answer.out
    assert 'tenant in cache "1"' in answer.out
    families = {each.name: each for each in text_string_to_metric_families(here("metrics", program.pid).out)}
    used = {each.labels["heap"]: each.value for each in families["hakmem_heap_used_bytes"].samples}
    assert used == {row["name"]: row["used_bytes"] for row in explain(program.pid)["regions"]}
    watch = Watch(Subject(program.pid))
    watch.read()
    watch.key("r")
    console = Console(file=io.StringIO(), width=120)
    console.print(live.screen(watch, 40))
    assert 'tenant in cache "1"' in console.file.getvalue()


def test_a_profile_has_their_labels(program, explain, here, tmp_path):
    with Process(program.pid) as memory:
        found = layout.find(memory)
        memory.write(found.root("hak_sample_request"), (1 << found["HAK_SAMPLE_MEAN_BITS"] | 1).to_bytes(8, "little"))
    program.do("s")
    adds_up(explain("--stop", program.pid), program)
    folded, written = tmp_path / "p.folded", tmp_path / "p.pb.gz"
    assert here("profile", "--seconds", "0.1", "-o", folded, program.pid).status == 0
    (line,) = [each for each in folded.read_text().splitlines() if each.startswith("[region tenant];")]
    assert line.rpartition(" ")[2] == str(100 * 10912)
    assert here("profile", "--seconds", "0.1", "-o", written, program.pid).status == 0
    profile = forms.read(written)
    assert sum(values[2] for stack, values in profile.values.items() if stack[-1] == "[region tenant]") == 100
    assert named(explain(program.pid))["tenant"]["live_blocks"] == 102
