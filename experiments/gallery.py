"""Writes results/gallery: a page for each row of the gallery, and an index. All text is generated from the raw data.

The raw data are those of the row's last published run. `programs.toml` beside them has the versions of the programs.
"""

import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import gallery_chart

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.plan.schedule import ONE_BY_ONE
from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Measure, Row
from hakmem_lab.show.terminal import number
from hakmem_lab.store.runs import RunFile, Store, default_folder

PAGES = gallery.PAGES
VERSIONS = gallery.top() / PAGES / "data" / "programs.toml"
PLACES = {"postgres": "/usr/lib/postgresql/15/bin/postgres", "mariadb": "/usr/sbin/mariadbd"}
INDEX_TOP = """\
# Which allocator for which program?

Each program runs on ten or eleven allocators or settings: glibc, hakmem with two of its profiles, and others. Its
page names their releases. They are configured as their documentation suggests ([peers](../../bench/peers/README.md);
if yours is configured wrongly, correct its row). Where one thread is busy, all sides run at once on one processor.
Servers and programs of several threads [take turns](../../docs/lab/schedules.md) of 10 ms. Memory is that of runs one
by one. The intervals of one measure hold for all sides at once, at 95 %. A difference that is certainly below 5 %
counts as the same. An interval with signs includes no change: the cell is undecided. The programs that hakmem loses
come first. Figures are of the machine and the day that a page names; its warnings say what else that machine did.
Time is processor time, of the server where there is one.

![Time and peak memory of every program, as multiples of glibc](overview.svg)

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

What others reported when they changed the allocator of a program, and the row here that stands for it. The figures are
theirs, mostly of one run without an interval.
"""
CHANGES_HEADS = ["program", "published change", "source", "row", "measured instead"]
# A row is measured until the intervals against glibc are within 5 %, or an hour has gone.
UNTIL_DECIDED = ["--set=within=5%", "--set=patience=1h", "--max-blocks=1000"]
SETTINGS = ("--metric=", "--load=", "--within=", "--patience=")  # keys of the suite that are written as flags here
MARKED = ("after-load",)  # metrics for which a measurement has to know where the load ends
INDEX_HEADS = ["program", "measure", "hakmem against glibc", "better than hakmem", "worse than hakmem"]


def load_versions() -> dict[str, str]:
    return tomllib.loads(VERSIONS.read_text(encoding="utf-8")) if VERSIONS.exists() else {}


def output(*command: str) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def version_of(row: Row) -> str:
    """Name and version of the program's Debian package; for Python, also of the Python package that it runs."""
    spec = next(each for each in row.header["spec"]["workload"] if each["key"] == row.key)
    words = (spec["server"] or spec)["command"]
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
    medians = [[f"`{arm}`", *(number(m.medians.get(arm), m.unit) for m in row.measures)] for arm in arms]
    lines = [f"# {row.title}", "", f"**{row.standing()}.**", ""]
    lines += [line for each in gallery.changes() if each.row == row.key for line in (published(each), "")]
    lines += [f"- {sentence[:1].upper()}{sentence[1:]}" for sentence in row.sentences()]
    lines += ["", f"## Everything against {row.reference}", ""]
    lines += table(["allocator", *labels], cells(row, "by_reference"))
    lines += ["## hakmem against everything", ""]
    lines += table(["against", *labels], cells(row, "against"))
    lines += repeated(row)
    lines += ["## Medians", ""]
    lines += table(["allocator", *labels], medians)
    lines += ["## What was measured", "", *commands(row), "", conditions(row, version), ""]
    warnings = {re.sub(r"\d[\d.]*", "", text): text for text in reversed(row.result["warnings"])}
    lines += [f"- Warning: {text}." for text in reversed(warnings.values())]
    failures = Counter((failure["arm"], failure["why"]) for failure in row.result["failures"])
    lines += [f"- Failed {count} times: {name}, {why}." for (name, why), count in failures.items()] + [""]
    configured = [[f"`{arm['name']}`", arm["version"] or "", arm["configuration"] or ""] for arm in row.result["arms"]]
    lines += table(["allocator", "version", "configuration"], configured)
    raw = f"data/{row.key}.jsonl.gz"
    memory = f", of memory [`alone`](data/alone/{row.key}.jsonl.gz)" if row.alone else ""
    memory += "".join(f", of {gallery.MORE[each]} [`{each}`](data/{each}/{row.key}.jsonl.gz)" for each in row.more)
    lines += [f"To repeat it: `hak bench {row.key}`. Raw data: [`{raw}`]({raw}){memory}."]
    return "\n".join(lines) + "\n"


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


