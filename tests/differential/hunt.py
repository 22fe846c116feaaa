"""The search: draw programs, run them, confirm what stands out, shrink it, and keep it."""

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from arms import OURS, available, run, run_all
from environments import choose, environments, shortened, try_one
from grammar import programs, tried
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException
from hypothesis.strategies import SearchStrategy
from judge import Flag, Runs, confirm, judge, possible
from programs import MIB, TOUCHES, TRIALS, Op, Program, flat, is_trial, listing

ARMS = (OURS, "glibc", "jemalloc", "mimalloc")
BATCH = 200  # programs of one seed
SHRINK_S = 60.0
BROKEN = ("status", "contents", "refused")
WRONG = ("status", "contents")
KNOWN = Path(__file__).parent / "known.json"


def asked(flags: Sequence[Flag], program: Program) -> list[Flag]:
    """A trial costs what it costs: only that it goes wrong counts."""
    return [flag for flag in flags if not is_trial(program) or flag.kind in WRONG]


class Found(Exception):
    """A program that shows the fault looked for: Hypothesis shrinks what raises it."""


@dataclass
class Finding:
    """A fault: what is wrong, and the smallest program known to show it."""

    flag: Flag
    program: Program
    tried: int = 0  # programs before it
    others: list[Flag] = field(default_factory=list)

    @property
    def features(self) -> frozenset[str]:
        return features(self.program["ops"])

    def explains(self, flag: Flag, program: Program) -> bool:
        """Whether a larger program with this flag shows nothing new: it does all that the smallest one does."""
        return flag.kind == self.flag.kind and self.features <= features(program["ops"])


def features(ops: Sequence[Op]) -> frozenset[str]:
    """Operations of a program with the bands of size that allocators treat apart."""
    words = set()
    for op, _ in flat(list(ops)):
        if op["op"] in ("alloc", "resize", "churn", "exchange"):
            size = op["y"] if op["op"] in ("churn", "exchange") else op["x"]
            band = next((i for i, most in enumerate((4096, 32 << 10, MIB, 2 * MIB, 64 * MIB)) if size <= most), 5)
            words.add(f"{op['op']} {band}" + (" calloc" if op.get("how", 0) & 255 == 1 else ""))
            if band >= 3:
                whole = op.get("touch", 0) in (TOUCHES["pages"], TOUCHES["whole"])
                words.add("large, written" if whole else "large, written in part")
        elif op["op"] in ("threads", "fork", "pause", "trim", *TRIALS):
            words.add(op["op"])
        if op["op"] == "free" and op.get("y"):
            words.add("pinned")
    return frozenset(words)


def report(name: str, program: Program, runs: Runs, flags: Sequence[Flag]) -> None:
    """A table of one program on every arm, in ms and MiB."""
    print(f"== {name}\n{listing(program)}")
    columns = ("CPU", "waits", "longest", "peak RSS", "final", "idle", "peak size", "maps", "refused", "metadata")
    print(f"{'':10}" + "".join(f"{column:>11}" for column in columns))
    for arm, rows in runs.items():
        one = rows[-1]
        if one.status != 0:
            print(f"{arm:10} status {one.status} {one.stderr}")
            continue
        mib = [kib / 1024 for kib in (one.peak_rss, one.last.rss, one.idle.rss if one.idle else 0, one.peak_size)]
        cpu, longest = (
            min(us) / 1000 for us in zip(*((r.last.cpu_us, r.longest_us) for r in rows if r.samples), strict=True)
        )
        print(
            f"{arm:10}{cpu:11.2f}{one.last.waits:11}{longest:11.2f}" + "".join(f"{value:11.2f}" for value in mib),
            end="",
        )
        print(f"{max(s.mappings for s in one.samples):11}{one.refused:11}{one.metadata / 1024:11.2f}")
    for flag in flags:
        print(f"  {flag}")
    print(flush=True)


def keep_entry(out: Path, name: str, flag: Flag, tried: int, program: Program, place: str = "") -> None:
    """A reproducer: what `--replay` reads."""
    out.mkdir(parents=True, exist_ok=True)
    entry = {"kind": flag.kind, "place": place, "figures": str(flag), "tried": tried, "program": program}
    (out / f"{name.replace(' ', '_')}.json").write_text(json.dumps(entry, indent=1) + "\n")


def replay(name: str, program: Program, place: str = "", times: int = 3) -> list[Flag]:
    """What a program shows, in its place where it has one."""
    arms = available(ARMS)
    where = {one.name: one for one in environments()}.get(place)
    if where:
        flags, runs = try_one(where, program, arms)
    else:
        runs = run_all(arms, program, times)
        flags = judge(runs)
    report(name, program, runs, flags)
    return flags


@dataclass(frozen=True)
class Known:
    """A limit that is known, with its reason: flags of these kinds, in programs with all these features."""

    kinds: Sequence[str]
    features: Sequence[str]
    reason: str

    def explains(self, flag: Flag, program: Program) -> bool:
        return flag.kind in self.kinds and set(self.features) <= features(program["ops"])


def known_limits() -> list[Known]:
    return [Known(**row) for row in json.loads(KNOWN.read_text())]


