"""The stack on which a sampled block was allocated, the innermost function first, by name where a file tells."""

import numpy as np

from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Memory, Unreadable
from hakmem_lab.inside.profile.model import Place
from hakmem_lab.inside.profile.places import copies, places, return_addresses
from hakmem_lab.inside.profile.symbols import resolve

DEPTH_MAX = 1024


def of_site(memory: Memory, layout: Layout, site: int) -> list[str]:
    """Empty where nothing is known of it."""
    if not site:
        return []
    try:
        pcs = _return_addresses(memory, layout, site)
        known = places(memory, pcs)
    except (Unreadable, IndexError):
        return []
    names = resolve(known.values(), copies(memory))
    return [_text(name, known[pc]) for pc in pcs for name in names.of(known[pc])]


def _text(name, place: Place) -> str:
    where = f" ({name.file}:{name.line})" if name.file else f" ({place.path})" if place.path else ""
    return name.function + (where if name.function != str(place) else "")


def _word(memory: Memory, address: int, size: int) -> int:
    return int.from_bytes(memory.read(address, size), "little")


def _return_addresses(memory: Memory, layout: Layout, site: int) -> list[int]:
    depth = min(_word(memory, site + layout["hak_site_t.frame_count"], 4), DEPTH_MAX)
    numbers = np.frombuffer(memory.read(site + layout["hak_site_t.frame"], 4 * depth), "<u4")
    return return_addresses(memory, layout)[numbers].tolist()
