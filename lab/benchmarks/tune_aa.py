"""How often `hak tune` names a winner among candidates that are all the same, with a real program on this machine.

python benchmarks/tune_aa.py [--tunings 100] [--candidates 8] [--max-blocks 20] [--metric wall]
       [--repeat 1] [--store FOLDER] -- COMMAND...

The candidates are glibc with a variable that nothing reads. Every tuning is an ordinary one, kept in the store; at the
end, how many of them ended in GO, and how many may by alpha. May import the package and its libraries.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from hakmem_lab import kinds
from hakmem_lab.plan.model import build
from hakmem_lab.run.conduct import Context
from hakmem_lab.run.endings import Progress


def tuned(asked: argparse.Namespace, folder: Path, seed: int) -> dict:
    """The result of one tuning."""
    keys = {
        "kind": "tune",
        "command": asked.command,
        "default": "glibc",
        "allocators": [f"glibc,NOBODY_READS_THIS={n}" for n in range(asked.candidates)],
        "max-blocks": asked.max_blocks,
        "metric": asked.metric,
        "repeat": asked.repeat,
        "seed": seed,
    }
    module = kinds.module("tune")
    return module.run(build(module.Spec, keys, "benchmark"), Context(folder, "benchmark", Progress(quiet=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tunings", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--max-blocks", type=int, default=20)
    parser.add_argument("--metric", default="wall")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--store", type=Path)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    found: Counter[str] = Counter()
    alpha = 0.0
    with tempfile.TemporaryDirectory(prefix="hak-") as temporary:
        for seed in range(asked.tunings):
            result = tuned(asked, asked.store or Path(temporary), seed)
            alpha = result["alpha"]
            found[result["verdict"] or "no verdict"] += 1
            print(f"{seed + 1} tunings: {dict(found)}", flush=True)
    print(f"false wins: {found['GO']} of {asked.tunings}; alpha allows {alpha * asked.tunings:g}")


if __name__ == "__main__":
    main()
