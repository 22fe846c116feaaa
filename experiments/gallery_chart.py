"""The charts of the gallery: results/gallery/overview.svg for README.md, and one for each question of the site.

Also writes the sentences of README.md and the site, from the same rows.
"""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import gallery_asked
from panels import Panel, Panels

from hakmem_lab.errors import LabError
from hakmem_lab.kinds.suite.sheet import FAILED, FASTER, SAME
from hakmem_lab.kinds.suite.sheet import LEANER as FEWER
from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Cost, Measure, Row
from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import Table
from hakmem_lab.show.report.pictures.forms import Mark
from hakmem_lab.show.terminal import number

AFTER, GROWTH, LEAST = (gallery.MORE[each] for each in ("after-load", "growth", "least-memory"))
# Name of a standalone picture -> its measures.
PICTURES = {"memory": (AFTER, LEAST), "time": (gallery.TIME,), "overview": (gallery.TIME, gallery.PEAK)}
HEADS = {gallery.TIME: "processor time", gallery.PEAK: "peak memory", gallery.TAIL: "p99"} | {
    name: name for name in gallery.MORE.values()
}
SUBJECT, NAMES = "hakmem", {"hakmem": "hakmem", "jemalloc5": "jemalloc", "mimalloc3": "mimalloc",
                            "google-tcmalloc": "Google's tcmalloc"}  # fmt: skip
TITLE = "Real programs on four allocators, as multiples of glibc"
FEW = 5  # programs of which a median is told
# Measure -> the words for one program that is better than on glibc, for several, and for one that is worse.
WORDS = {
    gallery.TIME: ("is faster", "are faster", "slower"),
    gallery.PEAK: ("needs less", "need less", "more"),
    gallery.TAIL: ("answers faster", "answer faster", "slower"),
    AFTER: ("keeps less", "keep less", "more"),
    GROWTH: ("grows slower", "grow slower", "faster"),
    LEAST: ("needs less", "need less", "more"),
}
README, WIDTH, LOSS = Path("README.md"), 118, "The largest loss in these programs"
CALLS = "Where time is gained"
# Setting of hakmem -> what it changes, for a sentence that names it.
SETTINGS = {"HAKMEM_BACKGROUND=1": ", a background thread in programs with one thread too"}
# Measures of which README.md names a program.
VERBS = {gallery.TIME: "takes", AFTER: "keeps", LEAST: "lives in"}
# Kind of program -> groups of the gallery.
KINDS = {
    "Services": ("servers",),
    "Databases inside of a program": ("databases",),
    "Scripts": ("languages",),
    "Builds": ("compilers",),
    "Tools of the command line": ("data", "media", "solvers"),
}
# Question -> the measure whose words answer it, and the measures that are counted.
ASPECTS = {
    "Is hakmem faster than glibc?": (gallery.TIME, (gallery.TIME, gallery.TAIL)),
    "Does it need less memory than glibc?": (gallery.PEAK, (gallery.PEAK, *gallery.MORE.values())),
}
KINDS_TOP = """\
For each kind of program: how many are better or worse than on glibc with an interval at 95 % that shows more than no
difference, and which. A program counts as faster or slower by its processor time or p99, and as needing less or more
memory by any measure of memory; it can count on both sides. Brackets have the same counts for other allocators.
Multiples are of glibc's figure: 1.07 × is 7 % more.
"""
NAMED = 3  # programs that are named in one sentence
LIMITS, TICKS = (0.36, 3.4), (0.5, 0.7, 1, 1.4, 2, 3)
PANELS = Panels(13, 198, 54, LIMITS, TICKS, " ×")
# Narrow enough for a phone.
NARROW = Panels(13, 140, 61, LIMITS, (0.5, 1, 2, 3), " ×", 317)

NO_MULTIPLE: Cost = (1.0, 1.0, 1.0)


def column(rows: list[Row], which: str, arm: str = SUBJECT) -> list[tuple[Cost, Row]]:
    """(cost, row) for one measure and one arm; rows without that measure are left out."""
    return [(cost, row) for row in rows if (found := row.measure(which)) and (cost := found.cost(arm))]


def having(rows: list[Row], which: str) -> list[tuple[Measure, Row]]:
    """(the measure, row) for the rows where hakmem and glibc have it."""
    found = [(measure, row) for row in rows if (measure := row.measure(which))]
    return [each for each in found if each[0].change(each[0].by_reference.get(SUBJECT, {}))]


def measured(rows: list[Row]) -> list[str]:
    """The measures that some row has."""
    return [which for which in HEADS if having(rows, which)]


