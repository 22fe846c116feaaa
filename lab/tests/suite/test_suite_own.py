"""A user's own suite in an empty folder: relative paths, defaults, groups, and exit statuses that depend on bars."""

import json
import re
from pathlib import Path

import pytest
from suite_factory import spec
from suite_factory import workload as mix

MANUAL = Path(__file__).parents[3] / "docs" / "lab" / "howto-suite.md"
HEAD = 'kind = "suite"\nallocators = ["glibc", "glibc,RATE=1100"]\nmax-blocks = {blocks}\nseed = 3\n'
TOOL = "#!/bin/sh\necho ops ${RATE:-1000}\n"
DEFAULTS = """
[defaults]
metric = 'regex:ops ([0-9.]+)'
higher-is-better = true
memory = false
repeat = 1
"""
TEN_PERCENT = "bars = [{ against = 'glibc', at-least = 1.09 }]\n"
TWICE = "bars = [{ against = 'glibc', at-least = 2.0 }]\n"


def workload(key: str, command: str = "./tool", more: str = "") -> str:
    return f"[[workload]]\nkey = '{key}'\ncommand = {json.dumps(command)}\n{more}"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working folder, which is empty but for a program."""
    found = tmp_path / "mine"
    found.mkdir()
    (found / "tool").write_text(TOOL, encoding="utf-8")
    (found / "tool").chmod(0o755)
    monkeypatch.chdir(found)
    return found


def written(folder: Path, *tables: str, name: str = "suite.toml", blocks: int = 6) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD.format(blocks=blocks) + DEFAULTS + "".join(tables), encoding="utf-8")
    return path


def test_relative_commands_and_defaults(here, folder, records):
    written(folder, workload("one"), workload("two", more="metric = 'wall'\nhigher-is-better = false\n"))
    answer = here("suite", "suite.toml", "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    one, two = answer.result()["suite"]["rows"]
    assert (one["workload"], one["metric"], two["unit"]) == ("one", "speed", "s")
    assert one["arms"]["glibc"]["ratio"] == pytest.approx(1.1)
    (header,) = records("header")
    assert (header["kind"], header["spec"]["subject"]) == ("suite", "glibc,RATE=1100")
    assert "defaults" not in header["spec"]


@pytest.mark.parametrize("name", ["suite.toml", "suites/one.toml"])
def test_paths_begin_beside_the_spec_or_above_it_where_they_are_not_here(here, folder, tmp_path, monkeypatch, name):
    path = written(folder, workload("one", "sh ./tool"), name=name, blocks=1)
    monkeypatch.chdir(tmp_path)
    answer = here("suite", path.relative_to(tmp_path), "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    assert answer.result()["suite"]["rows"][0]["medians"]["glibc"] == 1000


@pytest.mark.parametrize(
    ("bars", "blocks", "verdict", "status"),
    [
        (TEN_PERCENT, 6, "GO", 0),
        (TWICE, 6, "NO-GO", 1),
        (TEN_PERCENT, 2, "INCONCLUSIVE", 1),
        ("guardrails = { 'regex:ops ([0-9.]+)' = '5%' }\n", 6, "GO", 0),
    ],
)
def test_the_exit_status_follows_the_bars_where_a_verdict_is_required(here, folder, bars, blocks, verdict, status):
    path = written(folder, workload("one", more=bars), workload("two"), blocks=blocks)
    answer = here("suite", path, "--quiet", "--json", "-", "--require", "GO")
    assert answer.result()["verdict"] == verdict
    assert answer.status == status
    assert here("suite", path, "--quiet", "--json", "-", "--only", "two").result()["verdict"] is None


@pytest.mark.parametrize(("load", "said"), [("short", "1"), ("long", "900")])
def test_a_workload_has_the_load_that_is_chosen(here, folder, records, load, said):
    written(folder, workload("one", "sh -c 'echo ops {load}000'", "loads = ['1', '900']\n"), blocks=2)
    assert here("suite", "suite.toml", "--quiet", "--set", f"load={load}").status == 0
    (header,) = records("header")
    assert header["spec"]["workload"][0]["command"] == ["sh", "-c", f"echo ops {said}000"]
    assert header["spec"]["workload"][0]["timeout"] == (3600 if load == "long" else 300)
    assert "loads" not in header["spec"]["workload"][0] and header["spec"].get("load", "short") == load


@pytest.mark.parametrize(("metric", "said", "timeout_s"), [("growth", "40", 3600), ("after-load", "1", 300)])
def test_growth_has_the_third_load(metric, said, timeout_s):
    made = spec(mix(command=["./tool", "{load}"], loads=["1", "9", "40"], requests=40, after=1), metric=metric)
    (row,) = made.workload
    assert (row.command, row.timeout, row.metric) == (["./tool", said], timeout_s, metric)


def test_a_group_is_chosen_by_its_name(here, folder, records):
    of_group = (workload(key, more="group = 'small'\n") for key in ("one", "two"))
    written(folder, *of_group, workload("three"))
    answer = here("suite", "suite.toml", "--quiet", "--only", "small")
    assert answer.status == 0, answer.err
    assert {record["workload"] for record in records("block")} == {"one", "two"}
    assert "small: glibc,RATE=11" in answer.out
    assert "2 workloads of small: speed" in answer.out


def test_both_arms_of_a_block_see_the_same_seed(here, folder, records):
    written(folder, workload("one", "sh -c 'echo ops 1{seed}'"), blocks=3)
    assert here("suite", "suite.toml", "--quiet", "--json", "-").status == 0
    seeds: dict[int, set] = {}
    for run in records("run", phase="measure"):
        seeds.setdefault(run["block"], set()).add(run["workload_seed"])
    assert [len(found) for found in seeds.values()] == [1, 1, 1]
    assert len(set.union(*seeds.values())) == 3


def test_a_workload_that_fails_at_once_is_named_and_nothing_is_stored(here, folder, store):
    written(folder, workload("good"), workload("bad", "sh -c 'exit 3'"))
    answer = here("suite", "suite.toml", "--quiet")
    assert answer.status == 2
    assert "workload 'bad': glibc: " in answer.message()
    assert "exit status 3" in answer.message()
    assert not store.exists()


def test_a_workload_that_fails_later_is_named_and_the_others_go_on_and_it_when_it_is_mended(here, folder, records):
    """The workload fails from its fifth run on, as long as the file `stop` exists."""
    (folder / "stop").touch()
    script = "echo x >> ran; [ $(wc -l < ran) -gt 4 ] && [ -e stop ] && exit 3; echo ops 1"
    written(folder, workload("good"), workload("bad", f"sh -c '{script}'"), blocks=3)
    answer = here("suite", "suite.toml", "--quiet", "--json", "-")
    assert answer.status == 3
    assert "workload 'bad': " in answer.message()
    assert "exit status 3" in answer.message()
    before = [(block["workload"], block["block"]) for block in records("block", ok=True)]
    assert [(key, index) for key, index in before if key == "good"] == [("good", index) for index in range(3)]
    assert len(before) < 6
    found = answer.result()
    assert (found["final"], found["verdict"]) == (False, None)
    assert any(text.startswith("workload 'bad': ") for text in found["warnings"])
    assert here("list").out.count("unfinished") == 1
    (folder / "stop").unlink()
    again = here("resume", "last", "--quiet", "--json", "-")
    assert again.result()["final"], again.err
    assert not any(text.startswith("workload 'bad': ") for text in again.result()["warnings"])
    finished = sorted((block["workload"], block["block"]) for block in records("block", ok=True))
    assert finished == [(key, index) for key in ("bad", "good") for index in range(3)]


def test_two_suites_are_two_questions(here, folder, records, store):
    for key in ("one", "one", "two"):
        path = written(folder, workload(key), blocks=1)
        found = here("suite", path, "--quiet", "--json", "-").result()
    headers = [json.loads(run.read_text(encoding="utf-8").splitlines()[0]) for run in store.glob("*.jsonl")]
    earlier = {header["spec"]["workload"][0]["key"]: len(header["earlier"]) for header in headers if header["earlier"]}
    assert earlier == {"one": 1}
    assert not any("was asked" in text for text in found["warnings"])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("hak suite suite.toml --only other,o", ["other,one", "other,other"]),
        ("hak suite suite.toml --only s", ["small"]),
        ("hak suite --only s", []),
        ("hak bench ws400", ["ws400"]),
        ("hak bench gallery lang", ["languages"]),
    ],
)
def test_the_tab_key_knows_workloads_and_groups(here, folder, monkeypatch, line, wanted):
    written(folder, workload("one", more="group = 'small'\n"), workload("other"))
    monkeypatch.setenv("_HAK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    assert here().out.split() == wanted


def test_the_example_of_the_manual_runs(here, folder):
    section = MANUAL.read_text(encoding="utf-8").split("## A suite of your own")[1]
    (folder / "mine.toml").write_text(re.search(r"```toml\n(.*?)```", section, re.S)[1], encoding="utf-8")
    (folder / "numbers.txt").write_text("\n".join(str(n * 7919 % 10007) for n in range(10007)), encoding="utf-8")
    arms = ("--allocators", "glibc", "glibc,A=1", "--max-blocks", "2")
    answer = here("suite", "mine.toml", *arms, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    found = answer.result()
    assert {row["key"] for row in found["suite"]["rows"]} == {"sort", "python"}
    assert [(row["key"], row["metric"]) for row in found["suite"]["rows"] if row["verdict"]] == [
        ("sort", "guardrail: rss"),
        ("python", "speed"),
    ]
