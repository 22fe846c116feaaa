"""OpenMetrics, read back by the reference parser: every figure of a result appears once, in base units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_results import NASTY, made
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hakmem_lab.show import formats
from hakmem_lab.show.openmetrics import FAMILIES


def read(*results):
    """Family -> [(labels, value)]."""
    families = list(text_string_to_metric_families(formats.text("openmetrics", results)))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert (family.type, family.unit, family.documentation) == FAMILIES[family.name]
        keys = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        assert len(set(keys)) == len(keys)
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in families}


def values(found, family, **labels):
    return [value for own, value in found.get(family, []) if labels.items() <= own.items()]


@pytest.mark.parametrize("verdict", ["GO", "NEUTRAL", "NO-GO", "INCONCLUSIVE"])
def test_one_state_holds(verdict):
    states = read(made(verdict))["hak_verdict"]
    assert [own["hak_verdict"] for own, value in states if value == 1] == [verdict]
    assert len(states) == 4


def test_an_effect_and_its_interval():
    found = read(made())
    assert values(found, "hak_effect_ratio", treatment="t", control="c", metric="wall", bound="estimate") == [0.0211]
    assert values(found, "hak_effect_ratio", bound="low") == [0.0144]
    assert values(found, "hak_effect_ratio", bound="high") == []  # unbounded: nothing was measured
    assert values(found, "hak_arm_rss_peak_bytes", arm="t") == [2048 * 1024]
    assert "hak_arm_cpu_seconds" not in found


def test_a_soak(published):
    result = published["rebase_soak"]
    found, soak = read(result), result["soak"]
    assert values(found, "hak_soak_growth_bytes_per_hour", bound="high") == [soak["slope_high"] * 2**20]
    assert values(found, "hak_soak_budget_bytes_per_hour") == [soak["budget_mib_per_h"] * 2**20]
    assert values(found, "hak_soak_steady_seconds") == [soak["steady_s"]]
    p99 = (soak["service"]["p99_us"] or {}).get("worst")
    assert values(found, "hak_soak_service_seconds", quantile="0.99", sample="worst") == [pytest.approx(p99 * 1e-6)]


def test_latency_and_calls(published):
    found = read(published["tail_latency"], published["rebase_syscalls"])
    for arm in published["tail_latency"]["latency"]["arms"]:
        wanted = pytest.approx(arm["p999_us"] * 1e-6)
        assert values(found, "hak_latency_seconds", arm=arm["name"], quantile="0.999") == [wanted]
    for arm in published["rebase_syscalls"]["syscalls"]["arms"]:
        assert values(found, "hak_syscalls_per_operation", arm=arm["name"]) == [arm["per_op"]]


def test_all_published_experiments_at_once(published):
    found = read(*published.values())
    assert {own["run"] for own, _ in found["hak_blocks"]} == {result["id"] for result in published.values()}


def test_a_suite_that_repeats_a_figure():
    figure = {"ratio": 1.1, "ci_low": 1.0, "ci_high": None}
    bar = {"key": "w", "workload": "W", "metric": "rate", "verdict": None, "arms": {"glibc": figure, "mimalloc": None}}
    found = read(made(None, comparisons=[], suite={"rows": [bar, bar]}))
    assert values(found, "hak_suite_ratio", workload="w", arm="glibc") == [1.1, 1.0]


@given(st.text(max_size=40))
def test_any_text_comes_back_as_a_label(words):
    result = made()
    result["arms"][1]["name"] = words
    (label,) = {own["arm"] for own, _ in read(result)["hak_arm_wall_seconds"]} - {"c"} or {"c"}
    assert label == words.encode(errors="backslashreplace").decode().replace("\r", " ")


def test_text_full_of_traps():
    result = made()
    result["arms"][0]["name"] = NASTY
    assert values(read(result), "hak_arm_wall_seconds", arm=NASTY) == [0.1]
