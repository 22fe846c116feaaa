"""What `hak tune` would choose, by three ways to try combinations of options, in pairs on the same simulated program.

python benchmarks/tune_search.py [--pairs 60]

Of a program half of the values of options have an effect of their own (standard deviation 2 %), a fifth of the pairs of
values a further one (1 %), and allocators differ by 4 %. Each way tries as many arms in blocks of the same noise:
`sampler` asks Optuna, as --combine does; `drawn` takes combinations at random; `singles` takes one option at a time,
from every allocator in turn. Shown is how much better the chosen arm truly is.
"""

import argparse
import itertools
import random
from collections.abc import Callable

import numpy as np

from hakmem_lab.kinds.tune import search
from hakmem_lab.kinds.tune.spec import Space
from hakmem_lab.plan import tunables
from hakmem_lab.plan.metrics import Metric

DEFAULT, METRIC = "default", Metric("wall")
ALLOCATORS = ("glibc", "hakmem", "jemalloc", "mimalloc", "tcmalloc")
SPACE = Space({name: tunables.options_of(name) for name in ALLOCATORS}, [], {}, [])
AS_THEY_ARE = {name: search.parameters(SPACE, name) or {} for name in ALLOCATORS}
TRIES, FIRST_BLOCKS = 64, 2
Points = dict[str, search.Parameters]


def program(seed: int) -> Callable[[search.Parameters], float]:
    """How much better an arm is than the default, a log-ratio."""

    def drawn_effect(deviation: float, share: float, *what: object) -> float:
        rng = random.Random(f"{seed} {what}")  # of its own, so that all ways see the same program
        return rng.gauss(0, deviation) * (rng.random() < share)

    def effect(point: search.Parameters) -> float:
        values = sorted((key, value) for key, value in point.items() if value != search.UNSET and key != "allocator")
        found = drawn_effect(0.04, 1, point["allocator"])
        found += sum(drawn_effect(0.02, 0.5, each) for each in values)
        return found + sum(drawn_effect(0.01, 0.2, both) for both in itertools.combinations(values, 2))

    return effect


def singles() -> Points:
    found: Points = {}
    for name, options in SPACE.options.items():
        for option in options:
            for value in option.values:
                point = AS_THEY_ARE[name] | {f"{name}: {option.name}": value}
                found[search.text_of(SPACE, point)] = point
    return found


def drawn(seed: int) -> Points:
    rng, found = random.Random(seed), dict[str, search.Parameters]()
    while len(found) < TRIES - len(ALLOCATORS):
        name = rng.choice(ALLOCATORS)
        values = {f"{name}: {each.name}": rng.choice([search.UNSET, *each.values]) for each in SPACE.options[name]}
        point = {"allocator": name} | values
        found.setdefault(search.text_of(SPACE, point), point)
    return found


def chosen(effect: Callable[[search.Parameters], float], others: Points | None, noise: float, seed: int) -> float:
    """The true effect of what is chosen. others: tried beside the allocators as they are; None: Optuna is asked."""
    rng, aim, blocks = np.random.default_rng(seed), search.Aim(DEFAULT, METRIC), list[dict]()
    points: Points = AS_THEY_ARE | (others or {})
    names = list(others or ())
    groups = [list(AS_THEY_ARE), *(names[at : at + search.GROUP] for at in range(0, len(names), search.GROUP))]
    while True:
        wanted = TRIES - len(points) if others is None else 0
        state = search.course(groups, blocks, aim, FIRST_BLOCKS, {}, wanted > 0)
        if state.chosen is not None:
            return effect(points[state.chosen])
        if state.asks:
            scores = {name: search.score(blocks, name, aim, search.DOUBT) for name in points}
            told = [(points[name], score.estimate, score.slack) for name, score in scores.items()]
            found = search.ask(SPACE, told, {*points}, seed + len(groups), min(search.GROUP, wanted))
            points |= found
            groups.append([*found])
            continue
        effects = {DEFAULT: 0.0} | {name: effect(points[name]) for name in state.alive}
        runs = 2 if len(effects) == 2 else 1
        for _ in range(state.until - len(blocks)):
            values = {name: np.exp(rng.normal(-each, noise, runs)) for name, each in effects.items()}
            blocks.append({name: [{"metrics": {"wall": float(v)}} for v in row] for name, row in values.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    pairs = parser.parse_args().pairs
    for noise in (0.01, 0.03, 0.06):
        found: dict[str, list[float]] = {"sampler": [], "drawn": [], "singles": []}
        for seed in range(pairs):
            effect = program(seed)
            for way, others in (("sampler", None), ("drawn", drawn(seed)), ("singles", singles())):
                found[way].append(100 * chosen(effect, others, noise, seed))
        for way, values in found.items():
            apart = np.subtract(values, found["sampler"])
            error = 1.96 * apart.std(ddof=1) / pairs**0.5
            print(f"noise {noise:.0%}  {way:8} {np.mean(values):5.2f} %  {apart.mean():+.2f} ± {error:.2f}", flush=True)


if __name__ == "__main__":
    main()
