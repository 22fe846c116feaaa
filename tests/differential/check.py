"""What CI asks: fixed programs and fixed seeds, and only what no noise changes."""

import os
import random
import xml.etree.ElementTree as tree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from arms import OURS, available, run, run_all
from environments import choose, environments, try_one
from fixed import PROFILES, TRIALS, try_trial
from hunt import ARMS, BROKEN, Known, drawn, known_limits
from judge import STABLE, Flag, confirm, judge, possible
from loaded import load_fails, places
from programs import Program, listing, load

CASES = Path(__file__).parent / "cases"
SEED, TIMES = 20261123, 3
ORDINARY, NARROW = 80, 60  # drawn programs; in make test the first third of them


@dataclass(frozen=True)
class Outcome:
    """`limit`: why a failure is expected; with one, a failure is a skip."""

    name: str
    failure: str = ""
    limit: str = ""


def _asked(flag: Flag) -> bool:
    """No times: the others need not run for them."""
    return flag.kind in (*STABLE, *BROKEN, "metadata") or flag.kind.endswith("grows")


def stable_flags(program: Program, arms: Sequence[str], known: Sequence[Known]) -> list[Flag]:
    """Those of one run that the medians of some more still show. Nothing is asked of what is idle."""
    program = {**program, "idle_ms": 0}
    if not any(_asked(flag) for flag in _unexplained(possible(run(OURS, program)), program, known)):
        return []
    return [flag for flag in confirm(judge(run_all(arms, program), stable=True), program, arms, TIMES) if _asked(flag)]


def _text(flags: Sequence[Flag], program: Program) -> str:
    return "\n".join([*map(str, flags), listing(program)])


def _unexplained(flags: Sequence[Flag], program: Program, known: Sequence[Known]) -> list[Flag]:
    return [flag for flag in flags if not any(limit.explains(flag, program) for limit in known)]


def kept_cases(arms: Sequence[str]) -> list[Outcome]:
    """A case names the kinds of flags that its program must not show (any more)."""
    outcomes, places = [], {place.name: place for place in environments()}
    for case, path in ((load(path), path) for path in sorted(CASES.glob("*.json"))):
        program, kinds = case["program"], case["kinds"]
        if set(kinds) <= {"cpu", "longest call"}:  # for --replay
            outcomes.append(Outcome(f"case {path.stem}", "times are not asked here", case["limit"]))
            continue
        if place := places.get(case.get("place", "")):
            found = try_one(place, program, arms, kinds)[0]
        elif any(flag.kind in kinds for flag in possible(run(OURS, program))):
            found = judge(run_all(arms, program))
            # What one run shows, the medians of more must show as well; but not where it is expected.
            if any(flag.kind in kinds for flag in found) and not case.get("limit"):
                found = judge(run_all(arms, program, TIMES))
        else:
            found = []
        flags = [flag for flag in found if flag.kind in kinds]
        outcomes.append(Outcome(f"case {path.stem}", _text(flags, program) if flags else "", case.get("limit", "")))
    return outcomes


def ordinary(arms: Sequence[str], count: int) -> list[Outcome]:
    known, outcomes = known_limits(), []
    for number, program in enumerate(drawn(SEED, count)):
        found = stable_flags(program, arms, known)
        flags = _unexplained(found, program, known)
        limit = "a known limit" if found and not flags else ""
        outcomes.append(Outcome(f"program {number}", _text(flags or found, program) if found else "", limit))
    return outcomes


def narrow(arms: Sequence[str], count: int) -> list[Outcome]:
    """Exit status, contents and refusals in a place each; up to four times, for a place may be short by chance.

    Without the emulator, which is there or not as other presets were built: programs would come to other places.
    """
    places = [place for place in environments() if place.name != "qemu"]
    chance, outcomes = random.Random(SEED), []
    for number, program in enumerate(drawn(SEED + 1, count)):
        place = choose(places, chance)
        for _ in range(4):
            flags = [flag for flag in try_one(place, program, arms, BROKEN)[0] if flag.kind in BROKEN]
            if not flags:
                break
        outcomes.append(Outcome(f"program {number} in {place.name}", _text(flags, program) if flags else ""))
    return outcomes


def beside() -> list[Outcome]:
    """The load in each place but the slow ones. Wrappers of functions are a test of ctest (loaded-memory)."""
    quick = [place for place in places(()) if not place.slow]
    return [Outcome(f"loaded: {place.name}", "\n".join(map(str, load_fails(place)))) for place in quick]


def trials() -> list[Outcome]:
    pairs = [(name, profile) for name in TRIALS for profile in PROFILES]
    return [Outcome(f"trial {name}: {profile}", try_trial(TRIALS[name], profile)) for name, profile in pairs]


def check(junit: Path | None, few: bool) -> int:
    arms = available(ARMS)
    ordinary_count, narrow_count = (ORDINARY // 3, NARROW // 3) if few else (ORDINARY, NARROW)
    # No times are asked, so the groups run side by side.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        groups = [
            pool.submit(narrow, arms, narrow_count),
            pool.submit(ordinary, arms, ordinary_count),
            *map(pool.submit, (beside, trials)),
            pool.submit(kept_cases, arms),
        ]
        outcomes = [outcome for group in groups for outcome in group.result()]
    failed = [one for one in outcomes if one.failure and not one.limit]
    skipped = [one for one in outcomes if one.failure and one.limit]
    for one in failed:
        print(f"-- {one.name}\n{one.failure}")
    for one in outcomes:
        if one.limit and not one.failure:
            print(f"-- {one.name}: its limit does not show any more: {one.limit}")
    if junit:
        suite = tree.Element("testsuite", name="differential", tests=str(len(outcomes)), failures=str(len(failed)),
                             skipped=str(len(skipped)))  # fmt: skip
        for one in outcomes:
            case = tree.SubElement(suite, "testcase", name=one.name)
            if one.failure:
                tree.SubElement(case, "skipped" if one.limit else "failure", message=one.limit).text = one.failure
        junit.parent.mkdir(parents=True, exist_ok=True)
        tree.ElementTree(suite).write(junit)
    print(f"{len(outcomes) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0
