"""Lists of free blocks that are read while they change, or from a damaged core: they end."""

import struct

import pytest

from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Pages, Unreadable

KEY, END, BASE = 0x8123456789ABCDE1, 0x40, 0x10000
ROWS = {"hak_free_block_t.link": 0, "hak_free_block_t.tag": 8, "&hak_list_end": END}


class Page:
    """One page of memory; `links`: block -> the next one, each with its tag."""

    page = 4096

    def __init__(self, links):
        data = bytearray(self.page)
        for block, link in links.items():
            struct.pack_into("<QQ", data, block - BASE, link, link ^ KEY)
        self.data = bytes(data)

    def read(self, address, size):
        if address != BASE or size != self.page:
            raise Unreadable(f"{address:#x}")
        return self.data


def walk(links, head):
    """(the blocks, how many lists were broken)."""
    reader = Reader.__new__(Reader)
    reader.layout, reader.broken = Layout(ROWS, [], (), 0, ""), 0
    return reader._walk(Pages(Page(links)), head, KEY).tolist(), reader.broken


A, B, C = BASE + 16, BASE + 320, BASE + 64


def test_a_list_ends_at_its_end():
    assert walk({A: B, B: C, C: END}, A) == ([A, B, C], 0)
    assert walk({}, END) == ([], 0)


@pytest.mark.parametrize("back", [A, B, C])
def test_a_circle_ends(back):
    assert walk({A: B, B: C, C: back}, A) == ([A, B, C], 1)


@pytest.mark.parametrize("away", [BASE + 4096, 1 << 62, A + 8, BASE + 2048])
def test_what_leads_away_ends_the_list(away):
    """To where nothing is, where no block begins, and where none is linked."""
    assert walk({A: B, B: away}, A) == ([A, B], 1)
