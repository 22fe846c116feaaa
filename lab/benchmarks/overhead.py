"""What the laboratory itself costs: python benchmarks/overhead.py [--blocks N]. Prints a table; keeps nothing.

The runner against posix_spawn of the same command (interleaved in random ABBA blocks), the start of `hak --help`, and a
report over many runs. May import the package and its libraries.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hakmem_lab.judge.statistics.paired import median_interval
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.schedule import block
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import Workload
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine
from hakmem_lab.system.launcher import Launcher, Request

COMMAND = "/bin/true"
REPORT_RUNS, REPORT_FILES, REPORTS = 10_000, 50, 6
ARMS = ("default", "default,X=1")


def spawn(argv: Sequence[str], env: dict[str, str]) -> None:
    """The yardstick: nothing but the process."""
    pid = os.posix_spawn(argv[0], argv, env)
    os.waitpid(pid, 0)


def taken_s(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def differences_s(work: dict[str, Callable[[], object]], blocks: int, seed: int) -> list[float]:
    """Per block: mean of the second one's times minus mean of the first one's."""
    names, found = list(work), []
    for index in range(blocks):
        times: dict[str, list[float]] = {name: [] for name in names}
        for name in block(names, seed, index).order:
            times[name].append(taken_s(work[name]))
        found.append(statistics.fmean(times[names[1]]) - statistics.fmean(times[names[0]]))
    return found


def runner_rows(blocks: int, seed: int) -> list[tuple[str, list[float], float]]:
    spec = build(AbSpec, {"command": [COMMAND], "control": ARMS[0], "treatment": ARMS[1]}, "benchmark")
    workload, arm = Workload.of(spec), parse_arm(ARMS[0])
    argv, env = list(workload.argv), arm.environment({})

    def yardstick() -> None:
        spawn(argv, env)

    with Runner(workload, [Metric("wall")]) as runner, Launcher() as launcher:
        whole = differences_s({"spawn": yardstick, "runner": lambda: runner.run(arm, 0)}, blocks, seed)
        bare = differences_s({"spawn": yardstick, "launcher": lambda: launcher.run(Request(argv, env))}, blocks, seed)
    alone = [taken_s(yardstick) for _ in range(blocks)]
    return [
        ("posix_spawn of the command, for comparison", alone, float("inf")),
        ("launcher over posix_spawn", bare, 2e-3),
        ("runner over posix_spawn", whole, 2e-3),
    ]


def help_row(times: int) -> tuple[str, list[float], float]:
    command = [str(Path(sys.executable).with_name("hak")), "--help"]
    if not Path(command[0]).exists():
        command = [sys.executable, "-m", "hakmem_lab.cli.main", "--help"]
    found = [taken_s(lambda: subprocess.run(command, capture_output=True, check=True)) for _ in range(times)]
    return "hak --help", found, 0.3


def filled_store(folder: Path, seed: int) -> list[RunFile]:
    """Finished A/Bs that hold REPORT_RUNS runs together, with the records that a real one has."""
    rng, files = random.Random(seed), []
    spec = {
        "command": [COMMAND],
        "control": ARMS[0],
        "treatment": ARMS[1],
        "max-blocks": REPORT_RUNS // REPORT_FILES // 4,
    }
    model = build(AbSpec, spec, "benchmark")
    arms = [parse_arm(text) for text in ARMS]
    with Runner(Workload.of(model), [Metric("wall")]) as runner:
        sample = runner.run(arms[0], 0)
    for _ in range(REPORT_FILES):
        files.append(filled_run(folder, model, [arm.record() for arm in arms], sample, rng))
    return files


def filled_run(folder: Path, model: AbSpec, arms: list[dict], sample: dict, rng: random.Random) -> RunFile:
    from hakmem_lab.designs.contrasts import ab
    from hakmem_lab.plan.spec import normalised, spec_hash

    header = {"question": "", "spec": normalised(model), "spec_hash": spec_hash(model), "spec_file": None, "seed": 1,
              "machine": machine.facts(), "arms": arms, "git": None, "build": None, "lab_version": "0", "repeat": 1,
              "command": {"argv": [COMMAND], "program": COMMAND, "sha256": "0" * 64}}  # fmt: skip
    file = RunFile.create(folder, "ab", header)
    for index in range(model.max_blocks):
        plan = block([arm["name"] for arm in arms], 1, index)
        for position, name in enumerate(plan.order):
            value = rng.lognormvariate(0, 0.02)
            changes = {"arm": name, "wall_s": value, "cpu_s": value, "value": value, "metrics": {"wall": value}}
            key = {"block": index, "attempt": 0, "position": position, "phase": "measure"}
            file.append({"type": "run", **key, **sample, **changes, "ok": True, "why": None})
        file.append({"type": "block", "block": index, "attempt": 0, "phase": "measure", "ok": True, "why": None,
                     "order": list(plan.order), "disturbed": None})  # fmt: skip
    file.append({"type": "result", **ab.analyse(file.header(), list(file.records()))})
    file.close()
    return file


def report_row(seed: int) -> tuple[str, list[float], float]:
    from hakmem_lab.show import report

    with tempfile.TemporaryDirectory(prefix="hak-") as folder:
        files = filled_store(Path(folder), seed)
        output = Path(folder) / "report.html"
        return (
            f"report over {REPORT_RUNS} runs",
            [taken_s(lambda: report.write_files(files, output)) for _ in range(REPORTS)],
            5.0,
        )


def shown(row: tuple[str, list[float], float]) -> str:
    name, values, limit = row
    middle, low, high = (1e3 * value for value in median_interval(values))
    bar = f"{1e3 * limit:.0f}" if limit < float("inf") else ""
    met = "" if not bar else "yes" if middle <= 1e3 * limit else "NO"
    between = f"[{low:.3f}, {high:.3f}]"
    return f"{name:<44} {middle:>10.3f} {between:>24} {len(values):>6} {bar:>9} {met:>4}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=200, help="blocks of four executions each for the runner")
    parser.add_argument("--starts", type=int, default=20, help="starts of hak --help")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order")
    options = parser.parse_args()
    print(f"{'what':<44} {'median ms':>10} {'95 % interval':>24} {'n':>6} {'limit ms':>9} {'met':>4}")
    for row in runner_rows(options.blocks, options.seed):
        print(shown(row))
    print(shown(help_row(options.starts)))
    print(shown(report_row(options.seed)))
    if trouble := machine.disturbance(machine.load_1m(), 0.0):
        print(f"warning: {trouble}")


if __name__ == "__main__":
    main()
