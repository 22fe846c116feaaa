"""Gives a program a heap that was in use before `main`. A library, preloaded after the allocator, allocates and frees
at random or as a recorded program did."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from hakmem_lab.plan.arms import Arm
from hakmem_lab.system.compiled import compiled

FOLDER = Path(__file__).parents[1] / "system" / "native" / "used"
FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin")


@cache
def library() -> Path:
    sources = [FOLDER / "history.c", FOLDER / "past.h"]
    return compiled("libhakused.so", sources, FLAGS, purpose="history of a used heap", include=FOLDER)


def on_used_heap(arm: Arm, history: Path | None = None) -> Arm:
    """The same arm on a used heap. history: file with a recorded history; None: a random one."""
    preloaded = (arm.variables.get("LD_PRELOAD"), str(library()))
    recorded = {"HAK_HISTORY": str(history)} if history else {}
    return replace(arm, variables=arm.variables | {"LD_PRELOAD": ":".join(filter(None, preloaded))} | recorded)
