"""The table and the object of --json."""

import json
import os

import pytest

from hakmem_lab.doctor import NOTE, NOTHING, OK, PART, PROBLEM, Check, amount, count, listed, report

TABLE = ("program", "privileges", "architecture", "C library", "linking", "sanitizer", "own malloc",
         "built-in allocator",
         "other allocators", "language", "RTLD_DEEPBIND", "TLS space", "who serves malloc", "options", "limits",
         "cgroup memory", "seccomp", "huge pages here", "inspection", "page size", "huge pages", "multi-size pages",
         "overcommit", "vm.max_map_count")  # fmt: skip


@pytest.mark.parametrize("subject", ["command", "process", "static"])
def test_the_table_is_at_most_100_wide_and_has_every_check(here, fakes, subject):
    program = fakes.static_program if subject == "static" else fakes.program
    words = [os.getpid()] if subject == "process" else ["--", program, "exit", "0"]
    answer = here("doctor", "--allocator", fakes.allocator, *words)
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0].startswith(("served by", "not served"))
    assert lines.index("") < 10, "the verdict comes first"
    assert [line for line in lines if len(line) > 100 and " " in line.strip()] == []
    names = {line[9:29].strip() for line in lines[lines.index("") + 1 :] if line[:1] != " "}
    assert names >= set(TABLE)
    assert "\x1b" not in answer.out


def test_the_object(here, fakes):
    answer = here("doctor", "--json", "-", "--allocator", fakes.allocator, "--", fakes.program, "exit", "0")
    found = answer.result()
    assert list(found) == ["verdict", "served", "in_part", "checks"]
    assert [list(check) for check in found["checks"]] == [["name", "state", "found", "remedy"]] * len(found["checks"])
    assert [check["name"] for check in found["checks"]] == list(TABLE)


def test_the_file_and_the_table(here, fakes, tmp_path):
    file = tmp_path / "found.json"
    words = ["--json", file, "--allocator", fakes.allocator, "--", fakes.static_program]
    answer = here("doctor", *words)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert answer.status == 1
    assert found["served"] is False
    assert answer.out.replace("\n", " ").startswith(found["verdict"])
    (linking,) = [check for check in found["checks"] if check["name"] == "linking"]
    assert linking["state"] == "problem"
    assert f"-> {linking['remedy']}" in answer.out


def test_flags_may_follow_a_process(here, fakes):
    assert here("doctor", os.getpid(), "--allocator", fakes.allocator, "--json", "-").result()["served"] is False


def test_a_file_that_cannot_be_written(here, fakes, tmp_path):
    answer = here("doctor", "--json", tmp_path / "no/where", "--allocator", fakes.allocator, "--", fakes.program)
    assert (answer.status, "--json" in answer.message()) == (2, True)


def test_nothing_named_or_too_much(here):
    assert here("doctor").status == 2
    answer = here("doctor", 1, 2)
    assert (answer.status, "one process at a time" in answer.message()) == (2, True)


def test_the_first_reason_is_the_verdict():
    fine, part = Check("a", OK, "fine"), Check("b", PROBLEM, "half", "mend b", PART)
    nothing = Check("c", PROBLEM, "none", "mend c", NOTHING)
    beside = Check("d", NOTE, "a heap of its own", beside=True)
    assert report("x", [fine, beside]).verdict == "served by x; a heap of its own"
    assert report("x", [fine, Check("e", PROBLEM, "not about malloc")]).served
    assert report("x", [fine, part, beside]).verdict == "served in part: half; mend b"
    found = report("x", [part, nothing])
    assert (found.verdict, found.served, found.in_part) == ("not served: none; mend c", False, False)


def test_figures():
    assert [amount(n) for n in (17, 4096, 1 << 30, 999 << 10, 1023 << 10)] == [
        "17 bytes",
        "4 KiB",
        "1 GiB",
        "999 KiB",
        "1023 KiB",
    ]
    assert (count(1, "filter"), count(1200, "filter")) == ("1 filter", "1,200 filters")
    assert listed(["a", "b", "c", "d"]) == "a, b, c and 1 more"
