"""Verdicts and sentences on a fleet with given figures."""

import pytest

from hakmem_fleet import shown as hosts
from hakmem_fleet.gather import LEFT, LOST
from hakmem_lab.show.terminal import render

LEVEL = 100.0


def figures(*effects, blocks=6, noise=0.002):
    """Figures of hosts a, b, …, whose blocks vary around the host's effect (positive: the treatment is faster)."""
    found, index = {}, 0
    for name, effect in zip("abcdefgh", effects, strict=False):
        found[name] = {}
        for place in range(blocks):
            shift = noise * (-1) ** place * (1 + place // 2)
            found[name][index] = (LEVEL, LEVEL / (1 + effect + shift))
            index += 1
    return found


def test_hosts_that_agree_give_a_verdict_on_the_fleet(gathered):
    result, _ = gathered(figures(0.05, 0.051, 0.049, 0.05))
    assert (result["verdict"], result["final"], result["blocks"]) == ("GO", True, 24)
    row = result["comparisons"][0]
    assert row["ci_low"] < 0.05 < row["ci_high"]
    assert row["ci_high"] - row["ci_low"] < 0.01
    assert [(each["host"], each["blocks"]) for each in result["fleet"]["hosts"]] == [(name, 6) for name in "abcd"]


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        ((-0.05, -0.051, -0.049), "NO-GO"),
        ((0.0, 0.0005, -0.0005, 0.0), "NEUTRAL"),
        ((0.2, -0.1, 0.15, -0.1), "INCONCLUSIVE"),
    ],
)
def test_the_order_of_the_protocol(gathered, effects, verdict):
    assert gathered(figures(*effects))[0]["verdict"] == verdict


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_hosts_are_no_fleet(gathered, count, capsys):
    result, _ = gathered(figures(*[0.05] * count, blocks=12))
    assert result["verdict"] == "INCONCLUSIVE"
    assert "too few hosts to speak of a fleet" in result["answer"]
    assert result["fleet"]["together"]["ci_low"] > 0.04
    render.show(result)
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "too few hosts to speak of a fleet. On these hosts alone: took 4.8" in out
        or "On these hosts alone: took 4.7" in out
    )


def test_which_kind_of_host_gains_and_which_loses(gathered, capsys):
    cpus = {"a": "old", "b": "old", "c": "old", "d": "new", "e": "new", "f": "new"}
    result, _ = gathered(figures(-0.04, -0.041, -0.039, 0.08, 0.081, 0.079), cpus=cpus)
    assert result["verdict"] == "INCONCLUSIVE"
    found = {line.name.partition(",")[0]: line.reading for line in hosts.lines(result) if line.group == hosts.OF_KINDS}
    assert found == {"old": "loses", "new": "gains"}
    assert result["fleet"]["i2"] > 0.9
    assert result["fleet"]["prediction_low"] < -0.04 < 0.08 < result["fleet"]["prediction_high"]
    render.show(result)
    assert "Kinds of host" in capsys.readouterr().out


def test_before_all_blocks_are_there_is_no_verdict(gathered):
    result, _ = gathered(figures(0.05, 0.05, 0.05), blocks=60)
    assert (result["verdict"], result["final"]) == (None, False)
    assert result["answer"].startswith("No verdict yet: 18 of 60 planned blocks.")
    assert [row["verdict"] for row in result["comparisons"]] == [None] * len(result["comparisons"])


def test_who_is_missing_is_in_the_result(gathered, capsys):
    result, _ = gathered(figures(0.05, 0.05, 0.05), events=[(LEFT, "x"), (LOST, "b")])
    assert result["fleet"]["left_out"] == [{"host": "x", "why": "no such program"}]
    assert [each["host"] for each in result["fleet"]["lost"]] == ["b"]
    render.show(result)
    assert "left out: x: no such program" in capsys.readouterr().out


RAIL = ("[guardrails]", 'rss = "5%"')


def with_memory(figures_, memory):
    """Figures with these ratios, which the fixture also writes as rss, so that a guardrail on rss sees them."""
    return {host: dict.fromkeys(own, (LEVEL, LEVEL * memory[host])) for host, own in figures_.items()}


def test_a_guardrail_holds_only_where_no_host_breaks_it(gathered):
    """Seven hosts hold it easily, one breaks it. The average would hide that one host."""
    base = figures(*[0.02] * 8, noise=0.0)
    memory = dict.fromkeys("abcdefgh", 0.9) | {"h": 1.08}
    result, _ = gathered(with_memory(base, memory), 'also = ["rss"]', *RAIL)
    (rail,) = result["guardrails"]
    assert (rail["status"], result["verdict"]) == ("open", "INCONCLUSIVE")
    result, _ = gathered(with_memory(base, dict.fromkeys("abcdefgh", 0.9)), 'also = ["rss"]', *RAIL)
    assert (result["guardrails"][0]["status"], result["verdict"]) == ("held", "GO")


def test_a_few_runs_that_are_far_off_hold_a_verdict_back(gathered):
    """The typical block is 12 % faster, but 4 of 100 blocks take five times as long."""
    base = figures(0.12, 0.12, 0.12, blocks=100, noise=0.0)
    for own in base.values():
        for place, index in enumerate(own):
            if place % 25 == 0:
                own[index] = (LEVEL, 5 * LEVEL)
    result, _ = gathered(base)
    assert (result["verdict"], result["torn"]) == ("INCONCLUSIVE", True)
    mean = next(row for row in result["comparisons"] if row["metric"].startswith("mean of"))
    assert result["comparisons"][0]["ci_low"] > 0 > mean["estimate"]
    assert "The typical block and the mean of all runs point in opposite directions" in result["answer"]


def test_hosts_with_other_builds_are_named(store, job, header, made):
    from hakmem_fleet.gather import Gathering
    from hakmem_fleet.result import analyse

    spec, asked = job(blocks=2)
    with Gathering(spec, asked, store, "command line") as gathering:
        for index, (host, sha) in enumerate((("a", "1"), ("b", "2"))):
            number = gathering.part(header(host, sha=sha, node="same"))
            gathering.ledger.add([(number, made(index))])
        result = analyse(gathering.ledger.file.header(), list(gathering.ledger.file.records()))
    text = " ".join(result["warnings"])
    assert "different builds of glibc:" in text
    assert "different builds of the program" in text
    assert "the 2 hosts are 1 machine" in text


def test_the_page_and_the_formats_show_it(gathered, here, store, tmp_path):
    _, file = gathered(figures(0.05, 0.052, 0.048))
    assert here("report", file.id, "-o", tmp_path / "fleet.html").status == 0
    page = (tmp_path / "fleet.html").read_text(encoding="utf-8")
    assert "Which host gains, which loses?" in page
    assert "Hosts of the fleet" in page
    for name in ("markdown", "junit", "openmetrics", "json"):
        assert here("show", file.id, "--format", name).status == 0
    assert "fleet" in here("list").out
