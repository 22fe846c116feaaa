"""Which A/A run of the store decides whether this machine is fit: its own, and of the same program and metric first."""

import pytest

from hakmem_lab.judge import fitness
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine


@pytest.fixture
def note(store):
    """note(day, fit, program, metric): a finished A/A run of that day."""

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
