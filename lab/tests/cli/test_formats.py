"""`--format` of commands that measure and of commands that show results; `hak runs export --format openmetrics`."""

import re
import xml.etree.ElementTree as ET

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

AB = ("ab", "--control", "glibc", "--treatment", "glibc,RATE=1100", "--metric", r"regex:ops (\d+)",
      "--higher-is-better", "--repeat", "1", "--warm-up", "0", "--looks", "1", "--max-blocks", "6",
      "--quiet")  # fmt: skip


@pytest.fixture
def measure(here, counted):
    def call(*flags):
        return here(*AB, *flags, "--", counted)

    return call


def test_a_comment_instead_of_tables(measure):
    answer = measure("--format", "markdown")
    assert re.match(r"### GO: .*\n\nWarning: .*\n\n(?s:.*)- warning: ", answer.out)
    assert "median of" in answer.out


def test_a_format_and_a_file(measure, here, tmp_path):
    answer = measure("--format", "junit", "--json", tmp_path / "result.json")
    (suite,) = ET.fromstring(answer.out.encode())
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert (tmp_path / "result.json").read_text() == here("show", "--json", "-").out


@pytest.mark.parametrize("name", ["markdown", "junit", "github", "openmetrics"])
def test_what_is_shown_later_is_the_same(measure, here, name):
    first = measure("--format", name)
    assert first.status == 0
    for words in (["show", "last"], ["report", "last"], ["resume", "last", "--quiet"]):
        assert here(*words, "--format", name).out == first.out


def test_json_is_the_object_of_json(measure, here):
    assert measure("--format", "json").result() == here("show", "--json", "-").result()


def test_require_holds_beside_a_format(measure):
    answer = measure("--format", "github", "--require", "NO-GO")
    assert answer.status == 1
    assert re.match(r"(::warning title=hak::.*\n)+::notice title=GO", answer.out)


def test_metrics_of_all_runs(measure, here):
    measure()
    measure()
    families = {
        family.name: family for family in text_string_to_metric_families(here("export", "--format", "openmetrics").out)
    }
    assert [sample.value for sample in families["hak_blocks"].samples] == [6, 6]
    assert len({sample.labels["run"] for sample in families["hak_verdict"].samples}) == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [(["--format", "markdwon"], "did you mean 'markdown'?"), (["--format", "csv"], "--format"),
     (["--format", "junit", "--json", "-"], "--json -")],
)  # fmt: skip
def test_a_format_that_cannot_be(measure, store, flags, said):
    answer = measure(*flags)
    assert answer.status == 2
    assert said in answer.message()
    assert not store.exists()


def test_a_query_has_no_metrics(measure, here):
    measure()
    answer = here("export", "--sql", "SELECT 1", "--format", "openmetrics")
    assert answer.status == 2
    assert "--sql" in answer.message()
