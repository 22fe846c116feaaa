"""Writes results/gallery: a page for each row of the gallery, and an index. All text is generated from the raw data.

The raw data are those of the row's last published run. `programs.toml` beside them has the versions of the programs.
"""

import fcntl
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import gallery_asked
import gallery_chart

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.judge.failing import times
from hakmem_lab.judge.steps import LEAST_KIB
from hakmem_lab.plan.metrics import THOUSAND
from hakmem_lab.plan.schedule import ONE_BY_ONE
from hakmem_lab.plan.spec import AFTER_S
from hakmem_lab.run.endings import duration
from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Measure, Row
from hakmem_lab.show.terminal import number
from hakmem_lab.store.runs import RunFile, Store, default_folder

PAGES = gallery.PAGES
VERSIONS = gallery.top() / PAGES / "data" / "programs.toml"
PLACES = {"postgres": "/usr/lib/postgresql/15/bin/postgres", "mariadb": "/usr/sbin/mariadbd"}
BACKGROUND = """\
hakmem's background thread returns memory while the program sleeps. By default it runs where several threads have used
memory, with `HAKMEM_BACKGROUND=1` in every program. jemalloc and Google's tcmalloc run without theirs, as by default.
"""
SIGNS = """\
In intervals with signs, `+` is faster; of memory and growth, `+` is higher. `[0.2, 1.1] ×` is from 0.2 to 1.1 times as
fast.
"""
INDEX_TOP = f"""\
# Which allocator for which program?

Each program runs on glibc, on hakmem, and on four to nine other allocators or settings. The page of a program names
their releases and configurations, and the runs that it shows. An allocator is configured as its documentation suggests
([peers](../../bench/peers/README.md); if yours is configured wrongly, correct its row there). Where one thread is busy,
all sides run at once on one processor. Servers and programs of several threads
[take turns](../../docs/lab/schedules.md) of 10 ms. Memory is measured in runs one by one.

Programs in which hakmem is worse than glibc come first, those in which it is better last. "87 % faster" means that
glibc takes 87 % longer. An interval is at 95 %, for all sides of one measure together. "same" means that the whole
interval is within 5 %. "undecided" means that the interval includes no difference and more than 5 %; beside it stands
how long the program was measured.

{SIGNS}
Figures are of the machine, the day and the revision of hakmem that a page names for each run, with the load of that
machine before it. Memory hardly depends on other load; p99 and intervals of time do.

| measure | what it is |
|---|---|
| CPU time | processor time of the whole program; of a server, while its client runs |
| peak RSS | the largest resident memory of one process |
| p99 | the time within which 99 % of the requests are answered |
| memory after load | PSS of all processes 12 s after the client of a server, or the load of a program, has ended |
| least memory | the smallest limit, in steps of 1 %, in which the program ends well and is at most 5 % slower |
| growth | by how much a server's memory grows with 1,000 requests; it is the same within 5 % of the peak in a run |

Growth of less than 64 KiB in a run cannot be told from none: a median that is "below" a figure is so small.

{BACKGROUND}
![Memory after load and least memory of the programs, as multiples of glibc](memory.svg)

![Time and peak memory of the programs, as multiples of glibc](overview.svg)

```sh
make peers && scripts/bootstrap gallery && bench/gallery/prepare    # once
hak bench redis                                                     # one program, on this machine
hak bench gallery                                                   # the findings below
```

[experiments/gallery.toml](../../experiments/gallery.toml) has the commands. The method is that of
[hak suite](../../docs/lab/howto-suite.md).
"""
CHANGES_TOP = """\
## Programs where a change was published

What other projects reported when they changed the allocator of a program, and the row of this gallery that measures a
similar one. The reported figures are mostly of one run, without an interval.
"""
RUNS_HEADS = ["measure", "blocks", "schedule", "day", "hakmem", "load before", "machine", "raw data"]
CHANGES_HEADS = ["program", "published change", "source", "row", "measured instead"]
# A row is measured until the intervals against glibc are within 5 %, or an hour has gone.
UNTIL_DECIDED = ["--set=within=5%", "--set=patience=1h", "--max-blocks=1000"]
SETTINGS = ("--metric=", "--load=", "--within=", "--patience=")  # keys of the suite that are written as flags here
FOLDERS = (*gallery.MORE, gallery.ASKED)  # metrics with runs of their own
MARKED = ("after-load",)  # metrics for which a measurement has to know where the load ends
INDEX_HEADS = ["program", "measure", "hakmem against glibc", "surely better than hakmem", "surely worse than hakmem"]


