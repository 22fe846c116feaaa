"""Entry point of scripts/differential."""

import argparse
import sys
from pathlib import Path

from hunt import hunt, replay, tour
from programs import load

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="hunt for so long (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch of programs")
    parser.add_argument("--out", type=Path, default=Path("build/differential"), help="where findings go")
    parser.add_argument(
        "--replay", type=Path, nargs="+", metavar="FILE", help="run these programs and show the figures"
    )
    parser.add_argument(
        "--places", action="store_true", help="in every kind of environment, instead of costs in an ordinary one"
    )
    words = parser.parse_args()
    if words.replay:
        for path in words.replay:
            replay(path.name, load(path)["program"])
        return 0
    return (tour if words.places else hunt)(words.minutes * 60, words.seed, words.out)


sys.exit(main())
