"""A fleet of which one worker is killed in the middle: is every finished block counted once, is the verdict the same?

    python benchmarks/fleet_kill.py [--trials 20] [--workers 4] [--blocks 40] [--seed 1]

Every trial runs `hak fleet` on a local cluster, and kills the process of one worker, drawn at random, after a number of
finished blocks that is drawn at random, too. What is measured is a program whose figure follows from the block's own
seed: so a run without a kill says what every block has to be. `trial` raises AssertionError where one is missing, is
there twice, or is not what it has to be. May import nothing of the package: it looks at the store's files.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SPEC = r"""
kind = "ab"
question = "does a fleet outlive its workers?"
command = ["sh", "-c", "echo took $(( 100000 - ${GAIN:-0} + $1 % 4000 ))", "sh", "{seed}"]
metric = 'regex:took (\d+)'
control = "glibc"
treatment = "glibc,GAIN=5000"
repeat = 1
seed = 7
"""
HAK = (sys.executable, "-m", "hakmem_lab.cli.main")
LIMIT_S = 300.0


def records(store: Path) -> list[dict]:
    """Of the only run in the store, as far as its lines are whole."""
    found = []
    for path in store.glob("*-fleet-*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def finished(found: list[dict]) -> list[dict]:
    """The closing records of the blocks that count."""
    return [r for r in found if r["type"] == "block" and r["ok"] and r["phase"] == "measure"]


def values(found: list[dict]) -> dict[int, list[tuple]]:
    """Block -> what its runs measured, in their order, of the attempts that count."""
    counted = {(r["block"], r["attempt"]) for r in finished(found)}
    rows: dict[int, list[tuple]] = {}
    for r in found:
        if r["type"] == "run" and (r["block"], r["attempt"]) in counted and r["phase"] == "measure":
            rows.setdefault(r["block"], []).append((r["position"], r["arm"], r["value"]))
    return {block: sorted(each) for block, each in rows.items()}


def measure(folder: Path, workers: int, blocks: int, kill: tuple[int, int] | None) -> list[dict]:
    """The records of one run. kill: (the number of a part, after how many blocks its worker is killed)."""
    folder.mkdir()
    spec, store = folder / "spec.toml", folder / "store"
    spec.write_text(SPEC + f"max-blocks = {blocks}\n", encoding="utf-8")
    words = [*HAK, "fleet", str(spec), "--engine", "dask", "--workers", str(workers), "--store", str(store), "--quiet"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as running:
        begun_s = time.monotonic()
        while running.poll() is None:
            assert time.monotonic() - begun_s < LIMIT_S, "the fleet does not end"
            time.sleep(0.005)
            if kill is None:
                continue
            found = records(store)
            host = next((r for r in found if r["type"] == "host" and r["part"] == kill[0]), None)
            if host and len(finished(found)) >= kill[1]:
                os.kill(host["pid"], signal.SIGKILL)
                kill = None
    assert running.returncode == 0, f"hak ended with {running.returncode}"
    assert kill is None, "the run had ended before the kill"
    return records(store)


def check(found: list[dict], expected: list[dict], blocks: int, killed: bool) -> str:
    """One line on the run; raises AssertionError where it is not what it has to be."""
    counts = Counter(r["block"] for r in finished(found))
    assert counts == Counter(range(blocks)), "a block is missing, or counted twice"
    assert values(found) == values(expected), "a block is not what it has to be"
    verdicts = [[r["verdict"] for r in each if r["type"] == "result"] for each in (found, expected)]
    assert verdicts[0] == verdicts[1], verdicts
    lost = [r for r in found if r["type"] == "event" and r["what"] == "host-lost"]
    assert bool(lost) == killed, lost
    parts = sum(1 for r in found if r["type"] == "host")
    hosts = Counter(r["host"] for r in finished(found))
    return f"{verdicts[0][0]}, {parts} parts, blocks by host {dict(sorted(hosts.items()))}"


def lost_on_the_way(folder: Path, found: list[dict]) -> int:
    """Blocks that a part's own file holds as finished, and the run has not at all."""
    kept = {(r["part"], r["serial"]) for r in found if "serial" in r}
    numbers = {r["part_id"]: r["part"] for r in found if r["type"] == "host"}
    lost = 0
    for path in (folder / "store" / "fleet").glob("*/*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if record["type"] == "block" and record["ok"]:
                    lost += (numbers.get(path.stem), record["serial"]) not in kept
    return lost


def trial(folder: Path, workers: int, blocks: int, expected: list[dict], rng: random.Random) -> str:
    """One run with a kill; what became of it."""
    kill = rng.randrange(workers), rng.randrange(1, blocks * 3 // 4)
    found = measure(folder, workers, blocks, kill)
    lost = lost_on_the_way(folder, found)
    assert lost == 0, f"{lost} finished blocks are nowhere in the run"
    return f"part {kill[0]} killed after {kill[1]} blocks: {check(found, expected, blocks, True)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("trials", 20), ("workers", 4), ("blocks", 40), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as place:
        expected = measure(Path(place) / "whole", asked.workers, asked.blocks, None)
        print("without a kill:", check(expected, expected, asked.blocks, False), flush=True)
        for number in range(asked.trials):
            said = trial(Path(place) / str(number), asked.workers, asked.blocks, expected, rng)
            print(f"trial {number + 1}: {said}", flush=True)
    print(f"{asked.trials} of {asked.trials}: every finished block counted once, the same blocks, the same verdict")


if __name__ == "__main__":
    main()
