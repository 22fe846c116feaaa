"""Verdicts on given histograms: all requests count, guardrails are held or open, and the mean can prevent a verdict."""

import itertools

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.judge import explain

USED = {"wall_s": 1.0, "cpu_s": 0.9, "rss_peak_kib": 5000, "rss_mean_kib": 4000.0, "minor_faults": 7, "major_faults": 0}
USUAL = {1_000: 9_000, 40_000: 1_000}


def encoded(buckets: dict[int, int]) -> str:
    from hakmem_lab.kinds.latency.pool import empty

    histogram = empty()
    for value, count in buckets.items():
        histogram.record_value(value, count)
    return histogram.encode().decode()


def records(control: list[dict[int, int]], treatment: list[dict[int, int]], **measures: dict[str, float]) -> list[dict]:
    """Records of ABBA blocks with these response times; measures: an arm's other figures, such as rss_peak_kib."""
    from hakmem_lab.kinds.latency.pool import DEFAULT_PATTERN, Reader, percentiles_us

    found = []
    for block, pair in enumerate(zip(control, treatment, strict=True)):
        for position, arm in enumerate("cttc"):
            buckets = pair["ct".index(arm)]
            text = "\n".join(f"response {value} {count}" for value, count in buckets.items())
            metrics = percentiles_us(Reader(DEFAULT_PATTERN).parse(text))
            run = {"type": "run", "phase": "measure", "block": block, "attempt": 0, "position": position, "arm": arm}
            run |= USED | measures.get(arm, {}) | {"ok": True, "why": None, "value": metrics["p99"], "metrics": metrics}
            found.append(run | {"histograms": {"response": encoded(buckets)}, "second_mean_us": []})
        close = {"type": "block", "phase": "measure", "block": block, "attempt": 0, "ok": True, "why": None}
        found.append(close | {"order": list("cttc")})
    return found


@pytest.fixture
def judged(header):
    from hakmem_lab.kinds.latency import Spec, latency
    from hakmem_lab.plan.model import build
    from hakmem_lab.plan.spec import normalised

    def make(control, treatment, measures=None, **keys) -> dict:
        given = {"kind": "latency", "command": ["true"], "allocators": ["c", "t"], "max-blocks": len(control)} | keys
        top = header("latency") | {"spec": normalised(build(Spec, given, "s.toml"))}
        top["arms"] = [top["arms"][0] | {"name": name} for name in "ct"]
        return latency.analyse(top, records(control, treatment, **(measures or {})))

    return make


def scaled(buckets: dict[int, int], factor: float) -> dict[int, int]:
    return {round(value * factor): count for value, count in buckets.items()}


def test_runs_that_are_rarely_slow_are_not_better_for_their_median(judged):
    """Two percent of the runs stall, the others are 10 % faster. p99.99 of the median run is better, but p99.99 of all
    requests is many times worse. Judging by medians of runs would give GO."""
    runs = [scaled(USUAL, 0.9)] * 49 + [scaled(USUAL, 0.9) | {2_000_000: 60}]
    result = judged([USUAL] * 50, runs, metric="p99.99")
    treatment = result["latency"]["arms"][1]
    assert treatment["usual_run"]["p9999_us"] == pytest.approx(36, rel=2e-3)
    assert treatment["p9999_us"] == pytest.approx(2000, rel=2e-3)
    assert result["comparisons"][0]["estimate"] < -0.9
    assert result["verdict"] != "GO"
    assert any("(of the median run), µs: t 2,00" in text and text.endswith(" (36)") for text in result["warnings"])


def test_a_better_middle_with_a_worse_tail_is_no_go(judged):
    """p99.9 is a guardrail even if the spec does not mention it."""
    result = judged([USUAL] * 12, [scaled(USUAL, 0.8) | {400_000: 40}] * 12, metric="p50")
    assert explain.explain(result).headline.startswith(
        "t p50 20.0 % lower than c [20.0, 20.0], but p99.9 10.0 × as high"
    )
    assert result["comparisons"][0]["ci_low"] > 0.2
    assert [(rail["metric"], rail["status"]) for rail in result["guardrails"]] == [("p99.9", "failed")]
    assert result["verdict"] == "NO-GO" and "breaks the limit of" in result["answer"]