def named(rows: list[Row]) -> dict[str, str]:
    """Arm -> its name in the legend, with every version that was measured in these rows."""
    found: dict[str, set[str]] = {arm: set() for arm in NAMES}
    for arm in (arm for row in rows for arm in row.header["arms"] if arm["name"] in NAMES):
        number = re.match(r"(\d+\.\d+)", str(arm["version"]))
        found[arm["name"]] |= {number[1]} if number and arm["name"] != SUBJECT else set()
    return {arm: " ".join([NAMES[arm], " and ".join(sorted(found[arm]))]).strip() for arm in NAMES}


def draw(rows: list[Row], name: str) -> str:
    """A standalone SVG in the colours of the reports: a panel for each measure, of the rows that have any of them."""
    of = PICTURES[name]
    chosen = [row for row in rows if any(row.measure(which) for which in of)]
    told = [sentence(rows, which) for which in of if column(rows, which)]
    return _document(chosen, name, PANELS, of, 30, told)


def pictures(rows: list[Row]) -> dict[Path, str]:
    """The path of each standalone picture, and what is in it."""
    names = [name for name, of in PICTURES.items() if any(column(rows, which) for which in of)]
    return {gallery.PAGES / f"{name}.svg": draw(rows, name) for name in names}


def question(rows: list[Row], which: str) -> str:
    """A chart of one measure, with the lowest cost first."""
    chosen = [row for _, row in sorted(column(rows, which), key=lambda found: found[0])]
    return _document(chosen, f"question-{place(which)}", NARROW, (which,), 21, [sentence(rows, which)])


def place(which: str) -> int:
    return list(HEADS).index(which)


def _document(
    rows: list[Row], name: str, panels: Panels, measures: Sequence[str], letters: int, told: list[str]
) -> str:
    heads = [f"{HEADS[which]}, " if len(measures) > 1 else "" for which in measures]
    titles = [f"{head}× glibc (left is better)" for head in heads]
    pen = svg.Pen(panels.width)
    legend = [(name, svg.arm_colour(place), svg.arm_marker(place)) for place, name in enumerate(named(rows).values())]
    pen.legend(legend, 2 if panels is NARROW else 4)
    names = [svg.label(short(row, rows), letters) for row in rows]
    for panel, which in zip(panels.draw(pen, names, titles), measures, strict=True):
        _dots(pen, panel, rows, which)
    picture = svg.Picture(name, TITLE, " ".join(told), pen, Table(TITLE, [], []))
    return svg.document(picture.inlined(name).svg)


def _dots(pen: svg.Pen, panel: Panel, rows: list[Row], which: str) -> None:
    """Draws the estimates, and hakmem's intervals. A hollow mark: the interval includes 1. An arrow: it is cut off."""
    for place, arm in reversed(list(enumerate(NAMES))):
        colour, marker, own = svg.arm_colour(place), svg.arm_marker(place), arm == SUBJECT
        for cost, row in column(rows, which, arm):
            line = rows.index(row)
            if own:
                Mark(*cost, colour, marker, cost[1] < 1 < cost[2], 1.6, 6).draw(pen, panel.axis, panel.on(line))
            else:
                pen.marks([panel.on(line)(cost[0])], marker, colour, 4)


def lines(rows: list[Row]) -> list[str]:
    """Sentences for README.md: the largest loss of all, then each measure against glibc with the largest gain in it.
    Measures with more losses than gains stand first."""
    lost = [each for each in sure(rows, False) if each[2] != GROWTH][:1]
    having_any = [which for which in WORDS if having(rows, which)]
    return [
        *(f"**{LOSS}**: {short(row, rows)}, {interval(cost)} of glibc's {HEADS[which]}{amounts(row, which)}."
          for cost, row, which in lost),
        *(f"**{CALLS}**: {told}" for told in gallery_asked.ends(rows)),
        *(f"**{HEADS[which].capitalize()}**: {sentence(rows, which)} {middles(rows, which)}"
          f"{settings(rows, which)}{largest(rows, which)}"
          for which in sorted(having_any, key=lambda which: balance(rows, which))),
    ]  # fmt: skip


def amounts(row: Row, which: str) -> str:
    """The medians on hakmem and on glibc, in brackets."""
    measure = row.measure(which)
    if not measure or not {SUBJECT, row.reference} <= measure.medians.keys():
        return ""
    own, other = (number(measure.medians[arm], measure.unit) for arm in (SUBJECT, row.reference))
    return f" ({own} and {other})"


def balance(rows: list[Row], which: str) -> float:
    """Share of the programs that surely gain in one measure, less the share of those that surely lose."""
    programs, gains, losses = tally(rows, (which,), SUBJECT)
    return (gains - losses) / programs


