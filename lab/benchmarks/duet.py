"""How long to a verdict on a known effect: arms that take turns against both at once.

    python benchmarks/duet.py measure RAW.jsonl [--blocks N] [--effects 0,2,5] [--ms 200]
    python benchmarks/duet.py show RAW.jsonl

`measure` runs blocks of both ways in turn, in a random order, so that both see the same hour of the machine. `show`
resamples stretches of these blocks, lets each end where a run would have ended, and prints what share of the verdicts
was right or wrong, and how long they took: the blocks, and what a run does before its first one. May import the package
and its libraries.
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hakmem_lab.judge.statistics.paired import block_log_ratio
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import sequential_verdict, settling_count
from hakmem_lab.plan.arms import Arm, parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.schedule import block
from hakmem_lab.plan.spec import AbSpec, build
from hakmem_lab.run.duet import SIDES, Duet
from hakmem_lab.run.runner import Runner, Workload
from hakmem_lab.system import machine

SOURCE = Path(__file__).with_name("known_effect.c")
WAYS = ("in turn", "at once")
MAX_BLOCKS, RESAMPLES, MARGIN, ALPHA = 60, 2000, 0.01, 0.05
RUNS_BEFORE = {"in turn": 2 + 2, "at once": 2 + 1 + 4}  # trials, warm-up, and alone: in lengths of a run


def compiled(folder: Path) -> Path:
    program = folder / "known_effect"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
    return program


def operations_for(program: Path, wanted_ms: float) -> int:
    """How many operations take so long on this machine."""
    probe = 500_000
    best = min(timed_s(program, probe) for _ in range(5)) - min(timed_s(program, 0) for _ in range(5))
    return max(1, round(probe * wanted_ms / 1e3 / best))


def timed_s(program: Path, operations: int) -> float:
    begun = time.perf_counter()
    subprocess.run([program, str(operations)], check=True)
    return time.perf_counter() - begun


class Bench:
    """Runs blocks of either way, and keeps what each of them gave and took."""

    def __init__(self, program: Path, operations: int, seed: int, raw):
        arms = {"control": "default", "treatment": "default,EFFECT=0"}
        self.spec = build(AbSpec, {"command": [str(program), str(operations)], "duet": True} | arms, "benchmark")
        workload, metrics = Workload.of(self.spec), [Metric("wall")]
        self.turn = Runner(workload, metrics)
        self.duet = Duet(self.spec, workload, lambda bound: Runner(bound, metrics))
        self.seed, self.raw = seed, raw

    def close(self) -> None:
        self.turn.close()
        self.duet.close()

    def runs(self, way: str, order: Sequence[Arm], pads: Sequence[int]) -> list[dict]:
        if way == "in turn":
            return [self.turn.run(arm, pad) for arm, pad in zip(order, pads, strict=True)]
        pairs = [slice(first, first + SIDES) for first in range(0, len(order), SIDES)]
        return [record for pair in pairs for record in self.duet.together(order[pair], pads[pair], 1)]

    def block(self, way: str, effect: float, index: int) -> None:
        arms = {"control": parse_arm("default", "control"), "treatment": parse_arm(f"default,EFFECT={effect}")}
        plan = block(list(arms), self.seed, index)
        begun = time.perf_counter()
        records = self.runs(way, [arms[name] for name in plan.order], plan.pads)
        took_s = time.perf_counter() - begun
        values = {name: [r["wall_s"] for r, ran in zip(records, plan.order, strict=True) if ran == name]
                  for name in arms}  # fmt: skip
        if not all(record["ok"] for record in records):
            raise SystemExit(f"a run failed: {[record['why'] for record in records]}")
        d = block_log_ratio(values["control"], values["treatment"], higher_is_better=False)
        row = {"way": way, "effect": effect, "block": index, "d": d, "took_s": took_s, **values}
        self.raw.write(json.dumps(row | {"load_1m": machine.load_1m()}) + "\n")
        self.raw.flush()


def measure(options: argparse.Namespace) -> None:
    effects = [float(word) for word in options.effects.split(",")]
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="hak-") as folder, open(options.raw, "a", encoding="utf-8") as raw:
        program = compiled(Path(folder))
        operations = operations_for(program, options.ms)
        raw.write(json.dumps({"machine": machine.facts(), "operations": operations, "seed": options.seed}) + "\n")
        bench = Bench(program, operations, options.seed, raw)
        try:
            for index in range(options.blocks):
                todo = [(way, effect) for way in WAYS for effect in effects]
                rng.shuffle(todo)
                for way, effect in todo:
                    bench.block(way, effect, index)
        finally:
            bench.close()
    show(options)


def settled(d: Sequence[float]) -> tuple[int, str]:
    """(blocks until a run of these would have ended, its verdict)."""
    plan = Plan(tuple(planned_looks(min(MAX_BLOCKS, len(d)))))
    return settling_count(d, plan, MARGIN, ALPHA), str(sequential_verdict(d, plan, MARGIN, ALPHA))


def resampled(d: Sequence[float], rng: np.random.Generator) -> list[tuple[int, str]]:
    """Circular stretches of the blocks, each of as many as a run has at most."""
    values, size = np.array(d), min(MAX_BLOCKS, len(d))
    starts = rng.integers(0, len(values), RESAMPLES)
    return [settled(np.take(values, range(start, start + size), mode="wrap").tolist()) for start in starts]


def flipped(d: Sequence[float], rng: np.random.Generator) -> list[tuple[int, str]]:
    """Under no effect the arms' names are of no consequence: resampled, with random signs."""
    values, size = np.array(d), min(MAX_BLOCKS, len(d))
    found = []
    for start in rng.integers(0, len(values), RESAMPLES):
        stretch = np.take(values, range(start, start + size), mode="wrap")
        found.append(settled((stretch * rng.choice((-1.0, 1.0), size)).tolist()))
    return found


