"""The objects of a heap, as arrays: chunks and their slices, slabs and their bits, caches, samples."""

from dataclasses import dataclass, field

import numpy as np

from hakmem_lab.inside.layout import Layout

# Who has a slice.
ABSENT, UNKNOWN, SLAB, RUN, HUGE, DIRTY, CLEAN, SAMPLED = range(8)


@dataclass
class Chunks:
    """base, state; with a row each: slices[n, 128], who has them, and codes[n, 128], the classes in the page map."""

    base: np.ndarray
    state: np.ndarray
    count: np.ndarray  # of chunks, where it stands for several
    dirty: np.ndarray  # of a free extent
    slices: np.ndarray
    codes: np.ndarray


@dataclass
class Slabs:
    base: np.ndarray
    cls: np.ndarray
    slices: np.ndarray
    carved: np.ndarray
    blocks: np.ndarray
    zeroed: np.ndarray
    bits: np.ndarray  # [n, bytes] bit i: block i lies free

    def free(self, rows: np.ndarray, blocks: int) -> np.ndarray:
        """[row, block]: 1 where it lies free, else 0."""
        return np.unpackbits(self.bits[rows, : -(-blocks // 8)], axis=1, count=blocks, bitorder="little")


@dataclass
class Runs:
    """Blocks of whole slices: those of a class, and huge ones."""

    base: np.ndarray
    cls: np.ndarray
    bytes: np.ndarray  # that may be used
    held: np.ndarray  # bytes of the slices


@dataclass
class Cache:
    """What one thread keeps. blocks: class -> addresses."""

    thread: int
    busy: bool
    blocks: dict[int, np.ndarray]
    asked_bytes: np.ndarray
    asked_count: np.ndarray
    events: int


@dataclass(frozen=True)
class Sample:
    """A live block that the sampler looked at. cls: what it would be otherwise; site: the address of its call site."""

    asked: int
    cls: int
    thread: int
    site: int


@dataclass
class Heap:
    layout: Layout
    chunks: Chunks
    slabs: Slabs
    runs: Runs
    caches: list[Cache]
    depot: dict[int, np.ndarray]  # class -> addresses
    pieces: list[tuple[int, int]]  # of metadata
    leaves: list[tuple[int, int]]
    counters: dict[str, int]
    samples: dict[int, Sample]  # address -> what is known of the block there
    broken: int = field(default=0)  # objects that could not be read, or did not fit
