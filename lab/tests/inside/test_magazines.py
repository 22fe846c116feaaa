"""Reading magazines of free blocks while they change, or from a damaged core."""

import struct

import numpy as np
import pytest

from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Mapping, Unreadable

NONE, SLOTS, SIZE = 0x40, 0x10000, 8
ROWS = {"&hak_no_block": NONE, "HAK_SLICE_SHIFT": 14, "HAK_CHUNK_SHIFT": 21}
OLD, NEXT, NEW = 0x700010, 0x700020, 0x700030
STACK, MAGAZINE = [("head", "<u8"), ("top", "<u8")], [("slots", "<u8"), ("size", "<u4")]


class Page:
    """One page of memory, with a magazine at its start."""

    page = 4096

    def __init__(self, blocks):
        self.data = struct.pack(f"<{1 + len(blocks)}Q", NONE, *blocks).ljust(self.page, b"\0")

    def maps(self):
        return [Mapping(SLOTS, SLOTS + self.page, "rw-p", "")]

    def read(self, address, size):
        if not SLOTS <= address <= address + size <= SLOTS + self.page:
            raise Unreadable(f"{address:#x}")
        return self.data[address - SLOTS : address - SLOTS + size]


def blocks(older, head, count, slots=SLOTS, size=SIZE):
    """(blocks that are read from a bin with this `count`, number of inconsistencies)."""
    reader = Reader(Page(older), Layout(ROWS, [], (), 0, ""))
    top = (slots + 8 * count - 8) % (1 << 64)
    found = reader._stacks(np.array([(head, top)], STACK), np.array([(slots, size)], MAGAZINE))
    return [block for _, each in found for block in each.tolist()], reader.broken


def test_the_newest_block_is_the_bins_and_the_others_stand_in_the_magazine():
    stale = 0x7000F0
    assert blocks([OLD, NEXT, stale], NEW, 3) == ([OLD, NEXT, NEW], 0)
    assert blocks([stale], OLD, 1) == ([OLD], 0)


def test_a_bin_without_a_block():
    assert blocks([OLD], NONE, 0) == ([], 0)
    assert blocks([OLD], NONE, 1) == ([], 0)  # read in the middle of a change
    assert blocks([], NONE, 0, size=0) == ([], 0)


def test_a_full_magazine():
    full = [OLD + 16 * i for i in range(SIZE)]
    assert blocks(full[:-1], full[-1], SIZE) == (full, 0)


@pytest.mark.parametrize("count", [-1, SIZE + 1, 1 << 40])
def test_the_end_of_another_magazine_tells_nothing(count):
    assert blocks([OLD, NEXT], NEW, count) == ([], 0)


@pytest.mark.parametrize("slots", [0, SLOTS + 4096, SLOTS + 4096 - 16, 1 << 62, (1 << 64) - 8])
def test_a_magazine_that_is_nowhere(slots):
    assert blocks([OLD, NEXT], NEW, 3, slots=slots) == ([NEW], 1)


@pytest.mark.parametrize("stray", [0, OLD + 8, 3])
def test_what_is_no_block_is_left_out(stray):
    assert blocks([OLD, stray], NEW, 3) == ([OLD, NEW], 1)


def test_the_depot_has_several_magazines_of_a_class():
    classes, depots, bytes_ = 3, 0x800, 64
    page = Page([OLD, NEXT, OLD + 16])
    shards = [(0, 0)] * 7
    shards[1], shards[1 + classes], shards[2 + classes] = (SLOTS, 2), (SLOTS + 16, 1), (SLOTS, 1)
    data = bytearray(page.data)
    for i, (slots, count) in enumerate(shards):
        struct.pack_into("<8xI4xQI", data, depots + bytes_ * i, count, slots, SIZE)
    page.data = bytes(data)
    sizes = {"size.hak_depot_t": bytes_, "size.hak_magazine_t": 16}
    fields = {"hak_depot_t.count": 8, "hak_depot_t.magazine": 16, "hak_magazine_t.slots": 0, "hak_magazine_t.size": 8}
    numbers = {"&hak_depots": SLOTS + depots, "HAK_DEPOTS": len(shards), "HAK_CLASS_COUNT": classes}
    reader = Reader(page, Layout({**ROWS, **sizes, **fields, **numbers}, [], (), 0, ""))
    found = {cls: each.tolist() for cls, each in reader._depot().items()}
    assert found == {1: [OLD, NEXT, OLD + 16], 2: [OLD]}
