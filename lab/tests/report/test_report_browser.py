"""Opens the report in a real browser: verdict, a phone's width, dark scheme, print, accessibility tree."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from factories import ab, every_kind
from report_browser import Browser

from hakmem_lab.show.report import LoadedRun, save_picture, write
from hakmem_lab.show.report.svg import COLOURS

# One worker, so that all tests of pages share a browser. One test shows that the report works; the others run in make
# test-long.
pytestmark = pytest.mark.xdist_group("browser")

PHONES = (360, 375)
PHONE = 360


@pytest.fixture(autouse=True)
def desk(browser: Browser) -> None:
    """Every test begins with the light scheme, a desktop's width and an empty log."""
    browser.size(1200, 900)
    browser.scheme("light")
    browser.driver.get_log("browser")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "report.html"
    write([ab()], path, {ab().id: "raw.jsonl"})
    return path


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("every") / "report.html"
    runs = every_kind()
    write(runs, path, {run.id: f"runs/{run.id}.jsonl" for run in runs})
    return path


def _rgb(name: str, dark: bool) -> str:
    colour = next(colour for colour in COLOURS if colour.name == name)
    text = colour.dark if dark else colour.light
    return f"rgb({', '.join(str(int(text[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_the_browser_reads_the_verdict(browser: Browser, one: Path) -> None:
    browser.open(one)
    assert browser.driver.title == "hakmem 2.1\u202f% faster than glibc [1.4, 2.8] – hakmem laboratory"
    assert browser.script("return document.querySelector('.verdict .chip').innerText.trim()") == "GO"
    assert (
        browser.script("return document.querySelector('.answer').innerText")
        == "hakmem 2.1\u202f% faster than glibc [1.4, 2.8]"
    )
    assert browser.script("return document.querySelector('article').dataset.verdict") == "GO"
    text = browser.script("return document.querySelector('script.result').textContent")
    assert json.loads(text)["verdict"] == "GO"
    top = browser.script("return document.querySelector('.verdict .answer').getBoundingClientRect().top")
    assert top < 300


@pytest.mark.long
def test_the_browser_finds_no_error_and_asks_for_nothing(browser: Browser, every: Path) -> None:
    browser.driver.get_log("performance")
    browser.open(every)
    assert browser.driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    assert [url for url in asked if url.startswith("file:")] == [every.as_uri()]


