"""The page of hak heap explain --html: in text, and in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_browser import Browser

from hakmem_lab.cli.inspect import report
from hakmem_lab.errors import LabError
from hakmem_lab.inside.explain import SCHEMA
from hakmem_lab.show.report import write_reading
from hakmem_lab.show.report.readings import heap as render

pytestmark = pytest.mark.xdist_group("browser")
HOSTILE = "</script><img src=x onerror=\"document.title='taken'\">"
OWNERS = ("live blocks", "rounding", "free in slabs", "waiting for decay", "stacks", "other anonymous memory")


def reading(chunks: int = 40, name: str = "worker") -> dict:
    sizes = [52000, 1200, 8100, 2300, 88, 640]
    row = {"slabs": 12, "live_blocks": 9000, "cached_blocks": 40, "depot_blocks": 3, "free_blocks": 777}
    row |= {"live_kib": 900, "rounding_kib": 20, "resident_kib": 1700, "mean_asked": 101.5}
    cells = ["0123456789rhd-o." + "0123456789rhd-s.", "9" * 32, "h" * 32, "5" * 16 + "-" * 16]
    return {
        "pid": 4711,
        "time": "2026-11-22T09:00:00+00:00",
        "stopped": False,
        "counters": {"difference_kib": 64},
        "rss_kib": sum(sizes),
        "sum_kib": sum(sizes),
        "rows": [{"owner": owner, "kib": size} for owner, size in zip(OWNERS, sizes, strict=True)],
        "classes": [row | {"block_bytes": 112}, row | {"block_bytes": None, "mean_asked": None}],
        "threads": [{"thread": 4711, "name": name, "cached_kib": 500, "cached_blocks": 900}],
        "wastes": [{"what": "free memory that waits for its decay", "kib": 2300, "remedy": "hak_trim(0)"}],
        "map": [{"base": hex(i << 21), "chunks": 1, "cells": cells[i % 4]} for i in range(chunks)],
    }


def alike(chunks: int) -> list[dict]:
    """A map in which every chunk has cells of a single kind, so that drawing it is quick."""
    return [row | {"cells": "9" * 32} for row in reading(chunks)["map"]]


def test_a_large_heap_is_drawn_in_part_and_says_so():
    text = render(reading(chunks=700))
    assert "The first 1,024 MiB are drawn, 376 MiB more are not." in text
    assert "are not." not in render(reading() | {"map": alike(chunks=512)})
    assert len(text) < 2_000_000


def test_a_heap_without_chunks_has_one_picture():
    assert render(reading(chunks=0)).count("<svg") == 1


def test_hak_report_of_a_reading(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    written, page = tmp_path / "before.json", tmp_path / "heap.html"
    written.write_text(json.dumps(reading() | {"schema": SCHEMA}), encoding="utf-8")
    report([str(written)], page)
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text(encoding="utf-8") == render(reading() | {"schema": SCHEMA})


def test_hak_report_of_another_json(tmp_path: Path) -> None:
    written = tmp_path / "other.json"
    written.write_text("{}", encoding="utf-8")
    with pytest.raises(LabError, match=r"hak runs report: .*other\.json is no reading of this version: write one with"):
        report([str(written)], tmp_path / "heap.html")


def test_the_page_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "heap.html"
    write_reading(reading(name=HOSTILE), page, "--html")
    browser.size(1200, 900)
    browser.scheme("dark")
    browser.driver.get_log("browser")
    browser.open(page)
    assert browser.driver.get_log("browser") == []
    assert browser.driver.title == "Memory of process 4711"
    assert browser.script("return document.querySelectorAll('svg.picture').length") == 2
    assert browser.script("return document.querySelectorAll('img, script:not([type])').length") == 0
    held = json.loads(browser.script("return document.querySelector('#reading').textContent"))
    assert held == reading(name=HOSTILE)
    drawn = browser.script(
        "return [...document.querySelectorAll('svg.picture')[1].querySelectorAll('path')]"
        ".map(path => path.getAttribute('d').split('M').length - 1).reduce((a, b) => a + b)"
    )
    assert drawn > 40  # runs of like cells
    cut = browser.script(
        "const cut = (svg, text) => { const a = text.getBoundingClientRect(), b = svg.getBoundingClientRect();"
        " return a.left < b.left - 0.5 || a.right > b.right + 0.5 || a.bottom > b.bottom + 0.5; };"
        "return [...document.querySelectorAll('svg.picture')]"
        ".flatMap(svg => [...svg.querySelectorAll('text')].filter(text => cut(svg, text)).map(t => t.textContent))"
    )
    assert cut == []


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    page = tmp_path / "heap.html"
    write_reading(reading(), page, "--html")
    browser.size(width, 740)
    browser.scheme("light")
    browser.open(page)
    browser.script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.script("return document.documentElement.scrollWidth") <= width
