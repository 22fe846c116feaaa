"""`make site` with a stand-in for its generator; and every path that scripts name exists."""

import itertools
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[3]
# Reads the settings as MkDocs does, and writes pages with the one line that scripts/site changes in every page.
STAND_IN = """#!{python}
import pathlib, sys, yaml
file = pathlib.Path(sys.argv[sys.argv.index("-f") + 1])
settings = yaml.safe_load(file.read_text())
assert (file.parent / settings["docs_dir"] / "index.md").exists(), settings["docs_dir"]
site = file.parent / settings["site_dir"]
(site / "assets/javascripts").mkdir(parents=True)
for name in ("index.html", "404.html"):
    (site / name).write_text('<script src="https://unpkg.com/iframe-worker/shim"></script>')
"""
# A path in the repository without variables.
FOLDERS = "bench|docs|experiments|include|lab|packaging|results|scripts|src"
NAMED = re.compile(rf"(?<![\w./$}}-])(?:{FOLDERS})/[\w./-]*\w(?!\w|[./-]*[\w$*])")
OTHERS = {"lab/tests/__pycache__", "packaging/abi/libhakmem.so.0-ARCH.abi"}


def leaves(navigation: list) -> list[str]:
    values = [value for entry in navigation for value in entry.values()]
    return [leaf for value in values for leaf in (leaves(value) if isinstance(value, list) else [value])]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The build folder after `make site`, in a tree whose other entries are links into this one."""
    tree = tmp_path_factory.mktemp("site")
    for path in ROOT.iterdir():
        if path.name != "build":
            (tree / path.name).symlink_to(path)
    generator = tree / "build" / "site-venv"
    (generator / "bin").mkdir(parents=True)
    (generator / "iframe-worker.js").write_text("worker", encoding="utf-8")
    pins = ["sha256sum", "docs/site/requirements.txt"]
    (generator / "stamp").write_bytes(subprocess.run(pins, cwd=ROOT, capture_output=True, check=True).stdout)
    python = generator / "bin" / "python"
    python.write_text(STAND_IN.format(python=ROOT / ".venv" / "bin" / "python"), encoding="utf-8")
    python.chmod(0o755)
    (tree / "build" / "release").symlink_to(ROOT / "build" / "release")
    subprocess.run(["make", "-o", "all", "site"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree / "build"


def test_the_script_completes_the_generators_pages(made):
    page = (made / "site" / "index.html").read_text(encoding="utf-8")
    assert page == '<script src="assets/javascripts/iframe-worker.js"></script>'
    assert (made / "site" / "assets" / "javascripts" / "iframe-worker.js").exists()
    assert not (made / "site" / "404.html").exists()


def test_what_the_pages_and_the_navigation_name_is_there(made):
    settings = yaml.safe_load((made / "site.yml").read_text(encoding="utf-8"))
    pages = made / "site-pages"
    assert (made / settings["docs_dir"], made / settings["site_dir"]) == (pages, made / "site")
    named = leaves(settings["nav"])
    assert len(named) > 30
    missing = [
        page for page in [*named, *settings["extra_css"], *settings["extra_javascript"]] if not (pages / page).exists()
    ]
    link = re.compile(r"\]\(([^)#\s]+)")
    for page in pages.rglob("*.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        targets = [target for target in link.findall(text) if "://" not in target]
        missing += [
            f"{page.name}: {target}" for target in targets if not Path(os.path.normpath(page.parent / target)).exists()
        ]
    assert missing == []


def test_each_value_of_an_option_stands_in_its_column(made):
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (made / "site-pages" / "options.md").read_text(encoding="utf-8").splitlines()
    ]
    values = {row[0].strip("`"): row[1:4] for row in rows if len(row) == 5}
    assert values["HAKMEM_RETAIN_MAX"] == ["unlimited", "33554432", "0"]
    assert values["HAKMEM_PROFILE_FILE"] == ["", "", ""]
    assert values["HAKMEM_PROFILE"] == ["speed", "balanced", "lean"]


def test_headings_and_columns_have_names_for_screen_readers(made):
    parser = MarkdownIt("commonmark").enable("table")
    pages, nameless = sorted((made / "site-pages").rglob("*.md")), []
    for page in pages:
        tokens = parser.parse(page.read_text(encoding="utf-8"))
        for before, token in itertools.pairwise(tokens):
            if before.type in ("heading_open", "th_open") and not token.content.strip():
                nameless.append(f"{page.relative_to(made)}:{token.map[0] + 1}: {before.tag}")
    assert len(pages) > 30
    assert nameless == []


def test_every_path_in_a_script_exists():
    folders = [ROOT / "scripts", ROOT / "packaging", ROOT / "docs" / "site"]
    files = [
        ROOT / "Makefile",
        *(path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"),
    ]
    missing = []
    for file in files:
        named = set(NAMED.findall(file.read_text(encoding="utf-8", errors="replace"))) - OTHERS
        missing += [f"{file.relative_to(ROOT)}: {name}" for name in sorted(named) if not (ROOT / name).exists()]
    assert missing == []
