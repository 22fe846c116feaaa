"""Builds as a random factor: several pairs of builds of the two arms; all blocks of a pair count as one.

Blocks of one pair of builds share that pair's memory layout, so they are not independent observations: their interval
would describe these two files, not the two sources. Therefore the blocks of a pair become one unit, whose log-ratio is
the mean of theirs. The analysis gets units in place of blocks: a header that plans as many blocks as there are pairs,
and records in which a pair is a block. Pairs run one after the other, so units are independent of each other, and
everything that holds for blocks in their order also holds for units.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.judge.analysis import log_ratios, metric_of
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.peers import Library
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.conduct import conduct
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, finished_blocks
from hakmem_lab.store.runs import RunFile

KEY, PHASE = "builds", "measure"
SEED_BITS = 31
UNCOUNTED = -1

Analyse = Callable[[dict, list[dict]], dict]


def unit_header(header: dict) -> dict:
    """The header as of a run whose blocks are the pairs of builds; a header without builds is returned unchanged."""
    if KEY not in header:
        return header
    known = {key: value for key, value in header.items() if key != KEY}
    spec, pairs = header["spec"], len(header[KEY]["pairs"])
    plan = plan_of(pairs, spec["looks"], spec["alpha"])
    return known | {"spec": spec | {"max-blocks": pairs, "looks": len(plan.looks)}}


def plan_of(pairs: int, wanted: int, alpha: float) -> Plan:
    """A plan with the wanted number of looks; with a single one if there are too few pairs for several."""
    plan = Plan(tuple(planned_looks(pairs, wanted)))
    return plan if pairs >= plan.least_blocks(alpha) else Plan((pairs,))


def units(blocks: Blocks, each: int) -> Blocks:
    """Merge the blocks of each pair of builds into one block of all their runs, without an unfinished last pair."""
    merged: dict[int, dict[str, list[dict]]] = {}
    count: dict[int, int] = {}
    for block in blocks:
        build = next(iter(block.values()))[0]["build"]
        count[build] = count.get(build, 0) + 1
        for arm, runs in block.items():
            merged.setdefault(build, {}).setdefault(arm, []).extend(runs)
    return [merged[build] for build in sorted(merged) if count[build] >= each or build < max(merged)]


def unit_records(records: Sequence[dict], each: int) -> list[dict]:
    """The records as of a run whose blocks are the pairs. Runs that do not count are kept, in no finished block."""
    blocks = finished_blocks(records, PHASE)
    found = [dict(record) for record in records if record.get("phase") != PHASE]
    disturbed = {(r["block"], r["attempt"]): r["disturbed"] for r in records if r["type"] == "block" and r["ok"]}
    counted = set()
    for index, unit in enumerate(units(blocks, each)):
        runs = [run for own in unit.values() for run in own]
        counted |= {(run["block"], run["attempt"]) for run in runs}
        why = next(filter(None, (disturbed.get((run["block"], run["attempt"])) for run in runs)), None)
        found += [run | {"block": index, "attempt": 0} for run in runs]
        order = [run["arm"] for run in runs]
        close = {"type": "block", "block": index, "attempt": 0, "phase": PHASE, "ok": True, "why": None}
        found.append(close | {"order": order, "disturbed": why})
    rest = (r for r in records if r.get("phase") == PHASE and (r["block"], r["attempt"]) not in counted)
    return found + [record | {"attempt": UNCOUNTED, "ok": record["ok"] and record["type"] == "run"} for record in rest]


def run(spec: AbSpec, context, arms: Sequence[Arm], measure: Callable[[Session], None], analyse: Analyse) -> dict:
    """Run an A/B on pairs of builds. Raises LabError, Stopped or Interrupted."""
    plan = plan_of(spec.builds, spec.looks, spec.alpha)
    check(spec, arms, context.source, plan)
    each = spec.max_blocks // spec.builds
    blocks = each * plan.looks[-1], each * min(plan.looks[0], plan.least_blocks(spec.alpha))
    return conduct(spec, context, arms, blocks, measure, analyse, BuildSession)


def check(spec: AbSpec, arms: Sequence[Arm], source: str, plan: Plan) -> None:
    """Raises LabError if builds cannot be shuffled, or are too few for any verdict."""
    if not any(sources_known(arm) for arm in arms):
        raise LabError(
            f"{source}: builds: one side must be built from sources (hakmem or hakmem@REVISION); "
            f"neither {arms[0].name} nor {arms[1].name} is"
        )
    if gated := next((arm for arm in arms if arm.gates), None):
        raise LabError(f"{source}: builds: {gated.name} has research gates, and such builds cannot be shuffled")
    if spec.max_blocks < spec.builds:
        raise LabError(f"{source}: builds: {spec.builds} builds need as many blocks; max-blocks is {spec.max_blocks}")
    if asked := next((key for key in ("detect", "rare") if getattr(spec, key) is not None), None):
        raise LabError(
            f"{source}: {asked}: it plans blocks, and with builds their number is given; drop one of the two"
        )
    least = plan.least_blocks(spec.alpha)
    if spec.builds < least:
        raise LabError(
            f"{source}: builds: {spec.builds} builds of each arm are too few for any verdict at alpha {spec.alpha:g}: "
            f"at least {least}, and more say more (--builds 10)"
        )


def sources_known(arm: Arm) -> bool:
    return arm.allocator == "hakmem" or arm.allocator.startswith("hakmem@")


def in_builds(text: str) -> str:
    """Replace "block" by "build" in a sentence about units."""
    return re.sub(r"\bblocks\b", "builds", re.sub(r"\bblock\b", "build", text))


class BuildSession(Session[AbSpec]):
    """Blocks in which each arm runs as one of its several builds. Each pair of builds has a seed."""

    counted = "builds"

    def check_arms(self) -> None:
        """Make the missing builds, and check that each build serves the program."""
        drawn = self.spec.seed if self.spec.seed is not None else random.SystemRandom().getrandbits(SEED_BITS)
        self._build(project.seeds(drawn, self.spec.builds))
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
                pair[name] = _laid_out(self.arms[name], project.build(folder, seed), seed)
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
        """The number of blocks of a pair."""
        return self.spec.max_blocks // self.spec.builds

    def each_block(
        self, phase: str, names: Callable[[Blocks], Sequence[str]], count: int, *_: object
    ) -> Iterator[Blocks]:
        """Yield the units in the store, then all units after each further one, up to `count` of them."""
        each, known = self._each(), None
        for blocks in super().each_block(phase, names, count * each):
            found = units(blocks, each)
            if len(found) != known:
                known = len(found)
                yield found

    def arm_in(self, name: str, index: int) -> Arm:
        return self._pairs[index // self._each()][name]

    def keys_of(self, index: int) -> dict:
        return {"build": index // self._each()}


def _sources(arm: Arm) -> Path:
    """The folder with the sources of `hakmem` or `hakmem@REVISION`."""
    _, at, revision = arm.allocator.partition("@")
    return project.sources_of(revision) if at else project.required_root(arm.name)


def _laid_out(arm: Arm, path: Path, seed: int) -> Arm:
    library = Library(path, arm.library.version, f"functions in the order of seed {seed}", arm.library.environment)
    return replace(arm, library=library)


def analyse(header: dict, records: Sequence[dict], judge: Analyse) -> dict:
    """The result of `judge` on the units, with numbers of blocks and builds."""
    each, pairs = header[KEY]["each"], header[KEY]["pairs"]
    result = judge(unit_header(header), unit_records(records, each))
    # Before the first look, single pairs are not shown either.
    used = units(finished_blocks(records, PHASE), each)[: result["blocks"]] if result["comparisons"] else []
    names = [arm["name"] for arm in header["arms"]]
    ratios = [as_ratio(d) for d in log_ratios(used, names[0], names[1], metric_of(header)) or []]
    fixed = [name for name in names if len({pair[name] for pair in pairs}) == 1]
    rows = [{"seed": pair["seed"], "estimate": ratio} for pair, ratio in zip(pairs, ratios, strict=False)]
    spread = {"least": min(ratios, default=None), "most": max(ratios, default=None)}
    for row in (result, *result["looks"]):
        row["blocks"] *= each
    return result | {
        "counted": "builds",
        "withheld": in_builds(result.get("withheld", "")),
        "max_blocks": each * len(pairs),
        "warnings": [
            *result["warnings"],
            *(f"{name} is one build, whose own luck the interval does not cover" for name in fixed),
        ],
        "builds": {"pairs": rows, "blocks_each": each, "fixed": fixed, **spread},
    }