def load_versions() -> dict[str, str]:
    return tomllib.loads(VERSIONS.read_text(encoding="utf-8")) if VERSIONS.exists() else {}


def output(*command: str) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def version_of(row: Row) -> str:
    """Name and version of the program's Debian package; for Python, also of the Python package that it runs."""
    words = (workload(row)["server"] or workload(row))["command"]
    name = words[1] if words[0].startswith("bench/") else words[0]
    path = PLACES.get(name) or shutil.which(name) or name
    for candidate in (path, str(Path(path).resolve())):
        owner = output("dpkg", "-S", candidate)
        if owner:
            package = owner.split(": ")[0].split(",")[0]
            found = output("dpkg-query", "-W", "-f", "${Package} ${Version}", package) or package
            return ", ".join([found, *packages_of(words)])
    return ", ".join(packages_of(words)) or f"{name}, of no package"


def packages_of(words: list[str]) -> list[str]:
    """The packages of PyPI and npm that a command names, by bench/gallery's lists of them."""
    folder = gallery.top() / "bench" / "gallery"
    known = dict(line.split("==") for line in (folder / "requirements.txt").read_text(encoding="utf-8").split())
    known |= json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    called = {"jp2": "pillow", "arrow": "pyarrow", "lance": "pylance", "bench/gallery/pictures.js": "sharp"}
    names = [called.get(word, Path(word).name) for word in words]
    return [f"{name} {known[name]}" for name in dict.fromkeys(names) if name in known]


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def arms_of(measures: tuple[Measure, ...], which: str) -> list[str]:
    return list(dict.fromkeys(arm for measure in measures for arm in getattr(measure, which)))


def cells(row: Row, which: str) -> list[list[str]]:
    """One line for each arm: its name, and the effect with its interval for each measure."""
    found = []
    for arm in arms_of(row.measures, which):
        records = [getattr(measure, which).get(arm) for measure in row.measures]
        told = [measure.cell(record) if record else "" for measure, record in zip(row.measures, records, strict=True)]
        found.append([f"`{arm}`", *told])
    return found


def page(row: Row, version: str) -> str:
    labels = [measure.label for measure in row.measures]
    arms = arms_of(row.measures, "medians")
    medians = [[f"`{arm}`", *(middle(row, measure, arm) for measure in row.measures)] for arm in arms]
    lines = [f"# {row.title}", "", f"**{row.standing()}.**", ""]
    lines += [line for each in gallery.changes() if each.row == row.key for line in (published(each), "")]
    lines += [f"- {sentence[:1].upper()}{sentence[1:]}" for sentence in row.sentences()]
    lines += gallery_asked.sentence(row, bool(workload(row)["server"]))
    lines += ["", f"## Everything against {row.reference}", ""]
    lines += [SIGNS, *table(["allocator", *labels], cells(row, "by_reference"))]
    lines += ["## hakmem against everything", ""]
    lines += table(["against", *labels], cells(row, "against"))
    lines += repeated(row)
    lines += ["## Medians", ""]
    lines += table(["allocator", *labels], medians)
    lines += ["## What was measured", "", *commands(row), "", f"{version}. {margin(row)}", ""]
    lines += table(RUNS_HEADS, runs(row))
    results = [run.result for name, run in row.runs.items() if name != gallery.ASKED]
    told = [text for result in results for text in result["warnings"]]
    warnings = {re.sub(r"\d[\d.]*", "", text): text for text in reversed(told)}
    lines += [f"- Warning: {text}." for text in reversed(warnings.values())]
    failures = Counter(
        (each["arm"], re.sub(r"port \d+", "its port", each["why"])) for result in results for each in result["failures"]
    )
    lines += [f"- Failed {times(count)}: {name}, {why}." for (name, why), count in failures.items()] + [""]
    configured = [[f"`{arm['name']}`", arm["version"] or "", arm["configuration"] or ""] for arm in row.result["arms"]]
    lines += table(["allocator", "version", "configuration"], configured)
    lines += [BACKGROUND] * any("HAKMEM_BACKGROUND" in arm for arm in arms)
    again = [f"`hak bench {row.key}`", *(f"`hak bench {row.key} --set metric={each}`" for each in row.runs if each)]
    lines += [f"To measure again: {', '.join(again[0 if row.timed else 1 :])}."]
    return "\n".join(lines) + "\n"