@dataclass
class Hunt:
    """One search. `findings` are of this search; `known` were there before."""

    out: Path
    arms: tuple[str, ...]
    until: float
    known: list[Known]
    findings: list[Finding] = field(default_factory=list)
    tried: int = 0

    def fresh(self, flags: Sequence[Flag], program: Program) -> list[Flag]:
        """Those that nothing known and nothing found before explains."""
        flags = asked(flags, program)
        explanations: list[Finding | Known] = [*self.findings, *self.known]
        return [flag for flag in flags if not any(one.explains(flag, program) for one in explanations)]

    def look(self, program: Program) -> list[Flag]:
        if not self.fresh(possible(run(OURS, program)), program):
            return []
        flags = self.fresh(judge(run_all(self.arms, program)), program)
        return self.fresh(confirm(flags, program, self.arms), program)

    def first(self, program: Program) -> Finding | None:
        """What stands out most, where something new does."""
        self.tried += 1
        flags = self.look(program)
        if not flags:
            return None
        flag = max(flags, key=lambda flag: flag.ratio)
        print(f"[{self.tried}] {flag}; shrinking", flush=True)
        return Finding(flag, program, tried=self.tried)

    def still(self, flag: Flag, program: Program) -> Flag | None:
        """Whether a smaller program shows the same: twice, beside the best of the others alone."""
        arms = (OURS, flag.arm if flag.arm in self.arms else "glibc")
        if flag.kind not in {found.kind for found in self.fresh(possible(run(OURS, program)), program)}:
            return None
        flags = [found for found in judge(run_all(arms, program)) if found.kind == flag.kind]
        return next(iter(confirm(flags, program, arms, times=1)), None)

    def batch(self, seed: int) -> Finding | None:
        """Draws programs until one shows something new, and shrinks that."""
        best: Finding | None = None
        shrink_until = self.until

        @seeded(seed)
        @settings(max_examples=BATCH, database=None, deadline=None, suppress_health_check=list(HealthCheck),
                  phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False)  # fmt: skip
        @given(programs() | tried())
        def probe(program: Program) -> None:
            nonlocal best, shrink_until
            if time.monotonic() > (self.until if best is None else shrink_until):
                return
            if best is None:
                best = self.first(program)
                shrink_until = time.monotonic() + SHRINK_S
                shows = best is not None
            elif flag := self.still(best.flag, program):
                best.flag, best.program = flag, program
                shows = True
            else:
                shows = False
            if shows:
                raise Found  # in one place, for Hypothesis tells faults apart by it

        try:
            probe()
        except (Found, HypothesisException):
            pass
        except BaseExceptionGroup as group:
            if not group.subgroup((Found, HypothesisException)):
                raise
        return best

    def keep(self, finding: Finding) -> None:
        self.findings.append(finding)
        name = f"{len(self.findings):03}_{finding.flag.kind.replace(' ', '_')}"
        keep_entry(self.out, name, finding.flag, finding.tried, finding.program)
        finding.others = replay(f"{name} (program {finding.tried})", finding.program)


def hunt(seconds: float, seed: int, out: Path) -> int:
    """Looks for faults for so long; the exit status tells whether there were."""
    arms = available(ARMS)
    search = Hunt(out, arms, time.monotonic() + seconds, known_limits())
    while time.monotonic() < search.until:
        finding = search.batch(seed)
        if finding:
            search.keep(finding)
        seed += 1
    print(f"{search.tried} programs on {', '.join(arms)}; {len(search.findings)} findings")
    for finding in search.findings:
        print(f"  {finding.flag}; first at program {finding.tried}")
    return 1 if search.findings else 0


def drawn(seed: int, count: int, kind: SearchStrategy[Program] | None = None) -> list[Program]:
    """The same programs for the same seed."""
    programs_drawn: list[Program] = []

    @seeded(seed)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck),
              phases=(Phase.generate,))  # fmt: skip
    @given(programs() if kind is None else kind)
    def draw(program: Program) -> None:
        programs_drawn.append(program)

    draw()
    return programs_drawn


def tour(seconds: float, seed: int, out: Path, word: str) -> int:
    """Random programs in random places for so long. What is found is kept, one program a place and kind of fault."""
    arms, chance = available(ARMS), random.Random(seed)
    places = [place for place in environments() if word in place.name]
    until, seen, count = time.monotonic() + seconds, Counter[tuple[str, str]](), 0
    while time.monotonic() < until:
        for program in drawn(seed, BATCH, programs() | tried()):
            place = choose(places, chance)
            count += 1
            flags, runs = try_one(place, program, arms, WRONG if is_trial(program) else ())
            flags = asked(flags, program)
            if any(flag.kind not in BROKEN for flag in flags):  # Only what is not so everywhere.
                everywhere = {flag.kind for flag in judge(run_all(arms, shortened(program)), stable=True)}
                flags = [flag for flag in flags if flag.kind not in everywhere]
            for flag in flags:
                seen[place.name, flag.kind] += 1
                if seen[place.name, flag.kind] == (1 if flag.kind in BROKEN else 2):
                    report(f"{place.name} (program {count})", program, runs, flags)
                    keep_entry(out, f"{place.name} {flag.kind}", flag, count, program, place.name)
            if time.monotonic() > until:
                break
        seed += 1
    print(f"{count} programs in {len(places)} places")
    for (name, kind), times in seen.most_common():
        print(f"  {name}: {kind}, {times} times")
    return 1 if seen else 0
