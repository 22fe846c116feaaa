"""What the kinds say of given records: fabricated runs, so that every figure is known."""

import itertools

import pytest

from hakmem_lab import spec as specs
from hakmem_lab.blocks import finished_blocks
from hakmem_lab.errors import LabError
from hakmem_lab.kinds import ab, compare, matrix

USED = {"wall_s": 1.0, "cpu_s": 0.9, "rss_peak_kib": 5000, "rss_mean_kib": 4000.0, "minor_faults": 7, "major_faults": 0}


def header(kind: str, arms: list[str], **keys: object) -> dict:
    given = {"kind": kind, "command": ["true"], "max-blocks": 12} | keys
    model = {"ab": specs.AbSpec, "compare": specs.CompareSpec, "matrix": specs.MatrixSpec}[kind]
    spec = specs.build(model, given, "test")
    rows = [
        dict.fromkeys(("library", "sha256", "version", "configuration")) | {"name": n, "variables": {}} for n in arms
    ]
    rows = [row | {"allocator": "glibc"} for row in rows]
    return {"kind": kind, "id": "run", "question": "", "spec": specs.normalised(spec), "arms": rows, "git": None}


def run_record(arm: str, block: int, value: float, position: int = 0, attempt: int = 0, **more: object) -> dict:
    key = {"type": "run", "phase": "measure", "block": block, "attempt": attempt, "position": position, "arm": arm}
    measures = USED | {"wall_s": value}
    return key | measures | {"ok": True, "why": None, "value": value, "metrics": {"wall": value}} | more


def block_records(
    block: int, order: list[str], values: dict[str, float], attempt: int = 0, **more: object
) -> list[dict]:
    """A finished block; every repetition of an arm is a little different, so that nothing is tied."""
    runs = [
        run_record(arm, block, values[arm] * (1 + 1e-4 * ((7 * block + 3 * place) % 11)), place, attempt, **more)
        for place, arm in enumerate(order)
    ]
    close = {"type": "block", "phase": "measure", "block": block, "attempt": attempt, "ok": True, "why": None}
    return [*runs, close | {"order": order}]


def ab_records(count: int, control: float = 1.0, treatment: float = 0.8) -> list[dict]:
    blocks = (block_records(i, ["c", "t", "t", "c"], {"c": control, "t": treatment}) for i in range(count))
    return list(itertools.chain.from_iterable(blocks))


AB = {"control": "c", "treatment": "t", "looks": 1}


def test_a_treatment_that_is_faster_is_go() -> None:
    result = ab.analyse(header("ab", ["c", "t"], **AB), ab_records(12))
    assert result["verdict"] == "GO"
    assert result["comparisons"][0]["estimate"] == pytest.approx(0.25, abs=0.01)


def failed(arm: str, attempt: int, **more: object) -> dict:
    return run_record(arm, 3, 1.0, attempt=attempt, ok=False, why="it failed") | more


def test_a_treatment_that_crashes_is_not_go() -> None:
    result = ab.analyse(header("ab", ["c", "t"], **AB), [failed("t", 9, signal=11), *ab_records(12)])
    assert result["verdict"] == "INCONCLUSIVE"
    assert "t failed 1 times (it failed)" in result["headline"]
    assert any("t failed in 1 blocks" in text for text in result["warnings"])


@pytest.mark.parametrize(("count", "verdict"), [(1, "GO"), (4, "GO"), (5, "INCONCLUSIVE")])
def test_failures_of_the_treatment_that_chance_does_not_explain_are_not_go(count: int, verdict: str) -> None:
    lost = [failed("t", 9 + i, exit=1) for i in range(count)]
    assert ab.analyse(header("ab", ["c", "t"], **AB), [*lost, *ab_records(12)])["verdict"] == verdict


def test_a_control_that_fails_does_not_hold_the_treatment_back() -> None:
    lost = failed("c", 9, signal=11)
    assert ab.analyse(header("ab", ["c", "t"], **AB), [lost, *ab_records(12)])["verdict"] == "GO"


def test_every_comparison_of_an_ab_has_the_level_of_its_look() -> None:
    result = ab.analyse(header("ab", ["c", "t"], **AB | {"looks": 3}), ab_records(12))
    assert len({row["level"] for row in result["comparisons"]}) == 1


def test_of_a_server_and_its_client_the_server_is_the_arm() -> None:
    server = {"cpu_s": 0.5, "rss_peak_kib": 90_000, "rss_mean_kib": 80_000.0}
    blocks = (block_records(i, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}, server=server) for i in range(12))
    records = list(itertools.chain.from_iterable(blocks))
    keys = AB | {"server": {"command": ["true"]}}
    result = ab.analyse(header("ab", ["c", "t"], **keys), records)
    assert [arm["rss_peak_kib"] for arm in result["arms"]] == [90_000, 90_000]
    assert {row["metric"] for row in result["comparisons"]} == {"wall", "mean of wall", "cpu", "rss", "rss-mean"}


def test_faults_are_not_a_metric_of_a_server() -> None:
    with pytest.raises(LabError, match="faults"):
        header("ab", ["c", "t"], **AB, metric="faults", server={"command": ["true"]})


@pytest.mark.parametrize("count", [1, 8, 11])
def test_there_is_no_verdict_before_all_planned_blocks(count: int) -> None:
    order = ["a", "b", "c"]
    blocks = (block_records(i, order, {"a": 1.0, "b": 0.8, "c": 1.2}) for i in range(12))
    records = list(itertools.chain.from_iterable(itertools.islice(blocks, count)))
    result = compare.analyse(header("compare", order, allocators=order), records)
    assert result["comparisons"] == []
    assert f"{count} of 12" in result["headline"]
    assert not result["final"]


def test_a_matrix_reads_nothing_before_all_planned_blocks_and_nothing_on_an_unfit_machine() -> None:
    order = ["(none)", "A", "B", "A+B"]
    cells = {"(none)": 1.0, "A": 0.9, "B": 0.9, "A+B": 0.6}
    blocks = [block_records(i, order, cells) for i in range(12)]
    head = header("matrix", order, factors={"A": "X=1", "B": "Y=1"})
    some = matrix.analyse(head, list(itertools.chain.from_iterable(blocks[:11])))
    assert some["effects"] == []
    records = list(itertools.chain.from_iterable(blocks))
    full = matrix.analyse(head, records)
    assert [row["reading"] for row in full["effects"] if row["kind"] == "interaction"] == ["super-additive"]
    unfit = matrix.analyse(head, [*records, {"type": "event", "what": "fitness", "text": "too noisy"}])
    assert all(row["reading"] is None for row in unfit["effects"])
    assert "too noisy" in unfit["headline"]


def test_a_block_of_which_a_run_cannot_be_read_does_not_count() -> None:
    whole, torn = (
        block_records(0, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}),
        block_records(1, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}),
    )
    del torn[2]
    assert len(finished_blocks([*whole, *torn], "measure")) == 1


@pytest.mark.parametrize("kind", ["compare", "matrix"])
def test_guardrails_are_refused_where_nothing_judges_them(kind: str) -> None:
    keys = {"compare": {"allocators": ["a", "b"]}, "matrix": {"factors": {"A": "X=1", "B": "Y=1"}}}[kind]
    with pytest.raises(LabError, match="only ab and sweep have guardrails"):
        header(kind, ["a", "b"], **keys, guardrails={"rss": "5%"})


def test_a_factor_is_a_setting() -> None:
    with pytest.raises(LabError, match="is no setting"):
        header("matrix", ["a", "b"], factors={"A": "X=1", "B": "Y"})
