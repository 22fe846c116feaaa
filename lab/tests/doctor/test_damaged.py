"""Damaged program files: the doctor gives one clear line for each, never a traceback, and starts none of them."""

import contextlib
import random
from pathlib import Path

import pytest

from hakmem_lab.doctor import binary, live, program
from hakmem_lab.doctor.binary import Binary
from hakmem_lab.inside.links import Linked
from hakmem_lab.inside.memory import Unreadable
from hakmem_lab.system.allocators import MALLOC
from hakmem_lab.system.scripts import Damaged

SEED = 20261122
CUTS, FLIPS = 100, 100
BASE = 0x7F0000000000


@pytest.fixture(scope="module")
def bump(fakes) -> Binary:
    return binary.read(fakes.allocator)


def examined(path: Path, allocator: Binary) -> list[str]:
    """The findings and remedies of all checks."""
    found = program.checks(program.Program.of(path, {}), allocator)
    said = [text for check in found for text in (check.found, check.remedy) if text]
    assert said
    return said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no ELF file"),
        (b"plain text", "no ELF file"),
        (b"\x7fELF", "damaged"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 9, "damaged"),
        (b"\x7fELF" + b"\xff" * 60, "damaged"),
    ],
)
def test_what_is_hardly_a_file(tmp_path, bump, content, said):
    path = tmp_path / "strange"
    path.write_bytes(content)
    assert said in examined(path, bump)[0]


@pytest.mark.parametrize("kind", ["program", "static_program", "allocator"])
def test_cut_off_anywhere(tmp_path, fakes, bump, kind):
    whole = getattr(fakes, kind).read_bytes()
    draw = random.Random(SEED)
    path = tmp_path / "cut"
    for length in (*range(0, 128, 8), *(draw.randrange(len(whole)) for _ in range(CUTS))):
        path.write_bytes(whole[:length])
        assert examined(path, bump), length


class Flat:
    """The memory of a process that maps the whole file at one place."""

    page = 4096

    def __init__(self, content):
        self.content = content

    def read(self, address, size):
        if not BASE <= address <= BASE + len(self.content) - size:
            raise Unreadable(f"{size} bytes at {address:#x}")
        return self.content[address - BASE :][:size]


@pytest.mark.parametrize("kind", ["program", "allocator"])
def test_bits_flipped_in_headers_and_tables(tmp_path, fakes, bump, kind):
    """Half of the flips are at both ends of the file, where the headers are."""
    whole = getattr(fakes, kind).read_bytes()
    draw = random.Random(SEED)
    path = tmp_path / "flipped"
    for turn in range(FLIPS):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 8)):
            at = draw.choice([draw.randrange(1024), len(whole) - 1 - draw.randrange(2048), draw.randrange(len(whole))])
            content[max(at, 4)] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        assert examined(path, bump), turn
        with contextlib.suppress(*live.UNTOLD):  # the same bytes in the memory of a process
            found = Linked.at(Flat(bytes(content)), BASE)
            assert found is None or all(isinstance(slot.value, int) for slot in found.slots(MALLOC)), turn


def test_a_file_that_cannot_be_read(tmp_path, bump):
    (said,) = examined(tmp_path / "none", bump)
    assert "cannot be read: No such file" in said


def test_damage_is_told_from_other_failures(tmp_path):
    path = tmp_path / "cut"
    path.write_bytes(b"\x7fELF\x02\x01")
    with pytest.raises(Damaged):
        binary.read(path)
    with pytest.raises(OSError, match="directory"):
        binary.read(tmp_path)


def test_a_damaged_program_of_a_command(here, fakes, tmp_path):
    path = tmp_path / "cut"
    path.write_bytes(fakes.program.read_bytes()[:100])
    path.chmod(0o755)
    answer = here("doctor", "--allocator", fakes.allocator, "--", path)
    assert answer.status == 1
    assert answer.out.startswith(f"not served: {path}")
    assert answer.err == ""


def test_a_damaged_allocator_is_bad_input(here, fakes, tmp_path):
    path = tmp_path / "libcut.so"
    path.write_bytes(fakes.allocator.read_bytes()[:100])
    answer = here("doctor", "--allocator", path, "--", fakes.program)
    assert (answer.status, "libcut.so cannot be preloaded" in answer.message()) == (2, True)