@pytest.mark.long
def test_hostile_text_does_not_run(browser: Browser, tmp_path: Path) -> None:
    run = ab(question="</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">")
    run.result |= {"withheld": run.question, "comparisons": []}
    write([run], tmp_path / "hostile.html", {run.id: "javascript:document.title='taken'"})
    browser.open(tmp_path / "hostile.html")
    assert browser.script("return document.querySelectorAll('img, script:not([type])').length") == 0
    assert browser.driver.title.startswith("</script>")
    assert "<img src=x" in browser.script("return document.querySelector('.answer').innerText")


@pytest.mark.long
@pytest.mark.parametrize("width", PHONES)
def test_no_table_is_cut_on_a_phone_and_every_value_has_its_columns_name(
    browser: Browser, every: Path, width: int
) -> None:
    browser.size(width, 740)
    browser.open(every)
    browser.script("document.querySelectorAll('details').forEach(d => d.open = true)")
    cut = browser.script(
        "return [...document.querySelectorAll('table, tbody tr, td, tbody th, caption')]"
        ".filter(e => { const r = e.getBoundingClientRect();"
        " return r.width && (r.right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth + 1) && e.clientWidth; })"
        ".map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"
    )
    assert cut == []
    named = browser.script(
        "const td = document.querySelector('table:not(.facts-table) td');"
        "return getComputedStyle(td, '::before').content"
    )
    assert len(named.strip('"')) > 2


@pytest.mark.long
def test_a_pictures_text_is_large_enough_to_read_on_a_phone(browser: Browser, every: Path) -> None:
    browser.size(375, 740)
    browser.open(every)
    smallest = browser.script(
        "return Math.min(...[...document.querySelectorAll('svg.picture')].map(svg =>"
        " svg.getBoundingClientRect().width / svg.viewBox.baseVal.width * 11))"
    )
    assert smallest >= 10


@pytest.mark.long
def test_no_line_runs_through_a_label_of_a_forest_plot(browser: Browser, every: Path) -> None:
    """Vertical strokes begin and end below the text of their row."""
    browser.open(every)
    crossed = browser.script(
        """
        const found = [];
        for (const svg of document.querySelectorAll('svg.picture')) {
          if (!/How much better|Effects and|Candidates/.test(svg.querySelector('title').textContent)) continue;
          const texts = [...svg.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent]);
          for (const path of svg.querySelectorAll('path')) {
            const r = path.getBoundingClientRect();
            if (r.width > 2 || r.height < 6) continue;
            for (const [t, text] of texts)
              if (r.left > t.left && r.left < t.right && r.top < t.bottom - 3 && r.bottom > t.top + 3) found.push(text);
          }
        }
        return found;
        """
    )
    assert crossed == []


@pytest.mark.long
@pytest.mark.parametrize("opened", [False, True])
def test_a_phone_scrolls_only_down(browser: Browser, every: Path, opened: bool) -> None:
    browser.size(PHONE, 740)
    browser.open(every)
    if opened:
        browser.script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.script("return window.innerWidth") == PHONE
    assert browser.script("return document.documentElement.scrollWidth") <= PHONE
    browser.script("window.scrollTo(500, 0)")
    assert browser.script("return window.scrollX") == 0
    size = browser.script("return parseFloat(getComputedStyle(document.querySelector('.headline')).fontSize)")
    assert size >= 16


@pytest.mark.long
def test_long_words_do_not_widen_the_page(browser: Browser, tmp_path: Path) -> None:
    word = "x" * 400
    run = ab(question=word)
    run.result |= {"withheld": word, "warnings": [word]}
    run.header["command"]["argv"] = [word]
    run.header["arms"][1] |= {"library": word, "variables": {word: word}}
    run.result["failures"] = [{"block": 1, "arm": word, "why": word}]
    write([run, LoadedRun(run.header, result=run.result)], tmp_path / "long.html", {run.id: word})
    browser.size(PHONE, 740)
    browser.open(tmp_path / "long.html")
    assert browser.script("return document.documentElement.scrollWidth") <= PHONE


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_and_its_pictures_follow_the_scheme(browser: Browser, one: Path, scheme: str) -> None:
    browser.scheme(scheme)
    browser.open(one)
    dark = scheme == "dark"
    assert browser.script("return getComputedStyle(document.body).backgroundColor") == _rgb("paper", dark)
    assert browser.script("return getComputedStyle(document.body).color") == _rgb("ink", dark)
    fills = browser.script(
        "return [...document.querySelectorAll('svg.picture text')].map(text => getComputedStyle(text).fill)"
    )
    assert fills
    assert set(fills) == {_rgb("ink", dark), _rgb("muted", dark)}


@pytest.mark.long
def test_the_page_prints_light_and_with_the_target_of_its_links(browser: Browser, one: Path) -> None:
    browser.scheme("dark")
    browser.open(one)
    paper = browser.command("Page.printToPDF", {"printBackground": True})
    data = base64.b64decode(paper["data"])
    assert data.startswith(b"%PDF-")
    assert len(data) > 20_000
    browser.command(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert browser.script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.script("return getComputedStyle(document.querySelector('.verdict')).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    after = browser.script("return getComputedStyle(document.querySelector('a.raw'), '::after').content")
    assert "raw.jsonl" in after
    browser.command("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.long
def test_a_screen_reader_finds_verdict_landmarks_pictures_and_tables(browser: Browser, one: Path) -> None:
    browser.open(one)
    nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
    named = {(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]}
    roles = [role for role, _ in named]
    headings = [name for role, name in named if role == "heading"]
    assert "GO: hakmem 2.1 % faster than glibc [1.4, 2.8]" in [" ".join(name.split()) for name in headings]
    assert "main" in roles
    pictures = [name for role, name in named if role in ("image", "img")]
    assert len(pictures) == 3
    assert "How much better or worse?" in pictures
    assert ("table", "Medians by side, with 95\u202f% intervals") in named


@pytest.mark.long
def test_the_keyboard_reaches_every_scrolling_table(browser: Browser, one: Path) -> None:
    browser.size(PHONE, 740)
    browser.open(one)
    unreachable = browser.script(
        "return [...document.querySelectorAll('.scroll, pre')]"
        ".filter(e => e.scrollWidth > e.clientWidth && e.tabIndex !== 0).length"
    )
    assert unreachable == 0
    outline = browser.script(
        "const s = document.querySelector('summary'); s.focus({focusVisible: true});"
        "return getComputedStyle(s).outlineStyle + ' ' + getComputedStyle(s).outlineWidth"
    )
    assert outline == "solid 3px"


@pytest.mark.long
def test_the_pictures_text_stays_inside_the_picture(browser: Browser, every: Path) -> None:
    browser.open(every)
    outside = browser.script(
        """
        const found = [];
        for (const svg of document.querySelectorAll('svg.picture')) {
          const box = svg.getBoundingClientRect();
          for (const text of svg.querySelectorAll('text')) {
            const r = text.getBoundingClientRect();
            if (r.left < box.left - 4 || r.right > box.right + 4 || r.top < box.top - 4 || r.bottom > box.bottom + 4)
              found.push(svg.querySelector('title').textContent + ': ' + text.textContent);
          }
        }
        return found;
        """
    )
    assert outside == []


@pytest.mark.long
def test_a_standalone_picture_opens(browser: Browser, tmp_path: Path) -> None:
    run = ab()
    save_picture(run.result, run.runs, tmp_path / "picture.svg")
    browser.scheme("dark")
    browser.open(tmp_path / "picture.svg")
    assert browser.script("return document.documentElement.tagName") == "svg"
    assert browser.script("return getComputedStyle(document.documentElement).backgroundColor") == _rgb("paper", True)


@pytest.mark.long
def test_a_missing_browser_is_a_failure_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(AssertionError, match=r"chromium and chromedriver not found in PATH.*install the packages"):
        Browser()
