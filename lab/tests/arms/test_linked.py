"""`hak compare --link`: static programs on musl, each with the malloc of its side."""

import shlex
import shutil

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan import linked

SOURCE = "#include <stdlib.h>\nint main(void) { free(malloc(100)); return 0; }\n"
# In place of an allocator: the symbol by which it is known, and a malloc.
OBJECT = """#include <stddef.h>
{proof}
static char memory[1 << 20], *next = memory;
void *malloc(size_t size) {{ char *found = next; next += (size + 15) / 16 * 16; return found; }}
void free(void *block) {{ (void)block; }}
"""
PROOFS = {"hakmem": "const char hak_override_present = 1;", "mimalloc": "void mi_malloc(void) {{}}"}
LINE = "musl-gcc -static -o {program} program.c {archive}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program, in which archives stand for those of the checkout."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl-gcc here: apt-get install musl-tools")
    (tmp_path / "program.c").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def archives(folder, monkeypatch):
    made = {}
    for side, proof in PROOFS.items():
        (folder / f"{side}.c").write_text(OBJECT.format(proof=proof.replace("{{}}", "{}")))
        made[side] = (f"{side}.a", "")
        line = f"musl-gcc -fno-builtin -c {side}.c -o {side}.o && ar rcs {side}.a {side}.o"
        linked.project.output(["sh", "-c", line], folder, "archive")
    monkeypatch.setattr(linked, "ARCHIVES", made)
    monkeypatch.setattr(linked.project, "roots", lambda: [folder])


SIDES = ("musl", "hakmem", "mimalloc")


def test_each_side_runs_a_program_of_its_own(archives):
    found = linked.commands(LINE, SIDES, ["{program}", "1"])
    assert [words[1:] for words in found] == [["1"]] * 3
    assert [words[0].split("/")[-2:] for words in found] == [[side, "program"] for side in SIDES]


def test_a_program_that_is_linked_again_stays_the_same_file(archives):
    (first, _), (again, _) = (linked.commands(LINE, ("musl", "hakmem"), ["{program}"]) for _ in range(2))
    before = linked.Path(first[0]).stat().st_ino
    assert first == again
    linked.commands(LINE, ("musl", "hakmem"), ["{program}"])
    assert linked.Path(first[0]).stat().st_ino == before


def test_the_linker_puts_the_archive_first(archives, monkeypatch):
    monkeypatch.setenv("CC", "musl-gcc")
    linked.commands("{linker} -static -o {program} program.c", SIDES, ["{program}"])


def test_the_linker_ends_with_the_last_file_of_the_compiler(archives, folder, monkeypatch):
    """That file ends the unwind tables."""
    (folder / "cc").write_text('#!/bin/sh\necho "$@" >>words\nexec musl-gcc "$@"\n')
    (folder / "cc").chmod(0o755)
    monkeypatch.setenv("CC", str(folder / "cc"))
    linked.commands("{linker} -static -o {program} program.c", SIDES, ["{program}"])
    assert [line.split()[-1] for line in (folder / "words").read_text().splitlines()] == ["program.c"] * 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("musl-gcc -static -o {program} program.c; : {archive}", "hakmem: its malloc is that of musl"),
        ("musl-gcc -static -s -o {program} program.c {archive}", "musl: its symbols do not tell"),
        ("musl-gcc -o {program} program.c {archive}", "musl: the program is not static"),
        ("cc -o {program} program.c {archive}", "musl: the program is not static"),
        ("echo 1 > {program} {archive}", "musl: what the line has made is no program"),
        ("true {program} {archive}", r"musl: the line has made no \{program\}"),
        ("musl-gcc -static -o {program} nothing.c {archive}", "musl: .*nothing.c"),
        ("musl-gcc -static -o {program} program.c", r"must name \{program\}, and \{archive\} or \{linker\}"),
        ("musl-gcc -static program.c {archive}", r"must name \{program\}, and"),
    ],
)
def test_a_line_that_does_not_link_each_side_with_its_malloc_is_refused(archives, line, message):
    with pytest.raises(LabError, match=message):
        linked.commands(line, SIDES, ["{program}"])


@pytest.mark.parametrize(
    ("sides", "words", "message"),
    [
        (("musl", "jemalloc"), ["{program}"], "there is no side 'jemalloc'"),
        (("musl", "musl"), ["{program}"], "two or more different sides"),
        (("musl",), ["{program}"], "two or more different sides"),
        (SIDES, ["./program"], r"hak compare --link LINE -- \{program\}"),
    ],
)
def test_mistakes_are_refused_before_anything_is_linked(sides, words, message):
    with pytest.raises(LabError, match=message):
        linked.commands(LINE, sides, words)


def test_an_archive_that_is_not_built_is_named_with_what_builds_it(monkeypatch, capsys):
    monkeypatch.setattr(linked.project, "roots", list)
    with pytest.raises(LabError, match="not built: make musl"):
        linked.archive_of("hakmem")
    assert linked.those_there() == ["musl"]
    assert "bench/peers/build --musl" in capsys.readouterr().err


def test_the_sides_of_a_comparison_have_the_names_of_their_allocators(here, archives, records):
    flags = ("--metric", "faults", "--repeat", "1", "--warm-up", "0", "--max-blocks", "7", "--schedule", "one-by-one")
    answer = here("compare", "--link", LINE, *flags, "--quiet", "--json", "-", "--", "{program}")
    assert [arm["name"] for arm in answer.result()["arms"]] == [*SIDES]
    (header,) = records("header")
    assert [shlex.split(" ".join(arm["command"]))[0].split("/")[-2] for arm in header["arms"]] == [*SIDES]
