"""Random allocation programs on hakmem and on other allocators: which costs more than it should?"""

import argparse
import sys
from pathlib import Path

from check import check
from hunt import hunt, replay, tour
from loaded import loaded
from programs import load
from steady import SERVICES, steady


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--places",
        nargs="?",
        const="",
        metavar="WORD",
        help="look in narrow places: limits, sandboxes, failing calls; or in those whose names have the word",
    )
    what.add_argument("--loaded", action="store_true", help="beside wrappers, other libraries, in sandboxes that kill")
    what.add_argument("--check", action="store_true", help="fixed programs and seeds, and only what no noise changes")
    what.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="run these, and show the figures")
    what.add_argument("--steady", type=float, metavar="MINUTES", help="six services for so long each")
    parser.add_argument(
        "--quick", action="store_true", help="with --loaded: one program, minutes in place of half an hour"
    )
    parser.add_argument("--minutes", type=float, default=5, help="look for so long (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch of programs")
    parser.add_argument("--out", type=Path, default=Path("build/differential"), help="where findings go")
    parser.add_argument("--few", action="store_true", help="with --check: a third of the drawn programs")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="with --check: a report")
    parser.add_argument("--only", nargs="+", choices=SERVICES, default=[], help="with --steady: these alone")
    parser.add_argument("--jobs", type=int, default=1, help="with --steady: how many side by side")
    words = parser.parse_args()
    if words.replay:
        kept = [(path.name, load(path)) for path in words.replay]
        flags = [replay(name, case["program"], case.get("place", "")) for name, case in kept]
        return 1 if any(flags) else 0
    if words.check:
        return check(words.junit, words.few)
    if words.loaded:
        return loaded(words.quick)
    if words.steady:
        return steady(words.steady, words.only, words.jobs, words.out)
    if words.places is not None:
        return tour(words.minutes * 60, words.seed, words.out, words.places)
    return hunt(words.minutes * 60, words.seed, words.out)


if __name__ == "__main__":
    sys.exit(main())
