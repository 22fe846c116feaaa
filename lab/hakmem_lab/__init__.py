"""hakmem-lab: which allocator, and which of its settings, make a program faster or leaner.

From Python: `hakmem_lab.load("last").runs` (see `library`).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hakmem_lab.errors import LabError
    from hakmem_lab.show.library import Run, Table, load, load_all

__version__ = "0.1.0"
__all__ = ["LabError", "Run", "Table", "__version__", "load", "load_all"]


def __getattr__(name: str) -> Any:
    """A name of `library`, imported at its first use, so that the command `hak` starts without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hakmem_lab.show import library

    return getattr(library, name)
