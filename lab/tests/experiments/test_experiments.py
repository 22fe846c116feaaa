"""The project's own experiments: every spec is valid and has a page, and each page matches its raw data."""

import sys
from pathlib import Path

import pytest

from hakmem_lab import kinds
from hakmem_lab.plan.model import read_toml
from hakmem_lab.plan.spec import NAMING
from hakmem_lab.store.runs import RunFile

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "results" / "experiments"
SPECS = sorted((ROOT / "experiments").glob("*.toml"))
sys.path.insert(0, str(ROOT / "experiments"))
import publish  # noqa: E402  (a script in the specs' folder, not a module of the package)

SUITES = ("demo", "gallery", "hardened_alone", "hardened_company", "many_threads", "scorecard")  # no experiments
EXPERIMENTS = [path for path in SPECS if path.stem not in SUITES]


def stored(spec: Path) -> RunFile:
    return RunFile(PAGES / "data" / f"{spec.stem}.jsonl.gz")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_is_valid_and_asks_something(path: Path) -> None:
    spec = kinds.load_spec(path)
    assert spec.question.endswith("?")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_python_heeds_the_variables_that_a_spec_sets(path: Path) -> None:
    read = read_toml(path)
    for each in (read, *read.get("workload", ())):
        command = each.get("command", "")
        words = command.split() if isinstance(command, str) else command
        set_ = {name for name in {**read.get("env", {}), **each.get("env", {})} if name.startswith("PYTHON")}
        assert not set_ or not {"-I", "-E"} & {*words}, f"{words[0]} -I ignores {', '.join(sorted(set_))}"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_was_run_as_its_spec_says(path: Path) -> None:
    header = stored(path).header()
    assert Path(header["spec_file"]).name == path.name
    # A key that is newer than the run has its default. The metric's names may differ, since they may change later.
    names = {key: value for key, value in read_toml(path).items() if key in NAMING}
    assert kinds.stored_spec(stored(path)).model_copy(update=names) == kinds.load_spec(path)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_a_page_says_what_its_raw_data_say(path: Path) -> None:
    """Compares the whole page and its row in the index; experiments/publish --all generates them again."""
    file = stored(path)
    header = publish.named(path.stem, file.header())
    result = kinds.result_of(file, header)
    page = (PAGES / f"{path.stem}.md").read_text(encoding="utf-8")
    conclusion = publish.conclusion_of(page)
    assert result["final"]
    assert conclusion.strip(), "the page draws no conclusion"
    assert page == publish.page(path.stem, header, result, conclusion)
    rows = (PAGES / "README.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if f"[{path.stem}]({path.stem}.md)" in row]
    assert row.endswith(f"| {publish.index_cell(result)} |")
    assert (PAGES / "pictures" / f"{path.stem}.svg").is_file()


def test_every_page_has_its_spec_and_stands_in_the_index() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    names = {path.stem for path in PAGES.glob("*.md")} - {"README"}
    assert names == {path.stem for path in EXPERIMENTS}
    assert all(f"({name}.md)" in index for name in names)
