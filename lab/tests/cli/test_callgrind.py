"""Instructions counted by callgrind: exact, useful in CI, and reported with what they do not show."""

import json
import re
import shutil
import subprocess

import pytest

from hakmem_lab import extras
from hakmem_lab.errors import LabError
from hakmem_lab.run import callgrind
from hakmem_lab.run.callgrind import judged, parse_ops

SOURCE = """
#include <stdlib.h>
int main(int argc, char **argv) {
  long count = atol(argv[1]) * (getenv("TWICE") ? 2 : 1), sum = 0;
  for (volatile long i = 0; i < count; i++) {
    sum += i;
  }
  return argc > 2 ? atoi(argv[2]) : (int)(sum & 0);
}
"""
needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop")
    (folder / "loop.c").write_text(SOURCE)
    subprocess.run(["cc", "-O0", "-o", folder / "loop", folder / "loop.c"], check=True, capture_output=True)
    return folder / "loop"


@pytest.fixture
def count(here, loop):
    def call(*words, treatment="default", flags=("--json", "-")):
        arms = ("--control", "default", "--treatment", treatment)
        return here("ab", "--callgrind", *arms, *flags, "--", loop, *words)

    return call


@needs_valgrind
@pytest.mark.parametrize(
    ("treatment", "verdict", "estimate"), [("default", "NEUTRAL", 0.0), ("default,TWICE=1", "NO-GO", -0.5)]
)
def test_per_operation_start_and_end_do_not_count(count, treatment, verdict, estimate):
    result = count("{ops}", treatment=treatment, flags=("--ops", "1000,51000", "--json", "-")).result()
    assert result["verdict"] == verdict
    assert result["estimate"] == pytest.approx(estimate, abs=1e-4)
    control, other = (arm["per_op"] for arm in result["arms"])
    assert 4 < control < 20
    assert other / control == pytest.approx(1 / (1 + estimate), abs=1e-3)


@needs_valgrind
def test_the_same_program_twice_needs_the_same(count, store):
    one, other = (arm["instructions"] for arm in count("20000").result()["arms"])
    assert one == pytest.approx(other, rel=1e-3)
    assert one > 100_000
    assert not list(store.glob("*"))


@needs_valgrind
def test_the_program_reads_its_input_and_may_end_otherwise(here, loop, tmp_path):
    (tmp_path / "input").write_text("100000\n")
    flags = ("--control", "default", "--treatment", "default", "--input", tmp_path / "input", "--expect-exit", "3")
    counted = here("ab", "--callgrind", *flags, "--json", "-", "--", loop, "10", "3")
    assert counted.result()["verdict"] == "NEUTRAL"
    reads = ("--", "/bin/sh", "-c", "read -r n; test $n = 100000 || exit 4; exit 3")
    assert here("ab", "--callgrind", *flags, "--json", "-", *reads).result()["verdict"] == "NEUTRAL"


@needs_valgrind
def test_on_the_terminal_and_as_a_requirement(count, tmp_path):
    out = tmp_path / "found.json"
    flags = ("--require", "NEUTRAL", "--json", out)
    answer = count("30000", treatment="default,TWICE=1", flags=flags)
    assert answer.status == 1
    assert re.search(r"instructions .* than default", answer.out)
    assert "not time" in answer.out.replace("\n", " ")
    assert json.loads(out.read_text())["verdict"] == "NO-GO"


@needs_valgrind
@pytest.mark.parametrize(
    ("words", "flags", "text"),
    [
        (["10", "3"], (), "exit status 3"),
        (["{ops}"], (), "--ops and {ops}"),
        (["10"], ("--ops", "1,2"), "--ops and {ops}"),
        (["{ops}"], ("--ops", "5,5"), "the shorter one first"),
    ],
)
def test_what_cannot_be_counted_is_one_line(count, words, flags, text):
    answer = count(*words, flags=flags)
    assert answer.status == 2
    assert text in answer.message()


@needs_valgrind
def test_a_program_that_becomes_another_one_is_named(here, loop):
    words = ("--control", "default", "--treatment", "default,X=1", "--", "/bin/sh", "-c", f"exec {loop} 10")
    assert "becomes another program" in here("ab", "--callgrind", *words).message()


@needs_valgrind
def test_a_server_is_refused(here, tmp_path, fakes):
    spec = tmp_path / "s.toml"
    spec.write_text(
        f'kind = "ab"\ncontrol = "default"\ntreatment = "default"\ncommand = ["{fakes.server}", "{{port}}", "client"]\n'
        f'[server]\ncommand = ["{fakes.server}", "{{port}}", "serve"]\n'
    )
    assert "a server is not counted" in here("ab", spec, "--callgrind").message()


def test_ops_without_callgrind(here):
    words = ("--control", "default", "--treatment", "default", "--ops", "1,2", "--", "/bin/true")
    assert "--ops needs --callgrind" in here("ab", *words).message()


def test_without_valgrind_the_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(extras.shutil, "which", lambda _: None)
    with pytest.raises(LabError, match="apt-get install valgrind"):
        callgrind.traced(["/bin/true"], tmp_path)


@needs_valgrind
@pytest.mark.parametrize("status", [0, 3])
def test_run_counts_and_ends_as_the_program_does(hak, loop, status):
    answer = hak("run", "--callgrind", "--allocator", "default", "--", loop, "20000", status)
    assert answer.status == status
    (line,) = [line for line in answer.err.splitlines() if line.startswith("hak: ")]
    assert int(line.removeprefix("hak: instructions: ").replace(",", "")) > 100_000


def rows(control, treatment, key="instructions"):
    return [{"name": name, "instructions": 7, "per_op": None} | {key: value}
            for name, value in (("A", control), ("B", treatment))]  # fmt: skip


@pytest.mark.parametrize(
    ("control", "treatment", "verdict", "words"),
    [
        (1000, 1000, "NEUTRAL", "B instructions within 1 % of A (unchanged)."),
        (1000, 995, "NEUTRAL", "B instructions within 1 % of A (0.5 % lower)."),
        (1000, 990, "GO", "B instructions 1.0 % lower than A."),
        (1000, 1011, "NO-GO", "B instructions 1.1 % higher than A."),
        (990, 1000, "NO-GO", "B instructions 1.0 % higher than A."),
    ],
)
def test_the_verdict_of_two_counts(control, treatment, verdict, words):
    result = judged(rows(control, treatment), 0.01)
    assert result["verdict"] == verdict
    assert result["answer"].startswith(words)
    assert result["estimate"] == pytest.approx(control / treatment - 1)


def test_per_operation_is_what_is_judged_where_there_are_two_lengths():
    result = judged(rows(10.0, 5.0, "per_op"), 0.01)
    assert (result["verdict"], result["estimate"]) == ("GO", 1.0)
    assert "instructions per operation 50.0 % lower than A" in result["answer"]


def test_a_length_that_is_none_is_said():
    with pytest.raises(LabError, match="the length"):
        judged(rows(0.0, 5.0, "per_op"), 0.01)


@pytest.mark.parametrize("text", ["", "5", "0,5", "a,b", "5,4", "1,2,3", "-1,4"])
def test_ops_are_two_lengths(text):
    with pytest.raises(LabError, match="two lengths"):
        parse_ops(text, ["{ops}"])
    assert parse_ops("1,20", ["x", "{ops}"]) == (1, 20)
