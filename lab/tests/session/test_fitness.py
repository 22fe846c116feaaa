"""A machine's fitness is decided by its own last A/A run, preferably one of the same program and metric."""

import re
import sys

import pytest

from hakmem_lab.designs import itself as aa
from hakmem_lab.designs.itself import AaSpec
from hakmem_lab.judge import fitness
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine


@pytest.fixture
def note(store):
    """note(day, fit, program, metric): stores a finished A/A run of that day; returns its name."""

    def write(day: int, fit: bool, program: str = "a", metric: str = "wall", **facts) -> str:
        header = {
            "machine": machine.facts() | facts, "command": {"program": program}, "spec": {"metric": metric},
        }  # fmt: skip
        file = RunFile.create(store, "aa", header)
        name = f"202601{day:02}-000000-aa-0000"
        file.append({"type": "result", "id": name, "aa": {"fit": fit}})
        file.close()
        file.path.rename(store / f"{name}.jsonl")
        return name

    return write


def header(program: str = "a", metric: str = "wall") -> dict:
    return {"command": {"program": program}, "spec": {"metric": metric}}


def test_the_last_check_of_the_same_program_and_metric_decides(store, note):
    note(1, True)
    bad = note(2, False)
    note(3, True, program="b")
    note(4, True, metric="rss")
    assert bad in fitness.unfit_reason(store, header())
    assert fitness.unfit_reason(store, header("b")) is None
    assert fitness.unfit_reason(store, header(metric="rss")) is None
    note(5, True)
    assert fitness.unfit_reason(store, header()) is None


def test_of_another_program_the_last_check_of_the_machine_decides(store, note):
    note(1, True)
    bad = note(2, False, program="b")
    assert fitness.unfit_reason(store, header()) is None
    for unknown in (header("c"), header(metric="p99"), None):
        assert bad in fitness.unfit_reason(store, unknown)


@pytest.mark.parametrize("metric", ["cpu", "tree-cpu", "server-cpu", "rss", "pss", "faults", "syscalls"])
def test_a_failed_check_of_time_says_nothing_of_processor_time_memory_and_counts(store, note, metric):
    note(1, False)
    assert fitness.unfit_reason(store, header(metric=metric)) is None
    bad = note(2, False, metric=metric)
    assert bad in fitness.unfit_reason(store, header("b", metric=metric))


def test_without_a_verdict_on_time_the_sure_changes_of_memory_are_said(here, store, note, fakes, tmp_path):
    bad = note(1, False)
    script = tmp_path / "larger.sh"
    script.write_text(f"exec {sys.executable} -S -c \"x = bytearray(b'x' * (${{SIZE:-1}} << 20))\"\n")
    words = ("--allocators", "glibc", "glibc,SIZE=16", "--max-blocks", "12", "--repeat", "1", "--json", "-", "--quiet")
    found = here("compare", *words, "--metric", "wall", "--", "sh", script).result()
    assert found["headline"].startswith("No verdict on time: ") and bad in found["headline"]
    assert found["reasons"][0].startswith("glibc,SIZE=16 against glibc: ")
    assert "peak memory " in found["reasons"][0]
    assert "--metric cpu" in found["reasons"][-1]
    judged = here("compare", *words, "--metric", "rss", "--", "sh", script).result()
    assert [row["verdict"] for row in judged["comparisons"] if row["verdict"]] == ["NO-GO"]


def test_a_page_of_an_aa_has_one_number_of_blocks_for_a_question(here):
    words = ("--max-blocks", "12", "--repeat", "1", "--margin", "1%")
    answer = here("aa", *words, "--", "sh", "-c", "i=$(($$ % 9)); while [ $i -gt 0 ]; do i=$((i-1)); sleep 0; done")
    lines = answer.out.replace("\n", " ")
    assert len(re.findall(r"about [\d,]+ blocks", lines, re.IGNORECASE)) <= 1
    assert " blocks see " not in lines and "can be seen in" not in lines
    assert not re.search(r"takes about [\d,]+ blocks", answer.err)


def test_a_machine_without_a_check_is_unknown_and_not_unfit(store, note):
    assert "hak doctor --machine" in fitness.unknown(store)
    note(1, False, cpu="another")
    assert "hak doctor --machine" in fitness.unknown(store)
    assert fitness.unfit_reason(store, header()) is None
    note(2, True)
    assert fitness.unknown(store) is None


def test_the_warning_names_the_check_and_how_long_it_takes(here, store):
    here("ab", "--control", "glibc", "--treatment", "default", "--metric", "cpu", "--max-blocks", "6", "--looks", "1",
         "--repeat", "1", "--quiet", "--", "sleep", "0.03")  # fmt: skip
    (line,) = [line for line in here("show", "-v").out.replace("\n", " ").split("warning: ") if "not checked" in line]
    assert "hak doctor --machine --set 'metric=cpu' -- sleep 0.03 checks it, in " in line
    assert re.search(r"in \d+ s or more", line)


class Told:
    """A minimal session: its spec, the time of a run, and the lines that are reported to it."""

    def __init__(self, margin: float, run_s: float):
        self.spec, self.run_s, self.lines = AaSpec(command=["x"], margin=margin), run_s, []

    def tell(self, what: str, text: str) -> None:
        assert what == "proposal"
        self.lines.append(text)


@pytest.mark.parametrize(
    ("sigma", "margin", "said"),
    [
        (0.001, 0.01, "a margin of 1 % takes about 2 min 24 s"),
        (0.04, 0.01, "longer than the 240 blocks of max-blocks; --margin 5% about"),
        (0.04, 0.05, "a margin of 5 % takes about"),
        (5.0, 0.01, "longer than the 240 blocks of max-blocks"),
    ],
)
def test_an_aa_proposes_a_length(sigma, margin, said):
    told = Told(margin, 3.0)
    aa._propose(told, sigma, 12)
    assert said in told.lines[0]
    assert ("--margin" in told.lines[0]) == ("--margin" in said)


def test_the_proposal_comes_after_the_first_blocks(here, records):
    here("aa", "--max-blocks", "13", "--repeat", "1", "--margin", "45%", "--quiet", "--", "sleep", "0.002")
    assert len(records("event", what="proposal")) == 1
