"""Latency: histograms against known data, coordinated omission, arms in blocks, percentiles with intervals."""

import os
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError


# Prints a histogram of 10,000 requests: 9,850 take $BASE ns; the other 150, which include p99 and above, take $TAIL ns.
def spec(command, **keys):
    from hakmem_lab.kinds.latency import Spec
    from hakmem_lab.plan.model import build

    values = {"kind": "latency", "command": [str(w) for w in command], "allocators": ["glibc", "glibc,TAIL=100000"]}
    return build(Spec, values | {"max-blocks": 6, "seed": 1} | keys, "s.toml")


def reader(pattern=None, unit="ns"):
    from hakmem_lab.kinds.latency.pool import DEFAULT_PATTERN, Reader

    return Reader(pattern or DEFAULT_PATTERN, unit)


def test_a_known_histogram_gives_its_percentiles():
    from hakmem_lab.kinds.latency.pool import percentiles_us

    # 1 to 10,000 µs, each once: the p-th percentile is p / 100 * 10,000 µs.
    text = "\n".join(f"response {us * 1000} 1" for us in range(1, 10_001))
    found = percentiles_us(reader().parse(text))
    wanted = {"p50": 5000, "p90": 9000, "p99": 9900, "p99.9": 9990, "p99.99": 9999, "max": 10_000}
    assert found == {name: pytest.approx(us, rel=2e-3) for name, us in wanted.items()}


def test_encoded_histograms_are_read_and_added():
    from hdrh.histogram import HdrHistogram

    from hakmem_lab.kinds.latency.pool import buckets_us, percentile_us

    parts = []
    for value, count in ((1_000_000, 90), (7_000_000, 10)):
        histogram = HdrHistogram(1, 3_600_000_000_000, 3)
        histogram.record_value(value, count)
        parts.append(histogram.encode().decode())
    total = reader(r"^hist (?P<encoded>\S+)$").parse("".join(f"hist {part}\n" for part in parts))["response"]
    assert total.get_total_count() == 100
    assert list(buckets_us(parts).values()) == [90, 10]
    assert list(buckets_us(parts)) == pytest.approx([1000, 7000], rel=2e-3)
    assert percentile_us(total, "p90") == pytest.approx(1000, rel=2e-3)
    assert percentile_us(total, "max") == pytest.approx(7000, rel=2e-3)


def test_other_formats_and_units():
    from hakmem_lab.kinds.latency.pool import percentiles_us

    found = reader(r"^\s*(?P<value>[0-9.]+) ms: (?P<count>\d+)", "ms").parse("0.25 ms: 99\n 8 ms: 1\n")
    assert percentiles_us(found)["p50"] == pytest.approx(250, rel=2e-3)
    assert percentiles_us(found)["max"] == pytest.approx(8000, rel=2e-3)
    assert "service" not in found


@pytest.mark.parametrize(
    ("tool", "requests", "wanted_us"),
    [
        ("wrk", 3025, {"p50": 791, "p90": 4590, "p99": 10_220, "max": 22_010}),
        ("ab", 200, {"p50": 1000, "p90": 4000, "p99": 9000, "max": 10_000}),
        ("redis-benchmark", 4000, {"p50": 39, "p90": 47, "max": 19_743}),
        ("hey", 200, {"p50": 2100, "p90": 6400, "p99": 19_100, "max": 27_600}),
    ],
)
def test_outputs_of_other_tools_are_read(tool, requests, wanted_us):
    from hakmem_lab.kinds.latency.pool import percentiles_us

    text = (Path(__file__).parent / "outputs" / f"{tool}.txt").read_text(encoding="utf-8")
    found = reader().parse(text)
    assert found["response"].get_total_count() == requests
    assert percentiles_us(found) | {
        name: pytest.approx(us, rel=0.01) for name, us in wanted_us.items()
    } == percentiles_us(found)


def test_what_no_tool_prints_is_refused_with_their_names():
    with pytest.raises(Exception, match="wrk --latency, redis-benchmark, ab, hey"):
        reader().parse("1 request in 3 s, 99% fine")


@pytest.mark.parametrize("text", ["", "nothing", "service 5 1\n", "response 5 0\n", "response 9999999999999999 1\n"])
def test_output_without_response_times_is_missing(text):
    from hakmem_lab.plan.metrics import MetricMissing

    with pytest.raises(MetricMissing, match="histogram"):
        reader().parse(text)