def commands(row: Row) -> list[str]:
    """The command that was run, and its server's if it has one, quoted for a shell."""
    spec = next(each for each in row.header["spec"]["workload"] if each["key"] == row.key)
    variables = [f"{name}={value}" for name, value in spec["env"].items()]
    found = ["```", shlex.join([*variables, *spec["command"]]), "```"]
    return ["```", shlex.join(spec["server"]["command"]), *found[1:]] if spec["server"] else found


def conditions(row: Row, version: str) -> str:
    machine = row.header["machine"]
    where = f"{machine['cpu']}, {machine['processors']} processors, Linux {machine['kernel']}, {machine['libc']}"
    margin = f"{100 * row.result['suite']['margin']:g} %"
    memory = f" Memory: {when(row.alone)}." if row.alone else ""
    memory += "".join(f" {gallery.MORE[name].capitalize()}: {when(each)}." for name, each in row.more.items())
    return f"{version}. {when(row)}, {where}.{memory} Same: less than {margin}."


def when(row: Row) -> str:
    """How often, on which schedule and on which day a row was measured."""
    schedule = row.result["schedule"] or ONE_BY_ONE
    return f"{row.result['blocks']} blocks, {schedule}, {row.header['created'][:10]}"


def index(rows: list[Row], left: list[str]) -> str:
    lines = [INDEX_TOP]
    for standing in gallery.STANDINGS:
        chosen = [row for row in rows if row.standing() == standing]
        if not chosen:
            continue
        lines += [f"## {standing}", ""]
        lines += table(INDEX_HEADS, [line for row in chosen for line in summary(row)])
    lines += changes({row.key for row in rows})
    if left:
        lines += ["## Not measured yet", "", ", ".join(f"`{key}`" for key in left) + ".", ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(row: Row) -> list[list[str]]:
    """A program's lines in the index, one for each measure."""
    name, found = f"[{row.title}]({row.key}.md)", []
    for measure in row.measures:
        record = measure.against.get(row.reference)
        better, worse = (", ".join(measure.arms(sure)) or "none" for sure in (-1, 1))
        cell = measure.cell(record) if record else "failed"
        tried_s = row.tried_s(measure)
        found.append(
            [name, measure.label, cell + (f", tried for {tried_s / 60:.0f} min" if tried_s else ""), better, worse]
        )
        name = ""
    return found


def write_all() -> None:
    """Writes all pages and the index from the published raw data."""
    rows, versions = gallery.rows(), load_versions()
    for row in rows:
        (PAGES / f"{row.key}.md").write_text(page(row, versions[row.key]), encoding="utf-8")
    left = [key for key in gallery.names() if key not in {row.key for row in rows}]
    (PAGES / "README.md").write_text(index(rows, left), encoding="utf-8")
    gallery_chart.write(rows)


def publish(key: str, file: RunFile) -> None:
    """Publishes a run and writes all pages again. Raises LabError if the run is of another row or not finished."""
    row = gallery.read(key, file)
    if not row.result["final"]:
        raise LabError(f"run {file.id} is not finished: hak runs resume {file.id}")
    metric = gallery.judged(key, file)
    place = gallery.data(f"{metric}/{key}" if metric in gallery.MORE else key)
    place.parent.mkdir(parents=True, exist_ok=True)
    if metric not in gallery.MORE:
        gallery.data(f"alone/{key}").unlink(missing_ok=True)
    with gzip.GzipFile(place, "wb", mtime=0) as packed:
        # Paths become relative to the checkout.
        packed.write(file.path.read_bytes().replace(f"{Path.cwd()}/".encode(), b""))
    versions = load_versions() | {key: version_of(row)}
    VERSIONS.write_text("".join(f'{name} = "{versions[name]}"\n' for name in sorted(versions)), encoding="utf-8")
    write_all()


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
    if metric and metric not in gallery.MORE:
        raise LabError(f"--metric: {nearest(metric, gallery.MORE)}")
    flags = [f"--set={flag[2:]}" if flag.startswith(SETTINGS) else flag for flag in flags]
    chosen = words if words and not words[0].isdecimal() else due(metric)[: int(words[0]) if words else 3]
    for key in chosen:
        command = [".venv/bin/hak", "bench", "gallery", key, *UNTIL_DECIDED, *flags, "--quiet"]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            print(f"gallery: row '{key}' could not be measured", file=sys.stderr)
            continue
        publish(key, Store(default_folder()).find("last"))
        print(f"gallery: {key}: results/gallery/{key}.md", flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["renew", *words]:
            renew(words)
        case ["publish", key, *rest] if len(rest) < 2:
            publish(key, Store(default_folder()).find(rest[0] if rest else "last"))
        case ["pages"]:
            write_all()
            print(*gallery_chart.lines(gallery.rows()), sep="\n")
        case _:
            sys.exit("usage: experiments/gallery renew [FLAG...] [N | KEY...] | publish KEY [RUN] | pages")


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"gallery: {error}")
