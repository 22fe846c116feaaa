"""The gallery: the published results of every program, with those that hakmem loses first.

A row is a workload of experiments/gallery.toml. Its runs, suites of only that workload, are in results/gallery/data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem_lab import kinds
from hakmem_lab.errors import LabError
from hakmem_lab.judge import words
from hakmem_lab.kinds.suite.sheet import FAILED, FASTER, LEANER, OPEN, SAME
from hakmem_lab.plan import project
from hakmem_lab.plan.model import read_toml
from hakmem_lab.show import figures
from hakmem_lab.store.records import Record, present
from hakmem_lab.store.results import Condition, Ratio, Result
from hakmem_lab.store.runs import RunFile

SPEC = Path("experiments") / "gallery.toml"
CHANGES = Path("bench") / "gallery" / "published.toml"
PAGES = Path("results") / "gallery"
# Metrics that take runs of their own, in folders of these names -> the name of the measure.
MORE = {"after-load": "memory after load", "growth": "growth", "least-memory": "least memory"}
ASKED = "allocated"  # a metric that is of the program, not of an allocator; its run has a folder of its own, too
TIME, PEAK, TAIL = "time", "peak RSS", "p99"  # the other measures; the first one is of time or a rate
LOST, BEHIND, UNDECIDED, ALIKE, NEAR, AHEAD = STANDINGS = (
    "hakmem is worse than glibc in something",
    "Another allocator or setting is better than hakmem in something, glibc in nothing",
    "Undecided against glibc in something",
    "All allocators are within the margin",
    "hakmem is the same as glibc in everything",
    "hakmem is better than glibc in something, and no allocator is shown to be better than hakmem",
)

Cost = tuple[float, float, float]  # (estimate, low, high) as a multiple of the reference's: below 1 is better


@dataclass(frozen=True)
class Measure:
    """One metric of a program. against: arm -> record of the subject against it, with a ratio above 1 where the subject
    is better. by_reference: arm -> its record against the reference."""

    label: str
    unit: str
    against: dict[str, Ratio]
    by_reference: dict[str, Ratio]
    medians: dict[str, float]

    @property
    def memory(self) -> bool:
        return figures.is_memory({"unit": self.unit})

    def change(self, record: Ratio) -> words.Change | None:
        return figures.standing(record, self.memory)

    def cost(self, arm: str) -> Cost | None:
        """What an arm costs; None where it failed, or where the measure has no ratio."""
        record = self.by_reference.get(arm)
        if not record or not record.get("ratio"):
            return None
        return 1 / present(record["ratio"]), 1 / present(record["ci_high"]), 1 / present(record["ci_low"])

    def arms(self, sure: int) -> list[str]:
        """Arms to which the subject is better (1) or worse (-1), the greatest difference first."""
        word = (LEANER if self.memory else FASTER)[0 if sure > 0 else 1]
        found = [arm for arm, record in self.against.items() if record["word"] == word]
        size = {arm: present(self.against[arm].get("ratio") or self.against[arm]["less"]) for arm in found}
        return sorted(found, key=size.__getitem__, reverse=sure > 0)

    def alike(self) -> bool:
        return {record["word"] for record in self.by_reference.values()} == {SAME}

    def cell(self, record: Ratio) -> str:
        """The change with its interval; of one that is the same, its direction only where the interval shows one."""
        found = self.change(record)
        if record["word"] == FAILED or found is None:
            return str(record["word"])
        if record["word"] != SAME:
            return found.told()
        return f"{SAME} ({found.told()})" if found.sure else f"{SAME} {found.interval}".rstrip()


@dataclass(frozen=True)
class Asked:
    """What a program asks of its allocator in an execution; of a server, while its client runs. calls: arm -> the
    calls that allocate or resize, of each execution. bytes: arm -> the bytes they ask for. run: the run that counted.
    """

    calls: dict[str, list[int]]
    bytes: dict[str, list[int]]
    run: "Row"


@dataclass(frozen=True)
class Row:
    """A program. measures: its time or rate first, then memory, then others. conditions: title of a further condition
    -> the same measures under it. more: metric -> the separate run that measured it; `measures` has this metric, too.
    seconds: how long its run took. asked: what it asks of the allocator, where that was counted.
    """

    key: str
    title: str
    group: str
    header: Record
    result: Result
    measures: tuple[Measure, ...]
    conditions: dict[str, tuple[Measure, ...]] = field(default_factory=dict)
    more: "dict[str, Row]" = field(default_factory=dict)
    seconds: float = 0.0
    asked: Asked | None = None

    @property
    def timed(self) -> bool:
        """Whether its time was measured, and not only what takes runs of its own."""
        return self.measures[0].label not in MORE.values()

    @property
    def runs(self) -> "dict[str, Row]":
        """Folder of the raw data -> the run there."""
        asked = {ASKED: self.asked.run} if self.asked else {}
        return ({"": self} if self.timed else {}) | self.more | asked

    @property
    def reference(self) -> str:
        return str(self.result["suite"]["reference"])

    def measure(self, name: str) -> Measure | None:
        """TIME, PEAK, TAIL or a name of MORE."""
        if name == TIME:
            return self.measures[0] if self.timed else None
        return next((each for each in self.measures if each.label.startswith(name)), None)

    def tried_s(self, measure: Measure) -> float | None:
        """How long a measure was tried that is still undecided against the reference, in seconds; else None."""
        if measure.against.get(self.reference, {}).get("word") != OPEN:
            return None
        name = next((metric for metric, label in MORE.items() if label == measure.label), "")
        of = self.runs.get(name, self)
        found = of.result["suite"].get("tried", {}).get(self.key)
        return float(found["seconds"]) if found else of.seconds

    def losses(self) -> list[tuple[float, str]]:
        """(ratio that is lost at least, arm), the greatest loss first, those of growth last. The subject's own profiles
        do not count as other allocators; where the reference is better, only it counts."""
        own = str(self.result["suite"]["subject"]).partition(",")[0]
        lost = [(measure.against[arm], arm) for measure in self.measures for arm in measure.arms(-1)]
        found = sorted((present(record["ci_high"]) if "ratio" in record else 1.0, arm) for record, arm in lost
                       if arm.partition(",")[0] != own)  # fmt: skip
        return [each for each in found if each[1] == self.reference] or found

    def standing(self) -> str:
        if lost := self.losses():
            return LOST if lost[0][1] == self.reference else BEHIND
        if any(self.reference in measure.arms(1) for measure in self.measures):
            return AHEAD
        if all(measure.alike() for measure in self.measures):
            return ALIKE
        words = {
            measure.against[self.reference]["word"] for measure in self.measures if self.reference in measure.against
        }
        return NEAR if words == {SAME} else UNDECIDED

    def sentences(self) -> Iterator[str]:
        """A line for every measure: the change against the reference, and the allocators that are better."""
        for measure in self.measures:
            if measure.alike() and measure.label != MORE["growth"]:  # of which the same is much over many requests
                yield f"{measure.label}: all allocators are the same."
                continue
            better = measure.arms(-1)
            who = f"better than hakmem: {words.listed(better)}" if better else "no allocator is shown to be better"
            record = measure.against.get(self.reference)
            yield f"{measure.label} against {self.reference}: {measure.cell(record) if record else FAILED}; {who}."


def read(key: str, file: RunFile) -> Row:
    """Reads a row from its run. Raises LabError where the run is of another row, or of several."""
    header, records = file.header(), list(file.records())
    asked = header["spec"]
    rows = [row for row in asked.get("workload", ()) if asked.get("only") == [key] and row["key"] == key]
    if not rows:
        raise LabError(f"run {file.id} did not measure exactly the gallery's row '{key}'; measure it: hak bench {key}")
    analyse = kinds.module("suite").analyse
    result = analyse(header, records)
    of_subject = analyse(header | {"spec": header["spec"] | {"table": "subject"}}, records)
    others = zip(of_subject.get("conditions", ()), result.get("conditions", ()), strict=True)
    conditions = {theirs["title"]: _measures(mine, theirs) for mine, theirs in others}
    measures = _measures(of_subject, result)
    times = [record["started"] for record in records if record["type"] == "run" and record["ok"]]
    seconds = max(times, default=0.0) - min(times, default=0.0)
    return Row(key, rows[0]["title"], rows[0]["group"], header, result, measures, conditions, seconds=seconds)


def _measures(of_subject: Result | Condition, of_reference: Result | Condition) -> tuple[Measure, ...]:
    """Combines two analyses of the same blocks: the subject against every arm, and every arm against the reference."""
    return tuple(
        Measure(mine["metric"], mine["unit"], mine["arms"], theirs["arms"], theirs["medians"])
        for mine, theirs in zip(of_subject["suite"]["rows"], of_reference["suite"]["rows"], strict=True)
    )


def top() -> Path:
    """The checkout. Raises LabError outside of one."""
    found = project.root()
    if found is None:
        raise LabError("the gallery is a part of the project's checkout: start hak inside of one")
    return found


def names() -> list[str]:
    """All rows, measured or not."""
    return [str(row["key"]) for row in read_toml(top() / SPEC)["workload"]]


@dataclass(frozen=True)
class Change:
    """A published change of a program's allocator. row: key of the row that measures it. instead: what that row runs
    where no registry has the program."""

    program: str
    change: str
    source: str
    row: str = ""
    instead: str = ""

    def sources(self) -> str:
        """In Markdown, with links where they name a repository of GitHub."""
        return re.sub(r"([\w.-]+/[\w.-]+)#(\d+)", r"[\1 #\2](https://github.com/\1/issues/\2)", self.source)


def changes() -> list[Change]:
    return [Change(**each) for each in read_toml(top() / CHANGES)["change"]]


def judged(key: str, file: RunFile) -> str:
    """The metric by which a run judges this row."""
    return next(str(row["metric"]) for row in file.header()["spec"]["workload"] if row["key"] == key)


def marks(key: str) -> bool:
    """Whether a measurement knows where the load of this row ends: that of a server does with its client, another
    program marks it (hak mark)."""
    spec = next(row for row in read_toml(top() / SPEC)["workload"] if row["key"] == key)
    words = spec["command"].split() if isinstance(spec["command"], str) else spec["command"]
    scripts = [top() / word for word in words if word.startswith("bench/gallery/")]
    scripts += [top() / "bench" / "gallery" / f"{word}.java" for word in words if word == "Work"]
    return "server" in spec or any("HAK_MARK" in script.read_text(encoding="utf-8") for script in scripts)


def data(key: str) -> Path:
    return top() / PAGES / "data" / f"{key}.jsonl.gz"


def asked(key: str) -> Asked | None:
    """What a row's last published count says."""
    place = data(f"{ASKED}/{key}")
    if not place.exists():
        return None
    file = RunFile(place)
    calls: dict[str, list[int]] = {}
    sizes: dict[str, list[int]] = {}
    for record in file.records():
        if record["type"] == "run" and record["phase"] == "measure" and record["ok"]:
            calls.setdefault(record["arm"], []).append(int(record["extra"]["calls"]))
            sizes.setdefault(record["arm"], []).append(int(record["extra"]["allocated_bytes"]))
    return Asked(calls, sizes, read(key, file))


def published(key: str) -> Row:
    """A row of the gallery."""
    more = {metric: read(key, RunFile(data(place))) for metric in MORE if data(place := f"{metric}/{key}").exists()}
    extra = tuple(replace(each.measures[0], label=MORE[metric]) for metric, each in more.items())
    if not data(key).exists():
        return replace(next(iter(more.values())), measures=extra, more=more, asked=asked(key))
    row = read(key, RunFile(data(key)))
    return replace(row, measures=(*row.measures, *extra), more=more, asked=asked(key))


def measured() -> list[str]:
    """The keys of the rows that have a run of any measure."""
    return [key for key in names() if any(data(place + key).exists() for place in ("", *(f"{each}/" for each in MORE)))]


def rows() -> list[Row]:
    """Published rows by standing, the worst first; within a standing, the greatest certain loss first."""
    found = [published(key) for key in measured()]
    return sorted(found, key=lambda row: (STANDINGS.index(row.standing()), row.losses()[:1]))
