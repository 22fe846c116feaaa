"""`hak judge`: verdicts on figures that other tools have measured, with warnings about what they leave unknown."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.judge.analysis import UNMEASURED, begun, coarse, comparison
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.failing import differ, times
from hakmem_lab.judge.statistics import unpaired, verdict
from hakmem_lab.judge.statistics.paired import Interval, as_log, paired_interval
from hakmem_lab.judge.statistics.verdict import Verdict
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.plan import foreign
from hakmem_lab.plan.foreign import Benchmark, File
from hakmem_lab.plan.metrics import row_of
from hakmem_lab.plan.model import Model
from hakmem_lab.plan.spec import Alpha, Ratio, compiled, normalised, spec_hash
from hakmem_lab.run.conduct import Context
from hakmem_lab.store.records import Record, Run, present
from hakmem_lab.store.results import Comparison, Result, SideRow
from hakmem_lab.store.runs import RunFile, plain

LEAST_RUNS = 4  # of each side: the fewest with which a two-sided test at 5 % can reject
ALIKE = 0.3
MANY = 500  # runs of each side; among so many, a few that were delayed can flip the sign of a mean
DRIFTING = 0.2  # autocorrelation that one pair of samples in fourteen reaches if the runs are independent
# A drift that passes through two samples in a row rarely moves the second by more than this multiple of the range that
# it gives the wider one: 1 in 1,000 simulated random walks of 4 to 20 runs.
DRIFT_REACH = 3
ORDER = (
    "in which order the runs were made is not known: where all of one came before the other, a drift of the machine is "
    "part of the difference (on shared machines such runs of one and the same program differed by more than chance "
    "explains in 23 %); so is how often it was tried"
)
DRIFT = (
    "the runs were not interleaved, and neighbouring ones resemble each other: {}; a drift of the machine would look "
    "the same as a difference. Let both take turns, and say so with --interleaved"
)
INTERLEAVED = "that each run stood beside the one with its number is taken from --interleaved"
ALTERNATE = (
    "the regions alternate in one process, in random order within a pair, and share its heap: what one side leaves "
    "behind there slows both"
)
ONE_PROCESS = "the runs of a file share one process, and with it its layout of memory, which no interval here covers"


class Spec(Model):
    """files: the control's and the treatment's, or a single file whose first benchmark is the control.
    only: a pattern for names. interleaved: the runs of both alternated."""

    kind: Literal["judge"] = "judge"
    question: str = ""
    files: Annotated[list[str], Field(min_length=1, max_length=2)]
    only: Annotated[str, AfterValidator(lambda text: compiled(text).pattern)] = ""
    metric: str = "wall"
    higher_is_better: bool = False
    margin: Ratio = 0.01
    alpha: Alpha = 0.05
    interleaved: bool = False


Pair = tuple[str, Benchmark, Benchmark]  # name, control, treatment


def _named(spec: Spec, files: list[File]) -> list[dict[str, Benchmark]]:
    """The requested benchmarks of each file."""
    return [{name: b for name, b in file.benchmarks.items() if re.search(spec.only, name)} for file in files]


def unlike(spec: Spec, files: list[File]) -> list[str]:
    """Warnings if two files may not be comparable: different tools, or one benchmark each with different names."""
    named, texts = _named(spec, files), []
    if len(named) == 2 and all(len(own) == 1 for own in named) and named[0].keys() != named[1].keys():
        said = " and ".join(f"'{name}' of {file.name}" for file, (name,) in zip(files, named, strict=True))
        texts.append(f"two benchmarks of different names are compared, {said}: whether they do the same is not known")
    if len({file.tool for file in files}) > 1:
        said = " and ".join(f"{file.name} is of {file.tool}" for file in files)
        texts.append(f"{said}: what they measure of a run may differ")
    return texts


def _pooled(spec: Spec, files: list[File]) -> list[str]:
    found = [(name, file.name) for file in files for name in file.pooled if re.search(spec.only, name)]
    return [f"'{name}' is more than once in {of}: its runs are judged together" for name, of in found]


def pairs(spec: Spec, files: list[File]) -> tuple[str, list[Pair], list[str], list[str]]:
    """(the control, the pairs, what the second file lacks, what the first one lacks). Raises LabError."""
    named = _named(spec, files)
    if missing := next((file for file, own in zip(files, named, strict=True) if not own), None):
        raise LabError(f"only: no benchmark of {missing.name} matches: {nearest(spec.only, missing.benchmarks)}")
    if len(files) == 1:
        (first, control), *others = named[0].items()
        if not others:
            raise LabError(f"{files[0].name}: it has only the benchmark '{first}'; name a second file to compare")
        return first, [(name, control, other) for name, other in others], [], []
    if all(len(own) == 1 for own in named):
        ((_, control),), ((_, treatment),) = named[0].items(), named[1].items()
        return files[0].name, [(files[1].name, control, treatment)], [], []
    both = [(name, control, named[1][name]) for name, control in named[0].items() if name in named[1]]
    if not both:
        raise LabError(f"{files[0].name} and {files[1].name} have no benchmark in common")
    return files[0].name, both, sorted(named[0].keys() - named[1].keys()), sorted(named[1].keys() - named[0].keys())


def run(spec: Spec, context: Context) -> Result:
    if context.resume:
        raise LabError("results of other tools cannot be resumed; hak runs show prints them again")
    if len(set(spec.files)) < len(spec.files):
        raise LabError("files: the same file is named twice")
    files = [foreign.read(name, spec.metric) for name in spec.files]
    if (alternate := {file.tool for file in files} == {foreign.PAIRS}) and len(files) > 1:
        raise LabError(f"files: each of {foreign.PAIRS} holds both sides of its process: judge one at a time")
    spec = spec.model_copy(update={"interleaved": True}) if alternate else spec
    control, both, missing, alone = pairs(spec, files)
    unusable = {name: why for name, *sides in both if (why := next((s.refused for s in sides if s.refused), ""))}
    zero = [name for name, *sides in both if all(side.only_zeros for side in sides)]
    both = [pair for pair in both if pair[0] not in unusable]
    if not both:
        raise LabError("; ".join(f"{name}: {why}" for name, why in unusable.items()))
    arms = [control, *(name for name, _, _ in both)]
    header = {
        "question": spec.question, "spec": normalised(spec), "spec_hash": spec_hash(spec), "spec_file": None,
        "seed": None, "machine": {}, "arms": [_arm(name) for name in arms], "git": None, "inputs":
        {file.name: file.sha256 for file in files}, "tools": sorted({file.tool for file in files}),
        "processes": all(file.processes for file in files), "missing": missing, "alone": alone,
        "unusable": {name: why for name, why in unusable.items() if name not in zero}, "zero": zero,
        "unlike": unlike(spec, files) + _pooled(spec, files),
        "command": {"argv": [*spec.files], "program": None, "sha256": None},
    }  # fmt: skip
    stored = RunFile.create(context.folder, "judge", header)
    for name, *sides in both:
        for place, side in enumerate(sides):
            for record in _records(name, (control, name)[place], side):
                stored.append(record)
    result = analyse(stored.header(), list(stored.records()))
    stored.append({"type": "result", **result})
    stored.close()
    return result


def _arm(name: str) -> Record:
    empty = dict.fromkeys(("library", "sha256", "version", "configuration"))
    return {"name": name, "text": name, "allocator": "default", **empty, "variables": {}, "gates": {}}


def _records(pair: str, arm: str, side: Benchmark) -> Iterator[Record]:
    for at, found in enumerate(side.runs):
        ok = isinstance(found, float)
        yield {"type": "run", "phase": "judge", "workload": pair, "arm": arm, "block": at, "attempt": 0,
               "ok": ok, "why": None if ok else found, "value": found if ok else None}  # fmt: skip


def intervals(spec: Record, control: list[float], treatment: list[float], alpha: float) -> list[Interval]:
    """The intervals at 1 - alpha and at 1 - 2 alpha, in logs, positive = treatment better."""
    sign = 1.0 if spec["higher-is-better"] else -1.0
    x, y = ([sign * math.log(value) for value in values] for values in (control, treatment))
    if spec["interleaved"]:
        d = [after - before for before, after in zip(x, y, strict=True)]
        return [paired_interval(d, level) for level in (1 - alpha, 1 - 2 * alpha)]
    return [unpaired.shift(x, y, level) for level in (1 - alpha, 1 - 2 * alpha)]


def _logs(values: list[float]) -> list[float]:
    return [math.log(value) for value in values]


def _judged(
    spec: Record, names: tuple[str, str], runs: tuple[list[float], list[float]], failed: tuple[int, int], alpha: float
) -> Comparison:
    interval, equivalence = intervals(spec, *runs, alpha)
    word, delta = verdict.judge(interval, equivalence, as_log(spec["margin"])), as_log(spec["margin"])
    means = unpaired.shift_of_means(*runs, 1 - alpha)
    sign = 1.0 if spec["higher-is-better"] else -1.0
    low, high = sorted((sign * means.low, sign * means.high))
    means = replace(means, estimate=sign * means.estimate, low=low, high=high)
    torn = verdict.contradicts(word, means, delta)
    torn = torn and (means.excludes_zero() or len(runs[0]) < MANY)
    praised = {Verdict.GO: failed[1] > failed[0], Verdict.NO_GO: failed[0] > failed[1]}
    begun_runs = len(runs[0]) + failed[0], len(runs[1]) + failed[1]
    unequal = praised.get(word, word is Verdict.NEUTRAL) and differ(failed, begun_runs, alpha)
    resemblance = 0.0 if spec["interleaved"] else unpaired.alike(*(_logs(values) for values in runs))
    drifting = resemblance > DRIFTING and word is not _despite_drift(runs, interval, equivalence, delta)
    shown = str(Verdict.INCONCLUSIVE if torn or unequal or drifting else word)
    row = comparison(interval, *names, spec["metric"], shown, equivalence)
    row |= {"mean_open": verdict.unsupported(word, means, delta)}
    row |= {"torn": torn, "runs_each": min(map(len, runs)), "failed": list(failed)}
    return row | {
        "at_least_margin": max(interval.low, -interval.high) >= delta,
        "withheld": unequal,
        "drifting": resemblance if drifting else 0.0,
    }


def _despite_drift(
    runs: tuple[list[float], list[float]], interval: Interval, equivalence: Interval, delta: float
) -> Verdict:
    """The verdict by intervals that are wider by the most that a drift within these runs can have moved one side."""
    reach = DRIFT_REACH * max(math.log(max(values)) - math.log(min(values)) for values in runs)
    wide, narrow = (replace(found, low=found.low - reach, high=found.high + reach) for found in (interval, equivalence))
    return verdict.judge(wide, narrow, delta)


def _lost(row: Comparison, first: str) -> str:
    """How often either side failed."""
    return f"{row['treatment']} failed {times(row['failed'][1])}, {first} {times(row['failed'][0])}"


def whole(verdicts: list[str]) -> str:
    """One verdict for several benchmarks: a better one does not outweigh a worse or open one."""
    order = (Verdict.NO_GO, Verdict.INCONCLUSIVE, Verdict.GO, Verdict.NEUTRAL)
    return str(next(word for word in order if word in verdicts))


def _said(few: dict[str, str]) -> list[str]:
    return [f"{name}: {why}" for name, why in few.items()]


def _sides(runs: list[Run], first: str, name: str) -> tuple[list[Run], list[Run]]:
    """(runs of the control, runs of the treatment) of one pair. name: the treatment, which names the pair."""
    own = [run for run in runs if run["workload"] == name]
    return [run for run in own if run["arm"] == first], [run for run in own if run["arm"] == name]


def _compared(sides: tuple[list[Run], list[Run]], in_pairs: bool) -> tuple[list[float], list[float]]:
    """The values of the runs that ended well; in pairs, only of numbers whose runs ended well on both sides."""
    control, treatment = ({run["block"]: present(run["value"]) for run in side if run["ok"]} for side in sides)
    if in_pairs:
        both = [number for number in control if number in treatment]
        return [control[number] for number in both], [treatment[number] for number in both]
    return [*control.values()], [*treatment.values()]


def _unpaired(header: Record, runs: list[Run]) -> list[str]:
    """Warnings about runs that ended well, but whose partner failed or is missing."""
    first, texts = header["arms"][0]["name"], []
    for name in dict.fromkeys(str(run["workload"]) for run in runs if header["spec"]["interleaved"]):
        sides = _sides(runs, first, name)
        pairs = len(_compared(sides, True)[0])
        left = [(arm, sum(run["ok"] for run in side) - pairs) for arm, side in zip((first, name), sides, strict=True)]
        said = " and ".join(f"{count} of {arm}" for arm, count in left if count)
        texts += [f"{name}: left out, as the run with the same number failed or is missing: {said}"] if said else []
    return texts


@explained
def analyse(header: Record, records: list[Record]) -> Result:
    """Compares each benchmark of the treatment with the same one of the control; all intervals hold at once."""
    spec, first = header["spec"], header["arms"][0]["name"]
    runs = [cast(Run, record) for record in records if record["type"] == "run"]
    names = list(dict.fromkeys(str(run["workload"]) for run in runs))
    rows, few = [], dict[str, str]()
    for name in names:
        sides = _sides(runs, first, name)
        failed = (sum(not run["ok"] for run in sides[0]), sum(not run["ok"] for run in sides[1]))
        control, treatment = kept = _compared(sides, spec["interleaved"])
        if min(len(control), len(treatment)) < LEAST_RUNS:
            counted = f"{len(control)} pairs of" if spec["interleaved"] else f"{len(control)} and {len(treatment)}"
            few[name] = f"{counted} runs that ended well"
        else:
            rows.append(_judged(spec, (first, name), kept, failed, spec["alpha"] / len(names)))
    missing = dict.fromkeys(header.get("missing", []), f"it is not in {spec['files'][-1]}") | header.get("unusable", {})
    words = [str(row["verdict"]) for row in rows] + [str(Verdict.INCONCLUSIVE)] * len(few | missing)
    needed = f"; at least {LEAST_RUNS} of each are needed" if few else ""
    withheld = f"No verdict: {'; '.join(_said(missing | few))}{needed}" if missing | few else ""
    if held := [row for row in rows if row["withheld"]]:
        withheld = "No verdict: " + "; ".join(_lost(row, first) for row in held)
    elif drifting := [f"{row['treatment']} ({row['drifting']:.2f})" for row in rows if row["drifting"]]:
        withheld = withheld or f"No verdict: {DRIFT.format(', '.join(drifting))}"
    if (word := whole(words)) == Verdict.NO_GO:
        withheld = ""
    apart = [row for row in rows if row["failed"][0] != row["failed"][1] and not row["withheld"]]
    by_chance = [f"{_lost(row, first)}: chance may explain it." for row in apart]
    counts: list[SideRow] = [{**arm, "n": sum(run["arm"] == arm["name"] for run in runs)} for arm in header["arms"]]
    return plain(begun(header, records) | {
        "verdict": word, "withheld": withheld, "final": True, "margin": spec["margin"], "alpha": spec["alpha"],
        "metric": {"name": spec["metric"], "label": "", "unit": row_of(spec["metric"]).unit,
                   "higher_is_better": spec["higher-is-better"]},
        "unjudged": [(f"{name} against {first}: {spec['metric']}", why) for name, why in
                     (missing | {name: f"too few: {why}" for name, why in few.items()}).items()],
        "watched": [], "blocks": len(runs), "max_blocks": len(runs), "earlier": [], "comparisons": rows,
        "by_chance": by_chance,
        "arms": [arm | UNMEASURED for arm in counts],
        "warnings": [*_warnings(header, runs, _said(few) if rows else []),
                     *(Warn.MISSING.said(text=text) for text in _said(missing))],
    })  # fmt: skip


def _warnings(header: Record, runs: list[Run], few: list[str]) -> list[str]:
    if header["tools"] == [foreign.PAIRS]:
        return [*(Warn.ORDER.said(text=text) for text in (ALTERNATE, ONE_PROCESS)), *few]
    texts: list[str] = [Warn.ORDER.said(text=INTERLEAVED if header["spec"]["interleaved"] else ORDER)]
    texts += [] if header["processes"] else [Warn.ORDER.said(text=ONE_PROCESS)]
    texts += [Warn.MISSING.said(text=f"too few for a verdict: {text}") for text in few]
    texts += [Warn.MISSING.said(text=text) for text in _unpaired(header, runs)]
    texts += [Warn.UNLIKE.said(text=text) for text in header.get("unlike", [])]
    zero = ", ".join(header.get("zero", []))
    missing = [f"{header['spec']['metric']} is 0 on both sides, and not judged: {zero}"] if zero else []
    missing += [f"only in one of the files: {', '.join(header['alone'])}"] if header["alone"] else []
    texts += [Warn.MISSING.said(text=text) for text in missing]
    pairs = dict.fromkeys((run["arm"], run["workload"]) for run in runs)
    values_of = ([present(r["value"]) for r in runs if r["ok"] and (r["arm"], r["workload"]) == pair] for pair in pairs)
    texts += coarse(values_of, header["spec"]["margin"], header["spec"]["metric"])
    alike: dict[str, float] = {}
    for arm, name in dict.fromkeys((run["arm"], str(run["workload"])) for run in runs):
        values = [present(run["value"]) for run in runs if run["ok"] and (run["arm"], run["workload"]) == (arm, name)]
        if (found := unpaired.neighbours(values)) > ALIKE:
            alike[name] = max(found, alike.get(name, 0.0))
    said = ", ".join(f"{name} ({found:.2f})" for name, found in alike.items())
    return [*texts, *([Warn.ALIKE.said(which=said)] if alike else [])]
