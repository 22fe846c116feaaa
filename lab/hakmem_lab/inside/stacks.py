"""The stack on which a sampled block was allocated, the innermost function first, by name where a file tells."""

from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Memory, Unreadable
from hakmem_lab.inside.profile.model import Place
from hakmem_lab.inside.profile.symbols import build_id_of, resolve

DEPTH_MAX = 1024


def of_site(memory: Memory, layout: Layout, site: int) -> list[str]:
    """Empty where nothing is known of it."""
    if not site:
        return []
    try:
        places = [_place(memory, pc) for pc in _return_addresses(memory, layout, site)]
    except Unreadable:
        return []
    names = resolve(places)
    return [_text(name, place) for place in places for name in names.of(place)]


def _text(name, place: Place) -> str:
    where = f" ({name.file}:{name.line})" if name.file else f" ({place.path})" if place.path else ""
    return name.function + (where if name.function != str(place) else "")


def _word(memory: Memory, address: int, size: int) -> int:
    return int.from_bytes(memory.read(address, size), "little")


def _return_addresses(memory: Memory, layout: Layout, site: int) -> list[int]:
    root, piece = layout.root("hak_sites"), layout["HAK_FRAMES_PER_PIECE"]
    depth = min(_word(memory, site + layout["hak_site_t.frame_count"], 4), DEPTH_MAX)
    found = []
    for i in range(depth):
        number = _word(memory, site + layout["hak_site_t.frame"] + 4 * i, 4)
        if number >= piece * layout["HAK_FRAME_PIECES"]:
            raise Unreadable("the table of frames")
        rows = _word(memory, root + layout["hak_sites_t.frames"] + 8 * (number // piece), 8)
        found.append(_word(memory, rows + number % piece * layout["size.hak_frame_t"] + layout["hak_frame_t.pc"], 8))
    return found


def _place(memory: Memory, pc: int) -> Place:
    """Of the call, which is before the address to which it returns."""
    for start, end, path, offset in memory.files():
        if start <= pc - 1 < end:
            file = path.removesuffix(" (deleted)")
            return Place(file, build_id_of(file), pc - 1 - start + offset)
    return Place("", "", pc - 1)
