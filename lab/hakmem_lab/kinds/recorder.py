"""A run of the kinds that have no blocks of arms to compare: its file, its header, its events.

Imports session and what is below it. A context manager: on leaving, the run's file is closed.
"""

import errno
import random
from collections.abc import Sequence

from .. import machine, preflight
from ..arms import Arm
from ..runner import Workload
from ..session import SEED_BITS, Interrupted, Stopped, check_unchanged, record_header
from ..spec import CommonSpec
from ..store import RunFile, now_utc
from . import Context


class Recorder:
    """Keeps the records of one run."""

    def __init__(self, spec: CommonSpec, arms: Sequence[Arm], workload: Workload, context: Context):
        self.spec, self.arms, self.workload, self.context = spec, list(arms), workload, context
        self.progress = context.progress
        self.file = context.resume
        self.seed = 0

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        if self.file:
            self.file.close()

    def begin(self) -> None:
        """Preflight and header of a new run, or the checks of one that is continued. Raises LabError."""
        if self.file is not None:
            self._resume()
            return
        for arm in self.arms:
            self.progress.update(0, 1, f"preflight: {arm.name}")
            preflight.check_arm(arm, self.workload)
        self.progress.restart()
        self.seed = self.spec.seed if self.spec.seed is not None else random.SystemRandom().getrandbits(SEED_BITS)
        header = record_header(self.spec, self.arms, self.workload, self.context.source, self.seed)
        self.file = RunFile.create(self.context.folder, self.spec.kind, header)
        if trouble := machine.disturbance(machine.load_1m(), 0.0):
            self.event("load", trouble)
            self.progress.say(f"warning: {trouble}")

    def _resume(self) -> None:
        header = self.file.header()
        check_unchanged(header, self.arms)
        self.seed = header["seed"]
        self.file.continue_writing()
        self.event("resumed", "resumed")

    def records(self) -> list[dict]:
        return list(self.file.records())

    def append(self, record: dict) -> None:
        """Raises Stopped where the disk is full."""
        try:
            self.file.append(record)
        except OSError as error:
            why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
            raise Stopped(
                f"cannot write to {self.file.path}: {why}. What was measured is kept; make room, then: "
                f"hak resume {self.file.id}"
            ) from None

    def event(self, what: str, text: str) -> None:
        self.append({"type": "event", "time": now_utc(), "what": what, "text": text})

    def interrupted(self) -> Interrupted:
        """Records that the user stopped the run, and says how to go on."""
        self.event("interrupted", "interrupted by the user")
        return Interrupted(f"interrupted; nothing measured is lost. Go on with: hak resume {self.file.id}")

    def finish(self, result: dict) -> dict:
        """Stores the result and returns it."""
        self.append({"type": "result", **result})
        return result