def robust_sd(d: Sequence[float]) -> float:
    centre = statistics.median(d)
    return 1.4826 * statistics.median(abs(value - centre) for value in d)


def row_of(rows: Sequence[dict], rng: np.random.Generator) -> dict:
    """What blocks of one way and effect say."""
    d, effect = [row["d"] for row in rows], rows[0]["effect"]
    took_s = statistics.fmean(row["took_s"] for row in rows)
    runs = (flipped if effect == 0 else resampled)(d, rng)
    wrong = {"GO", "NO-GO"} if effect == 0 else {"GO", "NEUTRAL"} if effect > 0 else {"NO-GO", "NEUTRAL"}
    right = "NEUTRAL" if effect == 0 else "NO-GO" if effect > 0 else "GO"
    before_s = RUNS_BEFORE[rows[0]["way"]] * statistics.fmean(v for row in rows for v in row["control"])
    blocks = statistics.fmean(count for count, _ in runs)
    return {
        "blocks measured": len(d),
        "estimate": 100 * (np.exp(statistics.median(d)) - 1),
        "spread": 100 * robust_sd(d),
        "block_s": took_s,
        "right": statistics.fmean(verdict == right for _, verdict in runs),
        "wrong": statistics.fmean(verdict in wrong for _, verdict in runs),
        "blocks": blocks,
        "wall_s": before_s + blocks * took_s,
        "variance_s": robust_sd(d) ** 2 * took_s,
    }


def show(options: argparse.Namespace) -> None:
    lines = [json.loads(line) for line in Path(options.raw).read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if "way" in line]
    print(f"{'effect':>7} {'way':<8} {'n':>4} {'estimate':>9} {'spread':>8} {'block':>8} {'right':>7} {'wrong':>7} "
          f"{'blocks':>7} {'time':>8}")  # fmt: skip
    for effect in sorted({row["effect"] for row in rows}):
        both = {}
        for way in WAYS:
            rng = np.random.default_rng(options.seed)
            found = both[way] = row_of([r for r in rows if (r["way"], r["effect"]) == (way, effect)], rng)
            print(f"{effect:>5g} % {way:<8} {found['blocks measured']:>4} {found['estimate']:>7.2f} % "
                  f"{found['spread']:>6.2f} % {found['block_s']:>6.2f} s {found['right']:>7.1%} {found['wrong']:>7.1%} "
                  f"{found['blocks']:>7.1f} {found['wall_s']:>6.1f} s")  # fmt: skip
        turn, once = (both[way] for way in WAYS)
        print(f"        at once takes {once['wall_s'] / turn['wall_s']:.2f} × the time, and for the same precision "
              f"without an early end {once['variance_s'] / turn['variance_s']:.2f} ×")  # fmt: skip
    if trouble := machine.disturbance(machine.load_1m(), 0.0):
        print(f"warning: {trouble}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "show"))
    parser.add_argument("raw", help="file of JSON lines; measure adds to it")
    parser.add_argument("--blocks", type=int, default=60, help="blocks of every way and effect")
    parser.add_argument("--effects", default="0,2,5", help="percent by which the treatment does more")
    parser.add_argument("--ms", type=float, default=200, help="about how long a run takes")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order and of the resampling")
    options = parser.parse_args()
    {"measure": measure, "show": show}[options.what](options)


if __name__ == "__main__":
    main()
