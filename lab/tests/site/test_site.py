"""The site in a real browser without a network: it loads nothing from outside, fits a phone, is accessible, and the
commands on it exist."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SITE = ROOT / "build" / "site"
AXE = "axe-core@4.14.1"
PHONE = (375, 667)
TOLD = "each => each.id + ' ' + each.nodes[0].html.slice(0, 120)"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
sys.path.insert(0, str(ROOT / "lab" / "tests" / "report"))

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    subprocess.run([ROOT / "scripts" / "site"], check=True, stdout=subprocess.DEVNULL)
    found = sorted(SITE.rglob("*.html"))
    assert SITE / "index.html" in found
    assert len(found) > 30
    return found


@pytest.fixture(scope="module")
def browser(pages):
    from report_browser import Browser

    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe, in a fixed version from npm."""
    place = ROOT / "build" / "axe"
    packed = place / f"{AXE.replace('@', '-')}.tgz"
    if not packed.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed, which axe comes from")
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=place, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def named(page: Path) -> str:
    return str(page.relative_to(SITE))


def test_no_page_asks_for_anything_from_elsewhere(pages, browser):
    asked = {}
    for page in pages:
        browser.open(page)
        sources = browser.script("return performance.getEntriesByType('resource').map(e => e.name)")
        elsewhere = [source for source in sources if not source.startswith(("file:", "data:", "blob:"))]
        failed = [entry["message"] for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"]
        if elsewhere or failed:
            asked[named(page)] = [*elsewhere, *failed]
    assert asked == {}


def test_no_page_is_wider_than_a_phone(pages, browser):
    browser.size(*PHONE)
    wide = {}
    for page in pages:
        browser.open(page)
        width = browser.script("return document.scrollingElement.scrollWidth")
        if width > PHONE[0]:
            wide[named(page)] = width
    browser.size(1280, 900)
    assert wide == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(pages, browser, axe, scheme):
    browser.scheme(scheme)
    browser.driver.set_script_timeout(600)
    found = {}
    for page in pages:
        browser.open(page)
        browser.script(axe)
        run = f"axe.run({{runOnly: {TAGS}, preload: false}}).then(found => arguments[0](found.violations.map({TOLD})))"
        if violations := browser.driver.execute_async_script(run):
            found[named(page)] = violations
    assert found == {}


def test_it_can_be_searched_from_the_disk(browser, pages):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    if not (SITE / "assets" / "javascripts" / "iframe-worker.js").exists():
        pytest.skip("npm is not installed, which the search from the disk comes from")
    browser.open(SITE / "index.html")
    browser.script("document.querySelector('#__search').click()")
    field = browser.driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
    browser.script("document.querySelector('input.md-search__input').focus()")
    field.send_keys("HAKMEM_MEMORY_LIMIT")
    results = "return document.querySelectorAll('.md-search-result__item').length"
    WebDriverWait(browser.driver, 20).until(lambda _: browser.script(results) > 0)


def test_every_program_is_in_one_table_that_sorts_and_is_whole_on_a_phone(pages, browser):
    from hakmem_lab.show import gallery

    browser.size(*PHONE)
    browser.open(SITE / "should.html")
    links = browser.script(
        "return [...document.querySelectorAll('.programs tbody a')].map(a => a.getAttribute('href'))"
    )
    assert len(links) == len(gallery.rows())
    assert [link for link in links if not (SITE / link).exists()] == []
    beyond = "each => each.getBoundingClientRect().right > innerWidth"
    assert (
        browser.script(f"return [...document.querySelectorAll('.questions *, .programs *')].filter({beyond}).length")
        == 0
    )
    browser.size(1280, 900)
    sort = "document.querySelectorAll('.programs button')[{}].click()"
    cells = "return [...document.querySelectorAll('.programs td:nth-child({})')].map(cell => +cell.dataset.sort)"
    for column in (1, 2, 3):
        for descending in (False, True):
            browser.script(sort.format(column))
            known = [value for value in browser.script(cells.format(column + 1)) if value is not None]
            assert known == sorted(known, reverse=descending)
            assert len(known) >= 5


def shell_blocks(page: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def in_bash(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-euc", block], cwd=folder, capture_output=True, text=True, check=False)


def test_the_commands_of_the_start_work(pages):
    (block,) = shell_blocks(ROOT / "docs" / "site" / "pages" / "index.md")
    done = in_bash(block, ROOT)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "served by hakmem"), done.stderr


def test_the_commands_of_the_tutorial_work(pages, tmp_path, monkeypatch):
    for folder in (ROOT / ".venv" / "bin", ROOT / "build" / "release"):
        monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("HAK_STORE", str(tmp_path / "store"))
    blocks = shell_blocks(ROOT / "docs" / "lab" / "tutorial.md")
    assert len(blocks) >= 4
    for block in blocks:
        done = in_bash(block, tmp_path)
        if "no verdict is possible in so short a time" in done.stderr:  # on a busy machine
            done = in_bash(re.sub(r"--budget \w+", "--budget 10m", block), tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000


WORD = re.compile(r"^(?:\.venv/bin/)?hak ([a-z]+)\b([^#]*)", re.MULTILINE)


def test_every_other_command_of_hak_exists_with_its_flags():
    """Commands on reference pages need the reader's programs and clusters, so they are parsed, not run."""
    import typer

    from hakmem_lab.cli.commands import app

    known = {}
    for name, command in typer.main.get_command(app).commands.items():
        parts = getattr(command, "commands", {"": command}).values()  # for a group, all of its commands
        known[name] = {flag for part in parts for each in part.params for flag in each.opts}
    seen, wrong = 0, []
    for page in sorted((ROOT / "build" / "site-pages").rglob("*.md")):
        for block in re.findall(r"^```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for command, rest in WORD.findall(block.replace("\\\n", " ")):
                seen += 1
                own = re.sub(r'"[^"]*"', "", rest.partition(" -- ")[0])  # without a server's flags
                flags = set(re.findall(r"(?<!\S)(--[a-z][a-z-]*)", own))
                if command not in known or not flags <= known[command] | {"--help"}:
                    wrong.append(f"{named_page(page)}: hak {command} {rest}")
    assert seen > 40
    assert wrong == []


def test_every_target_of_make_exists():
    wrong = []
    for page in sorted((ROOT / "build" / "site-pages").rglob("*.md")):
        for block in re.findall(r"^```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for target in re.findall(r"^(?:sudo )?make +([a-z_-]+)", block, re.MULTILINE):
                done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False)
                if done.returncode:
                    wrong.append(f"{named_page(page)}: make {target}")
    assert wrong == []


def named_page(page: Path) -> str:
    return str(page.relative_to(ROOT / "build" / "site-pages"))