def renewed(text: str, rows: list[Row]) -> str:
    """README.md with the sentences of these rows in place of its own: the list whose items open with a measure."""
    heads = "|".join([LOSS, CALLS, *(head.capitalize() for head in HEADS.values())])
    known = re.compile(rf"(^- \*\*({heads})\*\*: .*\n(^  .*\n)*)+", re.MULTILINE)
    items = [textwrap.fill(f"- {line}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines(rows)]
    found, count = known.subn(lambda _: "".join(f"{item}\n" for item in items), text)
    if count != 1:
        raise LabError(f"{README} has {count} lists of the gallery's measures, and not one")
    return found


def largest(rows: list[Row], which: str) -> str:
    """A sentence that a reader may repeat: the program that gains most in this measure, with the medians of all.

    It gains against glibc; where none surely does, against the most of the others by the greatest amount, and does not
    lose against glibc.
    """
    gains = [row for _, row, measure in sure(rows, True) if measure == which]
    lost = {row.key for _, row, measure in sure(rows, False) if measure == which}
    others = [
        (len(beaten), max(measure.medians[arm] for arm in beaten) - measure.medians[SUBJECT], row.key)
        for row in rows
        if (measure := row.measure(which)) and (beaten := NAMES.keys() & {*measure.arms(1)}) and row.key not in lost
    ]
    best = gains[0].key if gains else max(others, default=(0, 0.0, ""))[-1]
    row = next((row for row in rows if row.key == best), None)
    if row is None or which not in VERBS or not (measure := row.measure(which)):
        return ""
    names = {SUBJECT: SUBJECT, row.reference: row.reference} | NAMES
    told = [
        f"{number(measure.medians[arm], measure.unit)} on {name}"
        for arm, name in names.items()
        if arm in measure.medians
    ]
    return f" {short(row, rows)} {VERBS[which]} {', '.join(told)}."


def middles(rows: list[Row], which: str) -> str:
    """The medians of the rows, on hakmem and on the others; of growth and of few rows there are none."""
    columns = {arm: column(rows, which, arm) for arm in NAMES}
    middle = {arm: median(cost[0] for cost, _ in found) for arm, found in columns.items() if len(found) >= FEW}
    others = ", ".join(
        f"{name}: {middle[arm]:.2f} ×" for arm, name in named(rows).items() if arm in middle and arm != SUBJECT
    )
    return f"The median is {middle[SUBJECT]:.2f} × glibc's ({others})." if SUBJECT in middle else ""


def settings(rows: list[Row], which: str) -> str:
    """The counts and the median of each setting of hakmem that was measured beside it, and the default's counts in the
    same programs."""
    arms = {arm for row in rows if (measure := row.measure(which)) for arm in measure.by_reference}
    told = ""
    for arm in sorted(arm for arm in arms if arm.startswith(f"{SUBJECT},")):
        if not (found := column(rows, which, arm)):
            continue
        same = [row for _, row in found]
        counts, (_, won, lost) = counted(which, *tally(same, (which,), arm)), tally(same, (which,), SUBJECT)
        setting, middle = arm.removeprefix(f"{SUBJECT},"), median(cost[0] for cost, _ in found)
        told += f" With `{setting}`{SETTINGS.get(setting, '')}, {counts} (without it, {won} and {lost}); "
        told += f"the median is {middle:.2f} ×.{failures(rows, which, arm)}"
    return told


def failures(rows: list[Row], which: str, arm: str) -> str:
    """A sentence with the programs that failed with this setting."""
    words = [(row, measure.by_reference.get(arm, {}).get("word")) for row in rows if (measure := row.measure(which))]
    failed = [short(row, rows) for row, word in words if word == FAILED]
    return f" It failed in {', '.join(failed)}." if failed else ""


def counted(which: str, programs: int, won: int, lost: int) -> str:
    """3 of 20 need less and 2 more."""
    one, several, worse = WORDS[which]
    return f"{won} of {programs} {one if won == 1 else several} and {lost} {worse}"


def sentence(rows: list[Row], which: str) -> str:
    """Says how many programs are better than on glibc in one measure, worse, the same, or undecided."""
    one, several, worse = WORDS[which]
    words = [measure.by_reference[SUBJECT]["word"] for measure, _ in having(rows, which)]
    _, gains, losses = tally(rows, (which,), SUBJECT)
    alike, margin = words.count(SAME), 100 * rows[0].result["suite"]["margin"]
    return (
        f"{gains} of {len(words)} program{'s' * (len(words) > 1)} {one if gains == 1 else several} than on glibc, "
        f"{losses} {worse}, {alike} the same within {margin:g} %{higher(rows, which)}, and "
        f"{len(words) - gains - losses - alike} undecided."
    )


def higher(rows: list[Row], which: str) -> str:
    """How many of those that are the same surely need a little more, where that is most of them."""
    alike = [m for m, _ in having(rows, which) if m.by_reference[SUBJECT]["word"] == SAME]
    signs = [change.sure for m in alike if (change := m.change(m.by_reference[SUBJECT]))]
    more, word = signs.count(-1), "slower" if which in (gallery.TIME, gallery.TAIL) else "higher"
    return f" ({more if more < len(alike) else 'all'} of them a little {word})" if more > len(alike) / 2 else ""


def sure(rows: list[Row], gains: bool) -> list[tuple[Cost, Row, str]]:
    """(cost, row, measure) of what is surely better than on glibc, or surely worse; the greatest difference first, and
    growth, which has no multiple, last."""
    words = {each[0 if gains else 1] for each in (FASTER, FEWER)}
    found = [(measure.cost(SUBJECT) or NO_MULTIPLE, row, which) for which in HEADS
             for measure, row in having(rows, which) if measure.by_reference[SUBJECT]["word"] in words]  # fmt: skip
    return sorted(found, key=lambda each: each[0][2] if gains else -each[0][1])


def kinds(rows: list[Row]) -> list[str]:
    """Should I use it for X? What the programs of each kind gain and lose, and a sentence for each measure."""
    lines = []
    for kind, groups in KINDS.items():
        chosen = [row for row in rows if row.group in groups]
        told = [(which, f"{sentence(chosen, which)} {middles(chosen, which)}".rstrip()) for which in measured(chosen)]
        lines += [f"**{kind}**: {answer(chosen, rows)}", ""] if chosen else []
        lines += [*(f"- {HEADS[which][:1].upper()}{HEADS[which][1:]}: {text}" for which, text in told), ""] * bool(told)
    return lines


def verdict(programs: int, won: int, lost: int) -> str:
    """The answer to "is it better?" for several programs."""
    if not won and not lost:
        return "Not shown"
    if not lost:
        return "Yes" if 2 * won > programs else "In some programs"
    return "No" if not won else "Rather yes" if won > lost else "Rather not" if won < lost else "It depends"


def answer(rows: list[Row], every: list[Row]) -> str:
    """Yes or no for time and for memory, on hakmem and on the others, and the greatest gains and losses by name.
    every: the rows of all kinds."""
    told, names = [], named(rows)
    for question, (which, of) in ASPECTS.items():
        programs, won, lost = tally(rows, of, SUBJECT)
        if not programs:
            continue
        counts = [(names[arm], *tally(rows, of, arm)) for arm in NAMES if arm != SUBJECT]
        others = "; ".join(f"{name}: {gain} and {loss} of {each}" for name, each, gain, loss in counts if each)
        others = others and f" ({others})"
        told.append(f"{question} {verdict(programs, won, lost)}: {counted(which, programs, won, lost)}{others}.")
    for word, several in (("gains", sure(rows, True)), ("losses", sure(rows, False))):
        first = {each[1].key: each for each in reversed(several)}  # of each program, its greatest
        greatest = [each for each in several if each is first[each[1].key]][:NAMED]
        some = [f"{short(row, every)} ({HEADS[which]} {amount(cost, row, which)})" for cost, row, which in greatest]
        told += [f"The greatest {word}: {', '.join(some)}."] if some else []
    return " ".join(told)


def tally(rows: list[Row], of: Sequence[str], arm: str) -> tuple[int, int, int]:
    """The number of programs with one of these measures on an arm, of those surely better than on glibc, and worse."""
    found = [{row.measure(which).by_reference.get(arm, {}).get("word") for which in of if row.measure(which)}
             - {None, FAILED} for row in rows]  # fmt: skip
    better, worse = (sum(bool(words & {FASTER[sure], FEWER[sure]}) for words in found) for sure in (0, 1))
    return sum(map(bool, found)), better, worse


def amount(cost: Cost, row: Row, which: str) -> str:
    """A multiple of glibc's, or by how much more or less hakmem's grows."""
    measure = row.measure(which)
    found = measure.change(measure.by_reference[SUBJECT]) if measure and cost is NO_MULTIPLE else None
    return found.short if found else f"{cost[0]:.2f} ×"


def short(row: Row, rows: list[Row]) -> str:
    """The program's name; with what it does, where several rows are of one program."""
    name = row.title.partition(":")[0]
    return name if sum(each.title.startswith(name) for each in rows) < 2 else row.title.partition(",")[0]


def interval(cost: tuple[float, float, float]) -> str:
    return f"{cost[0]:.2f} × [{cost[1]:.2f}, {cost[2]:.2f}]"


def write(rows: list[Row]) -> None:
    readme = gallery.top() / README
    readme.write_text(renewed(readme.read_text(encoding="utf-8"), rows), encoding="utf-8")
    for path, drawn in pictures(rows).items():
        (gallery.top() / path).write_text(drawn, encoding="utf-8")
