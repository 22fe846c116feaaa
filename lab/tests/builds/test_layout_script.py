"""The shuffled order of functions: each appears once, in its group, and the order depends only on the seed."""

import re

from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.plan.project import GROUPS, linker_script, sections_of, seeds

NAMES = st.lists(st.from_regex(r"[a-z]{1,6}(\.lto_priv\.0)?", fullmatch=True), max_size=30, unique=True)
MAP = """\
 .text          0x0000000000003000       0x10 crti.o
 .text.unlikely.hak_free
                0x0000000000003480        0x9 a.ltrans0.o
 .text.hak_free
                0x0000000000003490       0x90 a.ltrans0.o
 .text.hak_free
                0x0000000000003490       0x90 b.ltrans0.o
 *(.text.unlikely .text.*_unlikely)
 .text.startup.main 0x00 0x10 c.o
"""


def order(script):
    return re.findall(r"\*\((\.text[^)]*)\)", script)


def paddings(script):
    return [int(number) for number in re.findall(r"\. = \. \+ (\d+);", script)]


def group(section):
    return next(index for index, prefix in enumerate(GROUPS) if section.startswith(prefix))


@given(NAMES, st.sampled_from(GROUPS), st.integers(0, 2**31))
def test_every_section_once_and_groups_kept_apart(names, prefix, seed):
    sections = sorted({f".text.{name}" for name in names} | {prefix + name for name in names})
    placed = order(linker_script(sections, seed))
    assert sorted(placed) == sections
    assert [group(section) for section in placed] == sorted(group(section) for section in sections)


def test_a_seed_is_an_order_and_an_alignment():
    sections = [f".text.f{index}" for index in range(50)]
    first, again, other = (linker_script(sections, seed) for seed in (1, 1, 2))
    assert first == again
    assert linker_script(sections[::-1], 1) == first
    assert order(first) != order(other)
    assert set(paddings(first)) == {0, 16, 32, 48}
    assert paddings(first) != paddings(other)


def test_the_default_script_of_the_linker_stays():
    assert linker_script([], 0).rstrip().endswith("INSERT BEFORE .text;")


def test_sections_of_a_linker_map():
    assert sections_of(MAP) == [".text.unlikely.hak_free", ".text.hak_free", ".text.startup.main"]


@given(st.integers(0, 2**63 - 1), st.integers(1, 50))
def test_seeds_of_a_run_differ_and_repeat(seed, count):
    drawn = seeds(seed, count)
    assert len(set(drawn)) == count
    assert seeds(seed, count) == drawn