def middle(row: Row, measure: Measure, arm: str) -> str:
    """The median of one arm; of growth that cannot be told from none, its limit."""
    value, below = measure.medians.get(arm), ""
    if value is not None and measure.label == gallery.MORE["growth"]:
        requests = workload(row.more["growth"])["requests"]
        below = "below " if requests and value <= LEAST_KIB / requests * THOUSAND * 1.001 else ""
    return below + number(value, measure.unit)


def published(each: gallery.Change) -> str:
    instead = f" Measured here instead: {each.instead}." if each.instead else ""
    return f"Published for {each.program}: {each.change} ({each.sources()}).{instead}"


def changes(measured: set[str]) -> list[str]:
    """The table of published changes, for the index."""
    rows = []
    for each in gallery.changes():
        row = f"[{each.row}]({each.row}.md)" if each.row in measured else f"`{each.row}`" if each.row else "none"
        rows.append([each.program, each.change, each.sources(), row, each.instead])
    return [CHANGES_TOP, *table(CHANGES_HEADS, rows)]


def repeated(row: Row) -> list[str]:
    """Tables of hakmem against each arm, run alone and under each other condition of the run."""
    if not row.conditions:
        return []
    lines = []
    for place, measure in enumerate(row.measures):
        columns = {"alone": measure} | {title: measures[place] for title, measures in row.conditions.items()}
        arms = [[f"`{arm}`", *(each.cell(each.against[arm]) for each in columns.values())] for arm in measure.against]
        lines += [f"## {measure.label[:1].upper()}{measure.label[1:]} under other conditions", ""]
        lines += table(["hakmem against", *columns], arms)
    return lines


def workload(row: Row) -> dict:
    """The row's part of the spec of its run."""
    return next(each for each in row.header["spec"]["workload"] if each["key"] == row.key)


def commands(row: Row) -> list[str]:
    """The commands that were run, and their server's if they have one, quoted for a shell; below the measures of each,
    if they differ."""
    measures: dict[str, list[str]] = {}
    for name, run in row.runs.items():
        spec = workload(run)
        words = [*(f"{name}={value}" for name, value in spec["env"].items()), *spec["command"]]
        server = f"{shlex.join(spec['server']['command'])}\n" if spec["server"] else ""
        measures.setdefault(server + shlex.join(words), []).append(title(row, name))
    told = [f"{', '.join(of)[:1].upper()}{', '.join(of)[1:]}:\n\n" * (len(measures) > 1) for of in measures.values()]
    return "\n\n".join(f"{of}```\n{text}\n```" for of, text in zip(told, measures, strict=True)).splitlines()


def margin(row: Row) -> str:
    return f'"same": the whole interval is within {100 * row.result["suite"]["margin"]:g} %.'


def runs(row: Row) -> list[list[str]]:
    """A line for each run that the page shows: of what, how often, when and where."""
    found = []
    for name, run in row.runs.items():
        machine, folder = run.header["machine"], f"{name}/" if name else ""
        where = f"{machine['cpu']}, {machine['processors']} processors, Linux {machine['kernel']}, {machine['libc']}"
        raw = f"[data](data/{folder}{row.key}.jsonl.gz)"
        blocks, schedule = str(run.result["blocks"]), run.result["schedule"] or ONE_BY_ONE
        day, revision, load = run.header["created"][:10], run.header["git"]["revision"][:8], f"{machine['load_1m']:.1f}"
        found.append([title(row, name), blocks, schedule, day, revision, load, where, raw])
    return found


def title(row: Row, name: str) -> str:
    """The measures that come from one of a row's runs."""
    if name == gallery.ASKED:
        return "calls of the allocator"
    if name in gallery.MORE:
        after_s = workload(row.more[name]).get("after", AFTER_S)
        return gallery.MORE[name] + (f", {after_s:g} s" if name in MARKED else "")
    return ", ".join(each.label for each in row.measures if each.label not in gallery.MORE.values())


