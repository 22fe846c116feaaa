"""A heap profile, wherever it is from: stacks of places, and what was allocated there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# In this order, which readers of pprof's format expect.
TYPES = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("resident_space", "bytes"),
)
ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, RESIDENT_SPACE = range(5)
UNKNOWN = "[unknown]"


@dataclass(frozen=True)
class Place:
    """An instruction: where it is in a file, or, of what is no file, its address."""

    path: str
    build_id: str
    offset: int

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}+{self.offset:#x}" if self.path else f"{self.offset:#x}"


Stack = tuple[Place | str, ...]  # the innermost first; a text is no code, but a part of the heap


@dataclass
class HeapProfile:
    """values: stack -> one number a type."""

    values: dict[Stack, list[float]] = field(default_factory=dict)
    types: Sequence[tuple[str, str]] = TYPES
    period: int = 0
    time_ns: int = 0
    duration_ns: int = 0
    comments: list[str] = field(default_factory=list)
    main: str = ""  # the program's own file
    copies: dict[str, list[str]] = field(default_factory=dict)  # file -> where else it may be read
    missing: str = ""  # what is not in it, and why

    def add(self, stack: Stack, values: Iterable[float]) -> None:
        before = self.values.setdefault(stack, [0.0] * len(self.types))
        for i, value in enumerate(values):
            before[i] += value

    def total(self, which: int) -> float:
        return sum(values[which] for values in self.values.values())

    def places(self) -> set[Place]:
        return {place for stack in self.values for place in stack if isinstance(place, Place)}

    def join(self, other: "HeapProfile") -> None:
        """Of another process: what has the same places is counted together."""
        for stack, values in other.values.items():
            self.add(stack, values)
        self.period = self.period or other.period
        self.time_ns = max(self.time_ns, other.time_ns)
        self.duration_ns = max(self.duration_ns, other.duration_ns)
        self.comments += other.comments