def test_the_benchmarks_own_buckets_are_exact_to_a_percent(compiled):
    """The value shown for a bucket is never below a value counted in it, and at most 1/128 above."""
    for line in subprocess.run([compiled("buckets.c")], capture_output=True, text=True, check=True).stdout.splitlines():
        value, shown = map(int, line.split())
        assert value <= shown <= value * (1 + 1 / 128)


def run_latency(compiled, *arguments, **env) -> dict:
    from hakmem_lab.kinds.latency.pool import percentiles_us

    words = [compiled("latency.c"), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | env)
    histograms = reader().parse(done.stdout)
    return {
        "counts": {name: histogram.get_total_count() for name, histogram in histograms.items()},
        "us": percentiles_us(histograms),
        "out": done.stdout,
    }


def test_a_stall_shows_in_response_times_but_not_in_service_times(compiled):
    # 1000 requests a second, one allocation each, and one stall of 300 ms. Only one service time includes the stall,
    # but the 300 requests due meanwhile all wait for it. A closed loop would have seen one slow request in a thousand.
    library = str(compiled("stall.c", "-shared", "-fPIC"))
    found = run_latency(compiled, 1000, 1, 1, 1, 100, 16, 64, 0, LD_PRELOAD=library, STALL_AT="400")
    assert found["counts"] == {"response": 1000, "service": 1000}
    assert found["us"]["max"] >= 300_000 and found["us"]["service-max"] >= 300_000
    assert found["us"]["p90"] >= 100_000
    assert found["us"]["service-p90"] < 100_000


def test_the_benchmark_records_every_request_of_the_schedule(compiled):
    found = run_latency(compiled, 500, 2, 2, 4, 50, 16, 64, 1)
    assert found["counts"] == {"response": 2000, "service": 2000}
    assert found["us"]["p50"] >= found["us"]["service-p50"] * 0.99
    assert found["out"].count("\nsecond ") == 2