def index(rows: list[Row], left: list[str]) -> str:
    lines = [INDEX_TOP, "## Should I use it for X?", "", gallery_chart.KINDS_TOP, *gallery_chart.kinds(rows)]
    if asked := gallery_asked.table(rows):
        lines += [gallery_asked.TOP, *table(gallery_asked.HEADS, asked)]
    for standing in gallery.STANDINGS:
        chosen = [row for row in rows if row.standing() == standing]
        if not chosen:
            continue
        lines += [f"## {standing}", ""]
        lines += table(INDEX_HEADS, [line for row in chosen for line in summary(row)])
    lines += changes({row.key for row in rows})
    if left:
        lines += ["## Time not measured yet", "", ", ".join(f"`{key}`" for key in left) + ".", ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(row: Row) -> list[list[str]]:
    """A program's lines in the index, one for each measure."""
    name, found = f"[{row.title}]({row.key}.md)", []
    for measure in row.measures:
        record = measure.against.get(row.reference)
        better, worse = (", ".join(f"`{arm}`" for arm in measure.arms(sure)) or "none" for sure in (-1, 1))
        cell = measure.cell(record) if record else "failed"
        tried_s = row.tried_s(measure)
        cell += f", tried for {duration(tried_s)}" if tried_s else ""
        found.append([name, measure.label, cell, better, worse])
        name = ""
    return found


def write_all() -> None:
    """Writes all pages, the index and the sentences of README.md from the published raw data."""
    rows, versions = gallery.rows(), load_versions()
    for row in rows:
        (PAGES / f"{row.key}.md").write_text(page(row, versions[row.key]), encoding="utf-8")
    left = [key for key in gallery.names() if key not in {row.key for row in rows if row.timed}]
    (PAGES / "README.md").write_text(index(rows, left), encoding="utf-8")
    gallery_chart.write(rows)


def store(file: RunFile) -> str:
    """Keeps a run as the newest of its row and measure. Returns the row. Raises LabError where it is not finished."""
    only = file.header()["spec"].get("only") or [""]
    key = str(only[0])
    row = gallery.read(key, file)
    if not row.result["final"]:
        raise LabError(f"run {file.id} is not finished: hak runs resume {file.id}")
    metric = gallery.judged(key, file)
    place = gallery.data(f"{metric}/{key}" if metric in FOLDERS else key)
    place.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(place, "wb", mtime=0) as packed:
        # Paths become relative to the checkout.
        packed.write(file.path.read_bytes().replace(f"{Path.cwd()}/".encode(), b""))
    versions = load_versions() | {key: version_of(row)}
    VERSIONS.write_text("".join(f'{name} = "{versions[name]}"\n' for name in sorted(versions)), encoding="utf-8")
    return key


def publish(*files: RunFile) -> None:
    """Publishes runs and writes all pages again. Several rows may be renewed at once: each waits for the others."""
    lock = os.open(VERSIONS.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for key in [store(file) for file in files]:
            print(f"gallery: {key}: {PAGES}/{key}.md", flush=True)
        write_all()
    finally:
        os.close(lock)


def newest(key: str) -> RunFile:
    """The last stored run of this row alone: other rows may be measured meanwhile."""
    files = reversed(Store(default_folder()).runs())
    return next(file for file in files if file.header().get("spec", {}).get("only") == [key])


def due(metric: str | None) -> list[str]:
    """Rows in the order of their need: first those without such a run, then those with the oldest."""
    place = f"{metric}/" if metric else ""
    keys = [key for key in gallery.names() if not metric or gallery.marks(key) or metric not in MARKED]
    files = {key: RunFile(path) for key in keys if (path := gallery.data(place + key)).exists()}
    age = {key: file.header()["created"] for key, file in files.items()}
    return sorted(keys, key=lambda key: age.get(key, ""))


def renew(words: list[str]) -> None:
    """Measures and publishes rows: the named ones, or so many that are due. Flags are passed on to hak bench."""
    flags = [word for word in words if word.startswith("-")]
    words = [word for word in words if word not in flags]
    metric = next((flag.partition("=")[2] for flag in flags if flag.startswith("--metric=")), None)
    if metric and metric not in FOLDERS:
        raise LabError(f"--metric: {nearest(metric, FOLDERS)}")
    flags = [f"--set={flag[2:]}" if flag.startswith(SETTINGS) else flag for flag in flags]
    chosen = words if words and not words[0].isdecimal() else due(metric)[: int(words[0]) if words else 3]
    for key in chosen:
        command = [".venv/bin/hak", "bench", "gallery", key, *UNTIL_DECIDED, *flags, "--quiet"]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            print(f"gallery: row '{key}' could not be measured", file=sys.stderr)
            continue
        publish(newest(key))


def main() -> None:
    match sys.argv[1:]:
        case ["renew", *words]:
            renew(words)
        case ["publish", *names]:
            publish(*(Store(default_folder()).find(name) for name in names or ["last"]))
        case ["pages"]:
            write_all()
        case _:
            sys.exit("usage: experiments/gallery renew [FLAG...] [N | KEY...] | publish [RUN...] | pages")


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"gallery: {error}")
