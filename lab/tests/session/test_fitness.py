"""A machine's fitness is decided by its own last A/A run, preferably one of the same program and metric."""

import re

import pytest

from hakmem_lab.judge import fitness
from hakmem_lab.kinds import aa
from hakmem_lab.plan.spec import AaSpec
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
    for unknown in (header("c"), header(metric="cpu"), None):
        assert bad in fitness.unfit_reason(store, unknown)


def test_a_machine_without_a_check_is_unknown_and_not_unfit(store, note):
    assert "hak aa" in fitness.unknown(store)
    note(1, False, cpu="another")
    assert "hak aa" in fitness.unknown(store)
    assert fitness.unfit_reason(store, header()) is None
    note(2, True)
    assert fitness.unknown(store) is None


def test_the_warning_names_the_check_and_how_long_it_takes(here, store):
    here("ab", "--control", "glibc", "--treatment", "default", "--metric", "cpu", "--max-blocks", "6", "--looks", "1",
         "--repeat", "1", "--quiet", "--", "sleep", "0.03")  # fmt: skip
    (line,) = [line for line in here("show").out.replace("\n", " ").split("warning: ") if "not checked" in line]
    assert "hak aa --metric 'cpu' -- sleep 0.03 does it, from" in line
    assert re.search(r"from \d+ s on", line)


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
        (0.001, 0.01, "a margin of 1 % takes about 12 blocks, 2 min 24 s"),
        (0.04, 0.01, "more than the 240 of max-blocks; --margin 5% about"),
        (0.04, 0.05, "a margin of 5 % takes about"),
        (5.0, 0.01, "more than the 240 of max-blocks"),
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
