"""The heap as cells, one a slab's place (64 KiB): who has it, and how full it is."""

import numpy as np

from hakmem_lab.inside import objects
from hakmem_lab.inside.objects import Heap
from hakmem_lab.inside.owners import Reading

CHUNKS_MAX = 4096  # 8 GiB; of a larger heap, the first
# '0' .. '9': slabs by the share of their carved blocks that is live. The others:
NOBODY, RUN, HUGE, DIRTY, CLEAN, SAMPLED, OTHER = ".rhd-so"
LETTERS = {objects.RUN: RUN, objects.HUGE: HUGE, objects.DIRTY: DIRTY, objects.CLEAN: CLEAN}
LETTERS |= {objects.SAMPLED: SAMPLED, objects.UNKNOWN: OTHER}


def cells(heap: Heap, reading: Reading) -> list[dict]:
    """One row a chunk: its address and a letter for each 64 KiB."""
    layout, chunks = heap.layout, heap.chunks
    per_chunk = 1 << layout["HAK_CHUNK_SHIFT"] - layout["HAK_SLAB_SHIFT"]
    shares: dict[int, int] = {}
    for each in reading.classes.values():
        bases, carved = heap.slabs.base[each.slabs].tolist(), np.maximum(heap.slabs.carved[each.slabs], 1)
        shares |= dict(zip(bases, np.minimum(each.live_in * 10 // carved, 9).tolist(), strict=True))
    found = []
    order = np.argsort(chunks.base)[:CHUNKS_MAX]
    for i in order.tolist():
        base = int(chunks.base[i])
        if chunks.state[i] == layout["HAK_CHUNK_SLICED"]:
            kinds = chunks.slices[i].reshape(per_chunk, -1).max(axis=1).tolist()
            each_base = (base + (j << layout["HAK_SLAB_SHIFT"]) for j in range(per_chunk))
            row = "".join(
                str(shares[at]) if at in shares else LETTERS.get(kind, NOBODY)
                for at, kind in zip(each_base, kinds, strict=True)
            )
            found.append({"base": hex(base), "chunks": 1, "cells": row})
        else:
            huge = chunks.state[i] == layout["HAK_CHUNK_HUGE"]
            letter = HUGE if huge else DIRTY if chunks.dirty[i] else CLEAN
            found.append({"base": hex(base), "chunks": int(chunks.count[i]), "cells": letter * per_chunk})
    return found
