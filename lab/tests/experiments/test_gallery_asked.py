"""What the programs of the gallery ask of their allocator: the line of a page, and the table of the index."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Asked, Measure, Row
from hakmem_lab.store.runs import RunFile

ROOT = Path(__file__).resolve().parents[3]
COUNTED = sorted(path.name.removesuffix(".jsonl.gz") for path in gallery.data("allocated/x").parent.glob("*"))


@pytest.fixture(scope="module")
def asked():
    sys.path.insert(0, str(ROOT / "experiments"))
    import gallery_asked as module  # a script in the specs' folder, not a module of the package

    return module


def row(title: str, calls: list[int], seconds: float, word: str, ratio: float, own: list[int] | None = None) -> Row:
    """A program that calls so often on glibc, and takes so long there. word, ratio: of hakmem against it. own: how
    often it calls on hakmem, if not as on glibc."""
    figures = {"hakmem": {"word": word, "ratio": ratio, "ci_low": ratio, "ci_high": ratio}}
    measure = Measure("CPU time", "s", figures, figures, {"glibc": seconds})
    plain = Row(title, title, "g", {}, {"suite": {"reference": "glibc", "subject": "hakmem"}}, (measure,))
    counts = {"glibc": calls, "hakmem": own or calls}
    return replace(plain, asked=Asked(counts, {arm: [2 << 20] for arm in counts}, plain))


def test_a_line_has_the_calls_their_bytes_and_the_rate(asked):
    (line,) = asked.sentence(row("x", [1_500_000] * 2, 0.5, "same", 1.0), server=False)
    assert line == (
        "- An execution calls the allocator 1,500,000 times on glibc, for 2.00 MiB, 3,000,000 calls a second of "
        "processor time; on hakmem as many."
    )


def test_counts_that_differ_are_shown_with_their_range(asked):
    (line,) = asked.sentence(row("x", [1000, 1004], 1.0, "same", 1.0, [1001, 1001]), server=True)
    assert line.startswith("- While its client runs, it calls the allocator 1,000 to 1,004 times on glibc, ")
    assert line.endswith("1,000 calls a second of processor time; on hakmem 1,001.")


def test_without_a_count_there_is_no_line_and_no_rate(asked):
    bare = replace(row("x", [1], 1.0, "same", 1.0), asked=None)
    assert asked.sentence(bare, server=False) == [] and asked.rate(bare) is None and asked.table([bare]) == []


def test_a_program_that_failed_on_hakmem_has_no_place_in_the_table(asked):
    well = row("x", [1000], 1.0, "same", 1.0)
    failed = replace(well, measures=(replace(well.measures[0], by_reference={"hakmem": {"word": "failed"}}),))
    assert asked.rate(failed) == 1000 and asked.table([failed]) == [] and len(asked.table([failed, well])) == 1


def test_the_table_has_a_line_for_each_quarter_by_the_rate(asked):
    words = ["same"] * 4 + ["faster"] * 2 + ["slower", "open"]
    rows = [row(f"p{place}", [1000 * 4**place], 1.0, word, 1 + place / 10) for place, word in enumerate(words)]
    lines = asked.table(rows[::-1])
    assert [line[1:6] for line in lines] == [
        ["2", "0", "0", "2", "0"], ["2", "0", "0", "2", "0"], ["2", "2", "0", "0", "0"], ["2", "0", "1", "0", "1"],
    ]  # fmt: skip
    assert lines[0][0] == "1,000 to 4,000" and lines[0][-1] == "p1 (0.91 ×)"
    assert all(len(line) == len(asked.HEADS) for line in lines)


def test_the_readme_has_both_ends_once_there_are_enough_programs(asked):
    rows = [row(f"p{place}", [10_000 * 8**place], 1.0, "faster" if place == 3 else "same", 1.25) for place in range(4)]
    assert asked.ends(rows[:3]) == []
    (told,) = asked.ends(rows)
    assert told.startswith("Of the 1 programs that call their allocator most, 5,100,000 to 5,100,000 times a second")
    assert "1 are faster than on glibc (median 0.80 ×); of the 1 that call it least, 0 are." in told


@pytest.mark.parametrize("key", COUNTED)
def test_a_published_count_is_of_executions_that_called(key):
    file = RunFile(gallery.data(f"allocated/{key}"))
    assert gallery.judged(key, file) == gallery.ASKED
    found = gallery.asked(key)
    assert found and all(call > 0 for calls in found.calls.values() for call in calls)
    assert {*found.calls} == {*found.bytes} >= {"glibc", "hakmem"}
