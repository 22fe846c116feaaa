"""A heap that was in use before the program begins: a library that is preloaded after the allocator allocates and frees
before `main`."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from hakmem_lab.plan.arms import Arm
from hakmem_lab.system.compiled import compiled

SOURCE = Path(__file__).parents[1] / "system" / "native" / "used" / "history.c"
FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin")


@cache
def library() -> Path:
    return compiled("libhakused.so", [SOURCE], FLAGS, purpose="history of a used heap")


def on_used_heap(arm: Arm) -> Arm:
    """The same arm, for whatever its program is."""
    preloaded = (arm.variables.get("LD_PRELOAD"), str(library()))
    return replace(arm, variables=arm.variables | {"LD_PRELOAD": ":".join(filter(None, preloaded))})
