"""Guardrails keep their limit and the direction of their metric when they are written, stored and read again."""

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec, guardrails_of, normalised

RATE = r"regex:ops (\d+)"


def spec(rails, **keys) -> AbSpec:
    return build(AbSpec, {"command": "true", "control": "a", "treatment": "b", "guardrails": rails} | keys, "x.toml")


@pytest.mark.parametrize(
    ("written", "stored", "metric"),
    [
        ("5%", 0.05, Metric("rss")),
        (0.05, 0.05, Metric("rss")),
        ({"limit": "5%"}, 0.05, Metric("rss")),
        ({"limit": "5%", "higher-is-better": False}, 0.05, Metric("rss")),
        ({"limit": 0.05, "higher-is-better": True}, {"limit": 0.05, "higher-is-better": True}, Metric("rss", True)),
    ],
)
def test_what_is_written_is_stored_and_read_again(written, stored, metric):
    model = spec({"rss": written})
    assert normalised(model)["guardrails"] == {"rss": stored}
    assert model.guardrail_metrics() == [metric]
    assert guardrails_of(normalised(model)) == {metric: 0.05}
    assert build(AbSpec, normalised(model), "x.toml") == model


@pytest.mark.parametrize("higher", [True, False])
def test_the_primary_metric_keeps_its_direction(higher):
    model = spec({RATE: "5%", "rss": "5%"}, metric=RATE, **{"higher-is-better": higher})
    assert model.guardrail_metrics() == [Metric(RATE, higher), Metric("rss", False)]


def test_a_misspelled_key_of_a_guardrail_gets_the_nearest():
    with pytest.raises(LabError, match=r"^x\.toml: .*guardrails\.rss\.limt.*did you mean 'limit'\?"):
        spec({"rss": {"limt": "5%"}})
