"""Earlier suites: only ratios are compared, and only of comparable runs."""

import json

import numpy as np
import pytest
from suite_factory import header, runs, spec, workload

from hakmem_lab.kinds.suite import history
from hakmem_lab.kinds.suite.result import analyse

LEVELS = [1.0, 1.01, 0.99, 1.0, 1.2, 1.21, 1.19, 1.2]


def times(ratio: float) -> dict:
    return {"hakmem": {"wall": 1.0}, "glibc": {"wall": ratio}, "mimalloc": {"wall": 1.0}, "jemalloc": {"wall": 1.0}}


def kept(folder, index: int, ratio: float, change=None) -> dict:
    """Stores a finished suite; `change(header)` may alter its header."""
    made = spec(workload())
    top = header(made, f"2026110{index}-000000-suite-aaaa", f"{index}" * 40)
    if change:
        change(top)
    records = [top, *runs("mix", times(ratio))]
    result = analyse(top, records)
    lines = [*records, {"type": "result", **result}]
    folder.mkdir(exist_ok=True)
    (folder / f"{top['id']}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return top


def test_the_history_is_of_ratios_and_ends_with_this_run(tmp_path):
    for index, level in enumerate(LEVELS[:3]):
        kept(tmp_path, index, level)
    top = header(spec(workload()), "20261109-000000-suite-bbbb", "9" * 40)
    earlier = history.collect(tmp_path, top)
    found = analyse(top, [top, {"type": "history", "entries": earlier}, *runs("mix", times(1.2))])["suite"]
    assert [entry["revision"] for entry in found["history"]] == ["0" * 10, "1" * 10, "2" * 10, "9" * 10]
    assert [entry["ratios"]["mix"] for entry in found["history"]] == pytest.approx([1.0, 1.01, 0.99, 1.2], rel=0.02)


def test_a_new_level_is_found_where_it_begins():
    entries = [{"ratios": {"mix": level, "flat": 1.0}} for level in LEVELS]
    entries.insert(2, {"ratios": {"flat": 1.0}})
    assert history.changes(entries) == {"mix": [5]}


def test_changes_are_found_and_rarely_invented():
    rng = np.random.default_rng(4)
    found = invented = 0
    for _ in range(100):
        ratios = np.exp(rng.normal(0, 0.01, 12))
        invented += bool(history.changes([{"ratios": {"mix": ratio}} for ratio in ratios]))
        ratios[6:] *= 1.05
        points = history.changes([{"ratios": {"mix": ratio}} for ratio in ratios]).get("mix", [])
        found += any(5 <= point <= 7 for point in points)
    assert invented <= 10
    assert found >= 85


def test_steady_ratios_and_few_of_them_have_no_change():
    assert history.changes([{"ratios": {"mix": 1.0}}] * 8) == {}
    assert history.changes([{"ratios": {"mix": level}} for level in LEVELS[2:7]]) == {}


def set_spec(key, value):
    return lambda top: top["spec"]["workload"][0].__setitem__(key, value)


@pytest.mark.parametrize(
    "change",
    [
        lambda top: top["machine"].update(cpu="another"),
        lambda top: top["arms"][0].update(variables={"HAKMEM_PROFILE": "lean"}),
        lambda top: top["arms"][1].update(version="2"),
        lambda top: top["programs"]["mix"].update(inputs={"script": "abc"}),
        set_spec("command", ["/bin/true", "longer"]),
        set_spec("env", {"SIZE": "2"}),
    ],
)
def test_what_cannot_be_compared_is_left_out(tmp_path, change):
    kept(tmp_path, 1, 1.0)
    kept(tmp_path, 2, 1.5, change)
    entries = history.collect(tmp_path, header(spec(workload()), "20261109-000000-suite-bbbb"))
    assert [entry["id"] for entry in entries] == ["20261101-000000-suite-aaaa"]


def test_unfinished_and_damaged_suites_are_left_out(tmp_path):
    top = kept(tmp_path, 1, 1.0)
    path = tmp_path / f"{top['id']}.jsonl"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    (tmp_path / "20261102-000000-suite-cccc.jsonl").write_text("{torn", encoding="utf-8")
    assert history.collect(tmp_path, header(spec(workload()), "20261109-000000-suite-bbbb")) == []
