"""Builds as a random factor: several pairs of builds of the two arms, and blocks that count as one a pair.

Blocks of one pair of builds share its luck, so they are no independent observations: an interval over them would be
that of these two files, not of the two sources. Here a pair's blocks become one unit, whose log-ratio is the mean of
theirs, and everything that judges blocks judges units instead. Pairs come one after the other, so that the units are
independent of each other and planned looks hold for them as for blocks.

Imports layouts, session and what is below them.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import layouts, project
from ..analysis import log_ratios
from ..arms import Arm
from ..blocks import Blocks
from ..errors import LabError
from ..metrics import Metric
from ..peers import Library
from ..session import Session
from ..spec import AbSpec
from ..statistics import power
from ..statistics.paired import as_ratio
from ..store import RunFile

SEED_BITS = 31


def units_planned(max_blocks: int, builds: int) -> tuple[int, int]:
    """(units, blocks that make up one): pairs of builds, or blocks alone where there is one build an arm."""
    return (builds, max_blocks // builds) if builds > 1 else (max_blocks, 1)


def units(blocks: Blocks, each: int) -> Blocks:
    """The blocks of a pair of builds as one block of all their runs; without the last pair while it is unfinished."""
    if each == 1:
        return blocks
    merged: dict[int, dict[str, list[dict]]] = {}
    count: dict[int, int] = {}
    for block in blocks:
        build = next(iter(block.values()))[0]["build"]
        count[build] = count.get(build, 0) + 1
        for arm, runs in block.items():
            merged.setdefault(build, {}).setdefault(arm, []).extend(runs)
    return [merged[build] for build in sorted(merged) if count[build] >= each or build < max(merged)]


def check(spec: AbSpec, arms: Sequence[Arm], source: str, plan: Sequence[int]) -> None:
    """Raises LabError where builds cannot be shuffled, or are too few for any verdict."""
    if not any(sources_known(arm) for arm in arms):
        raise LabError(
            f"{source}: builds: neither {arms[0].name} nor {arms[1].name} is built from sources; an arm that is, is "
            "written hakmem or hakmem@REVISION"
        )
    if gated := next((arm for arm in arms if arm.gates), None):
        raise LabError(f"{source}: builds: {gated.name} has research gates, and such builds cannot be shuffled")
    if spec.max_blocks < spec.builds:
        raise LabError(f"{source}: builds: {spec.builds} builds need as many blocks; max-blocks is {spec.max_blocks}")
    least = power.least_blocks(spec.alpha, list(plan))
    if spec.builds < least:
        raise LabError(
            f"{source}: builds: {spec.builds} builds are too few for any verdict at alpha {spec.alpha:g} with "
            f"{len(plan)} look{'s' if len(plan) > 1 else ''}: at least {least}"
        )


def sources_known(arm: Arm) -> bool:
    return arm.allocator == "hakmem" or arm.allocator.startswith("hakmem@")


def in_builds(text: str) -> str:
    """A sentence about units, which it calls blocks, as one about builds."""
    return re.sub(r"\bblocks\b", "builds", re.sub(r"\bblock\b", "build", text))


class BuildSession(Session):
    """Blocks in which an arm takes part as one of several builds of it. seeds: one a pair of builds, both arms' own."""

    spec: AbSpec

    def check_arms(self) -> None:
        """Builds what is missing, and asks of every build whether it serves the program."""
        drawn = self.spec.seed if self.spec.seed is not None else random.SystemRandom().getrandbits(SEED_BITS)
        self._build(layouts.seeds(drawn, self.spec.builds))
        plain = self.arms
        for pair in self._pairs:
            self.arms = pair
            super().check_arms()
        self.arms = plain

    def _build(self, seeds: Sequence[int]) -> None:
        self._seeds, self._pairs = list(seeds), []
        folders = {name: _sources(arm) for name, arm in self.arms.items() if sources_known(arm)}
        for index, seed in enumerate(seeds):
            self.progress.update(index, len(seeds), "builds")
            pair = dict(self.arms)
            for name, folder in folders.items():
                pair[name] = _laid_out(self.arms[name], layouts.build(folder, seed), seed)
            self._pairs.append(pair)
        self.progress.restart()
        self.arms = self._pairs[0]
        self.watch([arm for pair in self._pairs for arm in pair.values()])

    def create(self, folder: Path, source: str, **more: object) -> None:
        pairs = [
            {"seed": seed, **{name: arm.library.sha256 for name, arm in pair.items()}}
            for seed, pair in zip(self._seeds, self._pairs, strict=True)
        ]
        super().create(folder, source, builds={"each": self._each(), "pairs": pairs}, **more)

    def resume(self, file: RunFile, header: dict) -> None:
        stored = header["builds"]["pairs"]
        self._build([pair["seed"] for pair in stored])
        for pair, known in zip(self._pairs, stored, strict=True):
            for name, arm in pair.items():
                if arm.library.sha256 != known[name]:
                    raise LabError(f"{name} is not the library that run {header['id']} began with; start a new run")
        super().resume(file, header)

    def _each(self) -> int:
        return units_planned(self.spec.max_blocks, self.spec.builds)[1]

    def arm_in(self, name: str, index: int) -> Arm:
        return self._pairs[index // self._each()][name]

    def keys_of(self, index: int) -> dict:
        return {"build": index // self._each()}


def _sources(arm: Arm) -> Path:
    """Where the sources of `hakmem` or `hakmem@REVISION` are."""
    _, at, revision = arm.allocator.partition("@")
    return project.sources_of(revision) if at else project.required_root(arm.name)


def _laid_out(arm: Arm, path: Path, seed: int) -> Arm:
    library = Library(path, arm.library.version, f"functions in the order of seed {seed}", arm.library.environment)
    return replace(arm, library=library)


def result_keys(header: dict, used: Blocks, metric: Metric, headline: str) -> dict:
    """What a result says about builds: the treatment's advantage in each pair, and arms that are one build alone."""
    pairs = header["builds"]["pairs"]
    names = [arm["name"] for arm in header["arms"]]
    ratios = log_ratios(used, names[0], names[1], metric) or []
    rows = [{"seed": pair["seed"], "estimate": as_ratio(d)} for pair, d in zip(pairs, ratios, strict=False)]
    fixed = [name for name in names if len({pair[name] for pair in pairs}) == 1]
    spread = {"least": min(row["estimate"] for row in rows), "most": max(row["estimate"] for row in rows)}
    found = {"pairs": rows, "blocks_each": header["builds"]["each"], "fixed": fixed, **spread}
    return {"headline": in_builds(headline), "builds": found}
