"""Reads the objects of a heap.

A live process changes them meanwhile, so inconsistent objects are left out, and pointers and counts are checked before
they are followed.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from hakmem_lab.inside import regions
from hakmem_lab.inside.layout import (
    ABSENT,
    CLEAN,
    DIRTY,
    HUGE,
    MIXED,
    RUN,
    SAMPLED,
    SLAB,
    UNKNOWN,
    Cache,
    Chunks,
    Heap,
    Layout,
    Mixed,
    Runs,
    Sample,
    Slabs,
)
from hakmem_lab.inside.memory import Mapped, Memory, Unreadable, word

WRITABLE = 2  # state of a piece of a leaf that may have been written
LINKED_MAX = 1 << 20  # objects of a linked list
WORD = 8


class Reader:
    """Reads one heap, once."""

    def __init__(self, memory: Memory, layout: Layout):
        self.memory, self.layout, self.broken = memory, layout, 0
        self.slice = 1 << layout["HAK_SLICE_SHIFT"]
        self.chunk = 1 << layout["HAK_CHUNK_SHIFT"]
        self.per_chunk = self.chunk // self.slice
        self._mapped = Mapped(memory)

    def word(self, address: int) -> int:
        return word(self.memory, address)

    def record(self, type_: str, names: Sequence[tuple[str, str | np.dtype]]) -> np.dtype:
        """A dtype with these fields of a structure."""
        layout = self.layout
        return np.dtype(
            {
                "names": [name for name, _ in names],
                "formats": [format_ for _, format_ in names],
                "offsets": [layout[f"{type_}.{name}"] for name, _ in names],
                "itemsize": layout[f"size.{type_}"],
            }
        )

    def structures(self, dtype: np.dtype, address: int, count: int = 1) -> np.ndarray:
        return np.frombuffer(self.memory.read(address, dtype.itemsize * count), dtype)

    def read(self) -> Heap:
        leaves, self._samples, self._regions = self._leaves(), self._records(), regions.read(self)
        chunks, descriptors = self._chunks(leaves)
        slabs, rows = self._slabs(chunks, descriptors)
        runs = self._slices(chunks, descriptors, slabs, rows)
        leaf_bytes = self.layout["size.hak_leaf_t"]
        caches = self._caches()
        return Heap(
            self.layout, chunks, slabs, self._mixed(descriptors), runs, caches, self._depot(), self._pieces(),
            [(at, leaf_bytes) for at in leaves.values()], self.counters(), self._samples, self._regions,
            self.broken,
        )  # fmt: skip

    def counters(self) -> dict[str, int]:
        root, prefix = self.layout.root("hak_arena"), "hak_arena_t."
        names = [name.removeprefix(prefix) for name in self.layout.rows if name.startswith(prefix)]
        return {name: self.word(root + self.layout[prefix + name]) for name in names}

    def linked(self, at: int, next_at: int, size: int) -> Iterator[tuple[int, bytes]]:
        """(address, bytes) of the objects in a linked list. next_at: offset of the link in an object."""
        seen = set[int]()
        while at and at not in seen and len(seen) < LINKED_MAX:
            seen.add(at)
            try:
                data = self.memory.read(at, size)
            except Unreadable:
                self.broken += 1
                return
            yield at, data
            at = int.from_bytes(data[next_at : next_at + WORD], "little")

    # The page map

    def _leaves(self) -> dict[int, int]:
        """Number -> address."""
        layout = self.layout
        count = layout["HAK_LEAVES"]
        if not 0 < count <= 1 << 20:
            raise Unreadable("the page map")
        table = np.frombuffer(self.memory.read(layout.root("hak_leaves"), 8 * count), "<u8")
        shift = layout["HAK_LEAF_SHIFT"] - layout["HAK_SLICE_SHIFT"]
        mask = (1 << 64) - 1
        return {int(i): (int(table[i]) + (int(i) << shift)) & mask for i in np.flatnonzero(table)}

    def _pointers(self, leaf: int, pieces: bytes) -> np.ndarray:
        """A descriptor or 0 for each chunk of the leaf. Pieces that were never written are not read."""
        layout, size = self.layout, self.layout["HAK_LEAF_PIECE_BYTES"]
        first = layout["hak_leaf_t.chunks"]
        count = 1 << layout["HAK_LEAF_SHIFT"] - layout["HAK_CHUNK_SHIFT"]
        table = np.zeros(count * 8, np.uint8)
        for at in range(first, first + count * 8, size):
            if pieces[at // size] == WRITABLE:
                table[at - first : at - first + size] = np.frombuffer(self.memory.read(leaf + at, size), np.uint8)
        return table.view("<u8")

    def _codes(self, leaf: int, pieces: bytes, index: int) -> np.ndarray:
        """The classes of one chunk's slices."""
        at = index * self.per_chunk
        if pieces[at // self.layout["HAK_LEAF_PIECE_BYTES"]] != WRITABLE:
            return np.zeros(self.per_chunk, np.uint8)
        place = leaf + self.layout["hak_leaf_t.codes"] + at
        codes = np.frombuffer(self.memory.read(place, self.per_chunk), np.uint8)
        huge, beyond = self.layout["HAK_CODE_HUGE"], self.layout["HAK_CLASS_HUGE"] - self.layout["HAK_CODE_HUGE"]
        return np.where(codes < huge, codes // self.layout["HAK_BIN_WORDS"], codes + np.uint8(beyond % 256))

    def _chunks(self, leaves: dict[int, int]) -> tuple[Chunks, np.ndarray]:
        layout = self.layout
        masks = [(name, "16u1") for name in ("present", "free", "dirty", "transit")]
        words = [(name, "<u8") for name in ("base", "slabs", "chunks", "huge_bytes")]
        dtype = self.record("hak_chunk_t", [*masks, *words, ("state", "u1")])
        states = {layout["HAK_CHUNK_SLICED"], layout["HAK_CHUNK_FREE"], layout["HAK_CHUNK_HUGE"]}
        found, codes = [], []
        for number, leaf in sorted(leaves.items()):
            pieces = self.memory.read(leaf + layout["hak_leaf_t.pieces"], layout["HAK_LEAF_PIECES"])
            pointers = self._pointers(leaf, pieces)
            for index in np.flatnonzero(pointers).tolist():
                base = (number << layout["HAK_LEAF_SHIFT"]) + index * self.chunk
                try:
                    row = self.structures(dtype, int(pointers[index]))
                    if row["base"][0] != base or int(row["state"][0]) not in states:
                        continue  # the inside of a huge block, a chunk that is gone, or a change under way
                    codes.append(self._codes(leaf, pieces, index))
                    found.append(row)
                except Unreadable:
                    self.broken += 1
        rows = np.concatenate(found) if found else np.zeros(0, dtype)
        rows, kept = self._without_ends(rows)
        dirty: np.ndarray = np.any(rows["dirty"], axis=1) if len(rows) else np.zeros(0, bool)
        count = np.where(rows["state"] == layout["HAK_CHUNK_SLICED"], 1, rows["chunks"])
        each = np.array(codes, np.uint8).reshape(-1, self.per_chunk)[kept]
        nobodys = np.full((len(rows), self.per_chunk), ABSENT, np.uint8)
        return Chunks(rows["base"], rows["state"], count, dirty, nobodys, each), rows

    def _without_ends(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drop the last chunks of free extents, which have their own descriptors; overlaps; and unmapped chunks."""
        keep, end = np.ones(len(rows), bool), 0
        sliced = self.layout["HAK_CHUNK_SLICED"]
        for i in np.argsort(rows["base"], kind="stable").tolist():
            base, chunks = int(rows["base"][i]), int(rows["chunks"][i])
            if rows["state"][i] == sliced:
                chunks = 1
            if base < end or chunks <= 0 or not self._mapped.has(base, chunks * self.chunk):
                keep[i] = False
                continue
            end = base + chunks * self.chunk
        return rows[keep], np.flatnonzero(keep)

    # The owners of slices

    def _slabs(self, chunks: Chunks, descriptors: np.ndarray) -> tuple[Slabs, np.ndarray]:
        """The slabs, and for each the number of its chunk."""
        layout = self.layout
        words = layout["HAK_BITS_WORDS"]
        names = [("cls", "u1"), ("slices", "u1"), ("zeroed", "u1"), ("carved", "<u4")]
        names += [("blocks", "<u4"), ("base", "<u8"), ("bits", f"({words * 8},)u1")]
        dtype = self.record("hak_slab_t", names)
        per_chunk = 1 << layout["HAK_CHUNK_SHIFT"] - layout["HAK_SLAB_SHIFT"]
        found, owner = [], []
        for i in np.flatnonzero(descriptors["state"] == layout["HAK_CHUNK_SLICED"]).tolist():
            try:
                rows = self.structures(dtype, int(descriptors["slabs"][i]) + layout["hak_slabs_t.slab"], per_chunk)
            except Unreadable:
                self.broken += 1
                continue
            # The first descriptor may be that of any place.
            offset, shift = rows["base"] - chunks.base[i], np.uint64(layout["HAK_SLAB_SHIFT"])
            place = offset >> shift
            inside = (offset == place << shift) & (place < per_chunk)
            mine = (rows["cls"] > 0) & (rows["cls"] < layout["HAK_RUN_FIRST"]) & inside
            first = chunks.codes[i].reshape(per_chunk, -1)[:, 0][np.where(inside, place, 0).astype(int)]
            kept = rows[mine & (first == rows["cls"])]
            found.append(kept)
            owner.append(np.full(len(kept), i))
        rows = np.concatenate(found) if found else np.zeros(0, dtype)
        sizes = np.array([*layout.class_sizes, 1], np.int64)[rows["cls"]] if len(rows) else np.zeros(0, np.int64)
        room = (rows["slices"].astype(np.int64) << layout["HAK_SLICE_SHIFT"]) // np.maximum(sizes, 1)
        blocks = np.minimum(rows["blocks"], np.minimum(room, words * 64)).astype(np.int64)
        slabs = Slabs(
            rows["base"], rows["cls"], rows["slices"], np.minimum(rows["carved"], blocks), blocks,
            rows["zeroed"].astype(bool), rows["bits"],
        )  # fmt: skip
        return slabs, np.concatenate(owner) if owner else np.zeros(0, int)

    def _mixed(self, descriptors: np.ndarray) -> Mixed:
        layout = self.layout
        if "HAK_CLASS_MIXED" not in layout:  # an older library
            return Mixed(np.zeros(0, np.uint64), np.zeros(0, int), np.zeros(0, bool))
        places, size = layout["HAK_BITS_WORDS"] * 64, 1 << layout["HAK_SLAB_SHIFT"]
        names = [("cls", "u1"), ("base", "<u8"), ("mixed", "<u8"), ("bits", f"({places // 8},)u1")]
        dtype = self.record("hak_slab_t", names)
        per_chunk = 1 << layout["HAK_CHUNK_SHIFT"] - layout["HAK_SLAB_SHIFT"]
        address, cls, free = [np.zeros(0, np.uint64)], [np.zeros(0, int)], [np.zeros(0, bool)]
        for each in descriptors[descriptors["state"] == layout["HAK_CHUNK_SLICED"]]:
            try:
                rows = self.structures(dtype, int(each["slabs"]) + layout["hak_slabs_t.slab"], per_chunk)
                for row in rows[rows["cls"] == layout["HAK_CLASS_MIXED"]]:
                    data = self.memory.read(int(row["mixed"]) + layout["hak_mixed_t.cls"], places)
                    classes = np.frombuffer(data, np.uint8)
                    at = np.flatnonzero((classes > 0) & (classes < layout["HAK_RUN_FIRST"]))
                    address.append(row["base"] + (at * (size // places)).astype(np.uint64))
                    cls.append(classes[at].astype(int))
                    free.append(np.unpackbits(row["bits"], bitorder="little").astype(bool)[at])
            except Unreadable:
                self.broken += 1
        return Mixed(np.concatenate(address), np.concatenate(cls), np.concatenate(free))

    def _slices(self, chunks: Chunks, descriptors: np.ndarray, slabs: Slabs, owner: np.ndarray) -> Runs:
        """Write the owner of each slice into chunks.slices; return the blocks of whole slices."""
        layout = self.layout
        masks = {
            name: np.unpackbits(descriptors[name], axis=1, bitorder="little").astype(bool)
            for name in ("present", "free", "dirty", "transit")
        }
        kinds = np.where(masks["present"], UNKNOWN, ABSENT).astype(np.uint8)
        kinds[masks["free"]] = CLEAN
        kinds[(masks["free"] & masks["dirty"]) | masks["transit"]] = DIRTY
        sliced = descriptors["state"] == layout["HAK_CHUNK_SLICED"]
        kinds[~sliced] = ABSENT
        kinds[(kinds == UNKNOWN) & (chunks.codes == layout["HAK_CLASS_SAMPLED"])] = SAMPLED
        kinds[(kinds == UNKNOWN) & (chunks.codes == layout.rows.get("HAK_CLASS_MIXED", -1))] = MIXED
        chunks.slices[:] = kinds
        flat = chunks.slices.reshape(-1)
        first = owner * self.per_chunk + ((slabs.base - chunks.base[owner]) // np.uint64(self.slice)).astype(int)
        for i in range(int(slabs.slices.max(initial=0))):
            flat[(first + i)[slabs.slices > i]] = SLAB
        regions.mark(layout, chunks, self._regions)
        self._sampled(chunks, sliced)
        return self._runs(chunks, descriptors, sliced)

    def _sampled(self, chunks: Chunks, sliced: np.ndarray) -> None:
        """Sampled runs and huge blocks get their class back, for `_runs`; smaller sampled blocks own their slices."""
        layout = self.layout
        place = {base: i for i, base in enumerate(chunks.base.tolist())}
        for address, sample in self._samples.items():
            i = place.get(address - address % self.chunk)
            j = address % self.chunk // self.slice
            if i is None or chunks.codes[i, j] != layout["HAK_CLASS_SAMPLED"]:
                continue
            if sample.cls >= layout["HAK_RUN_FIRST"]:
                chunks.codes[i, j] = sample.cls
                chunks.slices[i, j] = UNKNOWN if sliced[i] else ABSENT
            elif sliced[i]:
                row = chunks.slices[i, j : j + -(-layout.class_sizes[sample.cls] // self.slice)]
                row[row == UNKNOWN] = SAMPLED

    def _records(self) -> dict[int, Sample]:
        layout = self.layout
        words = [(name, "<u8") for name in ("block", "asked", "site", "bytes")]
        names = [*words, ("weight_bytes", "<f8"), *((name, "<u4") for name in ("cls", "thread", "live"))]
        dtype, found = self.record("hak_sample_t", names), dict[int, Sample]()
        count, next_at, first = layout["HAK_RECORDS"], layout["hak_records_t.next"], layout["hak_records_t.sample"]
        size = max(next_at + WORD, first + count * dtype.itemsize)
        for _, data in self.linked(self.word(layout.root("hak_records")), next_at, size):
            rows = np.frombuffer(data, dtype, count, first)
            for row in rows[(rows["live"] != 0) & (rows["cls"] <= layout["HAK_CLASS_HUGE"])]:
                asked, cls, site, size = (int(row[name]) for name in ("asked", "cls", "site", "bytes"))
                found[int(row["block"])] = Sample(asked, cls, site, size, float(row["weight_bytes"]))
        return found

    def _runs(self, chunks: Chunks, descriptors: np.ndarray, sliced: np.ndarray) -> Runs:
        layout = self.layout
        first, last, huge = layout["HAK_RUN_FIRST"], layout["HAK_CLASS_COUNT"], layout["HAK_CLASS_HUGE"]
        used = (chunks.slices == UNKNOWN) | (~sliced)[:, None]
        starts = used & (((chunks.codes >= first) & (chunks.codes < last)) | (chunks.codes == huge))
        base, cls, usable, held, tails = [], [], [], [], {}
        for i, j in np.argwhere(starts).tolist():
            each, whole = int(chunks.codes[i, j]), 0
            size = int(descriptors["huge_bytes"][i]) if each == huge else layout.class_sizes[each]
            slices = -(-size // self.slice)
            if not sliced[i]:
                whole = int(chunks.count[i]) * self.per_chunk
                tails[int(chunks.base[i]) + whole * self.slice] = max(slices - whole, 0)
            else:
                slices = min(slices, self.per_chunk - j)
                chunks.slices[i, j : j + slices] = HUGE if each == huge else RUN
            base.append(int(chunks.base[i]) + j * self.slice)
            cls.append(each)
            usable.append(size)
            held.append(max(whole, slices) * self.slice)
        for i in np.flatnonzero(sliced & np.isin(chunks.base, np.array([*tails], np.uint64))).tolist():
            row = chunks.slices[i, : tails[int(chunks.base[i])]]
            row[row == UNKNOWN] = HUGE
        return Runs(np.array(base, np.uint64), np.array(cls, int), np.array(usable, np.int64), np.array(held, np.int64))

    # Free blocks outside the slabs

    def _array(self, slots: int, count: int) -> np.ndarray:
        """The `count` oldest blocks of a magazine. In a live process it may have been replaced meanwhile."""
        try:
            if not self._mapped.has(slots, (count + 1) * WORD):
                raise Unreadable(f"a magazine at {slots:#x}")
            found = np.frombuffer(self.memory.read(slots + WORD, count * WORD), "<u8")
        except Unreadable:
            self.broken += 1
            return np.zeros(0, np.uint64)
        fits = (found != 0) & (found % 16 == 0)
        self.broken += not fits.all()
        return found[fits]

    def _stacks(self, stacks: np.ndarray, magazines: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """(number, blocks) of every stack that has blocks: the newest is `head`, the others are in the magazine up to
        `top`. During a change, `head` and `top` may belong to two magazines; an impossible count is skipped."""
        counts = (stacks["top"] + np.uint64(WORD) - magazines["slots"]) // np.uint64(WORD)
        some = (counts > 0) & (counts <= magazines["size"]) & (stacks["head"] != self.layout.root("hak_no_block"))
        for i in np.flatnonzero(some).tolist():
            older = self._array(int(magazines["slots"][i]), int(counts[i]) - 1)
            yield i, np.append(older, stacks["head"][i])

    def _caches(self) -> list[Cache]:
        layout, first = self.layout, self.word(self.layout.root("hak_heaps_all"))
        heaps = self.linked(first, layout["hak_heap_t.next"], layout["size.hak_heap_t"])
        return [self._cache(data) for _, data in heaps]

    def _value(self, data: bytes, name: str, size: int) -> int:
        at = self.layout[name]
        return int.from_bytes(data[at : at + size], "little")

    def _magazine(self) -> np.dtype:
        return self.record("hak_magazine_t", [("slots", "<u8"), ("size", "<u4")])

    def _cache(self, data: bytes) -> Cache:
        layout, last = self.layout, self.layout["HAK_GRANT_LAST"]
        magazine, stack = self._magazine(), [("head", "<u8"), ("top", "<u8")]
        words = [("outgoing", "<u4"), ("asked_bytes", "<u8"), ("asked_count", "<u8")]

        def rows(type_: str, names: Sequence, field: str, count: int) -> np.ndarray:
            return np.frombuffer(data, self.record(type_, names), count, layout[f"hak_heap_t.{field}"])

        bins = rows("hak_bin_t", stack, "bin", layout["HAK_CLASS_COUNT"])
        both = [("magazine", magazine), ("granted", magazine)]
        infos = rows("hak_bin_info_t", [*both, *words], "info", layout["HAK_CLASS_COUNT"])
        grants = rows("hak_grant_t", stack, "grant", last)
        blocks, busy = dict[int, list[np.ndarray]](), bool(self._value(data, "hak_heap_t.busy", 1))
        for cls, found in self._stacks(bins, infos["magazine"]):
            blocks.setdefault(cls, []).append(found)
        for i, found in self._stacks(grants, infos["granted"][1 : last + 1]):
            blocks.setdefault(i + 1, []).append(found)
        for cls in np.flatnonzero(infos["outgoing"]).tolist():
            waiting = self._array(int(infos["magazine"]["slots"][cls]), int(infos["outgoing"][cls]))
            blocks.setdefault(cls, []).append(waiting)
        kept = {cls: np.concatenate(each) for cls, each in blocks.items()}
        thread, events = self._value(data, "hak_heap_t.thread", 4), self._value(data, "hak_heap_t.events", 4)
        return Cache(thread, busy, kept, infos["asked_bytes"], infos["asked_count"], events)

    def _depot(self) -> dict[int, np.ndarray]:
        dtype = self.record("hak_depot_t", [("count", "<u4"), ("magazine", self._magazine())])
        rows = self.structures(dtype, self.layout.root("hak_depots"), self.layout["HAK_DEPOTS"])
        slots, counts, classes = rows["magazine"]["slots"], rows["count"], self.layout["HAK_CLASS_COUNT"]
        blocks = dict[int, list[np.ndarray]]()
        for i in np.flatnonzero(counts).tolist():  # a class has several depots
            blocks.setdefault(i % classes, []).append(self._array(int(slots[i]), int(counts[i])))
        return {cls: np.concatenate(each) for cls, each in blocks.items()}

    def _pieces(self) -> list[tuple[int, int]]:
        found, layout = [], self.layout
        pieces = self.linked(
            self.word(layout.root("hak_meta_pieces")),
            layout["hak_meta_piece_t.before"],
            layout["size.hak_meta_piece_t"],
        )
        for at, data in pieces:
            size = self._value(data, "hak_meta_piece_t.bytes", WORD)
            if not self._mapped.has(at, size):
                self.broken += 1
                break
            found.append((at, size))
        return found