def test_a_tail_that_may_be_worse_leaves_a_better_middle_open(judged):
    """The tail is worse in a third of the blocks, so the guardrail is neither held nor failed."""
    rare = [scaled(USUAL, 0.8) | ({400_000: 60} if block % 3 == 0 else {}) for block in range(12)]
    result = judged([USUAL] * 12, rare, metric="p50")
    (rail,) = result["guardrails"]
    assert rail["status"] == "open" and rail["ci_low"] < -0.2
    assert result["verdict"] == "INCONCLUSIVE" and "Whether p99.9 keeps the limit of" in result["answer"]


def test_a_mean_that_says_otherwise_leaves_it_open(judged):
    result = judged(
        [USUAL] * 12, [scaled(USUAL, 0.8) | {90_000_000: 4}] * 12, metric="p50", guardrails={"p99.9": "90%"}
    )
    assert result["guardrails"][0]["status"] == "held"
    assert result["verdict"] == "INCONCLUSIVE"
    said = explain.explain(result).headline
    assert said.startswith("t p50 20.0 % lower than c [20.0, 20.0], but by the mean of all runs 8.1 × as high")


def test_better_throughout_is_go_and_names_the_margin_only_where_the_interval_does(judged):
    clear = judged([USUAL] * 12, [scaled(USUAL, 0.8)] * 12)
    assert clear["verdict"] == "GO" and "margin" not in clear["answer"]
    factors = [0.8, 0.999, 0.9] * 4
    close = judged([USUAL] * 12, [scaled(USUAL, factor) for factor in factors], metric="p50")
    low = close["comparisons"][0]["ci_low"]
    assert 0 < low < 0.05 and close["verdict"] == "GO" and "reaches the margin of 5 % is undecided" in close["answer"]


@pytest.mark.parametrize(
    ("metric", "worse", "status"),
    [("rss", {"rss_peak_kib": 6000}, "failed"), ("cpu", {"cpu_s": 0.9}, "held"), ("rss-mean", {}, "held"),
     ("wall", {"wall_s": 2.0}, "failed"), ("faults", {"minor_faults": 70}, "failed")],
)  # fmt: skip
def test_whatever_is_measured_can_be_a_guardrail(judged, metric, worse, status):
    result = judged([USUAL] * 12, [scaled(USUAL, 0.8)] * 12, {"t": worse}, guardrails={metric: "10%"})
    assert {rail["metric"]: rail["status"] for rail in result["guardrails"]} == {"p99.9": "held", metric: status}
    assert result["verdict"] == ("NO-GO" if status == "failed" else "GO")


def test_too_few_requests_to_watch_the_tail_are_said(judged):
    result = judged([{1000: 100}] * 12, [{800: 100}] * 12, metric="p50")
    assert result["guardrails"] == [] and result["verdict"] == "GO"
    assert any(text.startswith("p99.9 is no guardrail here") for text in result["warnings"])


def test_the_order_of_the_blocks_does_not_matter(judged):
    runs = [scaled(USUAL, factor) for factor in (0.8, 1.1, 0.9, 0.7, 1.0, 0.95)]
    found = [judged([USUAL] * 6, list(order)) for order in itertools.islice(itertools.permutations(runs), 2)]
    assert found[0]["comparisons"][0]["estimate"] == found[1]["comparisons"][0]["estimate"]


def test_a_guardrail_that_nobody_measures_is_refused():
    from hakmem_lab.kinds.latency import Spec
    from hakmem_lab.plan.model import build

    with pytest.raises(LabError, match="server-rss"):
        build(Spec, {"kind": "latency", "command": "true", "guardrails": {"server-rss": "5%"}}, "s.toml")