@pytest.mark.parametrize("arguments", [["0"], ["x"], ["10", "1", "1", "1", "1", "9", "8"], ["1"] * 10])
def test_the_benchmarks_refuse_bad_arguments(compiled, arguments):
    for name in ("latency.c", "soak.c"):
        words = arguments if name == "latency.c" else [word.replace("10", "0") for word in arguments]
        done = subprocess.run([compiled(name), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


def test_a_worse_tail_is_no_go(printer, context, only_run, shown):
    from hakmem_lab.kinds.latency import latency

    result = latency.run(spec([printer]), context())
    assert result["verdict"] == "NO-GO" and result["final"]
    primary = result["comparisons"][0]
    assert (primary["metric"], primary["control"]) == ("p99", "glibc")
    assert primary["estimate"] == pytest.approx(-0.5, abs=0.01)  # half as good
    assert primary["ci_low"] <= -0.5 + 0.01 and primary["ci_high"] < 0
    others = {row["metric"]: row for row in result["comparisons"][1:]}
    assert others["p50"]["estimate"] == 0 and others["service-p99"]["estimate"] == 0
    assert others["p50"]["verdict"] is None
    first, second = result["latency"]["arms"]
    assert first["p99_us"] == pytest.approx(50, rel=2e-3) and second["p99_us"] == pytest.approx(100, rel=2e-3)
    assert first["service"]["p99_us"] == pytest.approx(1, rel=2e-3)
    assert first["intervals"]["p99"] == pytest.approx([first["p99_us"]] * 2)
    assert first["requests"] == 12 * 10_000 and first["usual_run"]["max_us"] == pytest.approx(50, rel=2e-3)
    assert not any("varies much" in text for text in result["warnings"])
    assert result["arms"][0]["median"] == first["p99_us"] and result["arms"][0]["ci_low"] == first["p99_us"]
    assert [(rail["metric"], rail["arm"], rail["status"]) for rail in result["guardrails"]] == [
        ("p99.9", "glibc,TAIL=100000", "failed")
    ]
    file = only_run()
    assert shown(latency.analyse(file.header(), list(file.records()))) == shown(result)


def test_the_same_program_twice_is_neutral(printer, context):
    from hakmem_lab.kinds.latency import latency

    made = spec([printer], allocators=["glibc", "glibc,OTHER=1"], metric="p99.9")
    assert latency.run(made, context())["verdict"] == "NEUTRAL"


def test_three_arms_and_no_service_times(script, context):
    from hakmem_lab.kinds.latency import latency

    program = script('#!/bin/sh\necho "took ${TAIL:-50} us 100 times"\n')
    made = spec(
        [program], allocators=["glibc,TAIL=25", "glibc", "glibc,TAIL=100"], metric="p50", **{"value-unit": "us"},
        histogram=r"regex:took (?P<value>\d+) us (?P<count>\d+) times", **{"max-blocks": 8},
    )  # fmt: skip
    result = latency.run(made, context())
    assert [row["name"] for row in result["latency"]["arms"]] == ["glibc", "glibc,TAIL=25", "glibc,TAIL=100"]
    assert [row["verdict"] for row in result["comparisons"][:2]] == ["GO", "NO-GO"]
    assert result["verdict"] is None and result["latency"]["arms"][0]["service"] is None
    assert not any(row["metric"].startswith("service") for row in result["comparisons"])


def test_rate_and_duration_reach_the_program(script, context, only_run):
    from hakmem_lab.kinds.latency import latency

    program = script('#!/bin/sh\ntest "$1 $2" = "250 3" || exit 5\necho response 5 1\n')
    made = spec([program, "{rate}", "{seconds}"], rate=250, duration="3s")
    result = latency.run(made, context())
    assert result["latency"]["arms"][0]["rate_per_s"] == 250
    assert only_run().header()["command"]["argv"][1:] == ["250", "3"]


def test_an_output_without_a_histogram_is_an_error_before_anything_is_stored(script, context, store):
    from hakmem_lab.kinds.latency import latency

    with pytest.raises(LabError, match="does not match"):
        latency.run(spec([script("#!/bin/sh\necho fast\n")]), context())
    assert not store.exists()


def test_an_interrupted_run_is_continued(printer, context, only_run, interrupting):
    from hakmem_lab import kinds
    from hakmem_lab.errors import Interrupted
    from hakmem_lab.kinds.latency import latency

    with pytest.raises(Interrupted):
        latency.run(spec([printer]), context(interrupting(8)))
    done = [record for record in only_run().records() if record["type"] == "block"]
    partly = kinds.result_of(only_run())
    assert partly["verdict"] is None and not partly["comparisons"] and not partly["final"]
    assert partly["answer"] == f"No verdict yet: {len(done)} of 6 planned blocks."
    assert partly["latency"]["arms"][0]["p99_us"] == pytest.approx(50, rel=2e-3)
    result = kinds.resume(only_run(), context().progress)
    assert 0 < len(done) < 6 and result["blocks"] == 6 and result["verdict"] == "NO-GO"


def test_a_backlog_is_called_one(script, context):
    from hakmem_lab.kinds.latency import latency

    program = script("#!/bin/sh\necho response 90000000 20000\necho service 1000 20000\n")
    result = latency.run(spec([program], allocators=["glibc", "glibc,OTHER=1"]), context())
    assert any("does not keep up with the rate" in text for text in result["warnings"])


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"metric": "p98"}, "p99"),
        ({"histogram": "regex:(x)"}, "value"),
        ({"histogram": "(?P<valu>.)"}, "valu"),
        ({"histogram": "("}, "not valid"),
        ({"rate": 5}, "{rate}"),
        ({"command": ["true", "{seconds}"]}, "'duration'"),
        ({"guardrails": {"rsss": 0.1}}, "'rss'"),
        ({"guardrails": {"p50": {"limit": 0.1, "higher-is-better": True}}}, "never better"),
        ({"looks": 3}, "looks"),
        ({"allocator": "glibc"}, "'allocators'"),
    ],
)
def test_mistakes_are_named(keys, word):
    with pytest.raises(LabError, match=r"s\.toml") as error:
        spec(**({"command": ["true"]} | keys))
    assert word in str(error.value)


@pytest.mark.parametrize(
    ("keys", "word"),
    [({"max-blocks": 2}, "too few"), ({"allocators": ["glibc", "glibc"]}, "twice"), ({"baseline": "x"}, "not among")],
)
def test_mistakes_that_need_the_whole_spec(keys, word, context, store):
    from hakmem_lab.kinds.latency import latency

    with pytest.raises(LabError, match=word):
        latency.run(spec(["true"], **keys), context())
    assert not store.exists()


def test_an_unfit_machine_gives_no_verdict(printer, context, store):
    from hakmem_lab.kinds.latency import latency
    from hakmem_lab.store.runs import RunFile
    from hakmem_lab.system import machine

    file = RunFile.create(store, "aa", {"machine": machine.facts()})
    file.append({"type": "result", "id": file.id, "aa": {"fit": False}})
    file.close()
    result = latency.run(spec([printer]), context())
    assert result["verdict"] == "INCONCLUSIVE" and result["comparisons"][0]["estimate"] == pytest.approx(-0.5, abs=0.01)
    assert result["answer"].startswith("No verdict on p") and file.id in result["answer"]
