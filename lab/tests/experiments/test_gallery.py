"""The gallery: its spec is complete, its pages match their raw data, and losses come first."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import LAUNCH, Answer, answered

from hakmem_lab import kinds
from hakmem_lab.errors import LabError
from hakmem_lab.plan import peers
from hakmem_lab.plan.model import read_toml
from hakmem_lab.plan.spec import AFTER_S
from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import AHEAD, ALIKE, BEHIND, LOST, NEAR, UNDECIDED, Measure, Row
from hakmem_lab.store.runs import RunFile

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "results" / "gallery"
SPEC = kinds.load_spec(ROOT / gallery.SPEC)
MEASURED = sorted({path.name.removesuffix(".jsonl.gz") for path in (PAGES / "data").rglob("*.jsonl.gz")})
TIMED = [key for key in MEASURED if gallery.data(key).exists()]


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(ROOT / "experiments"))
    import gallery as module  # a script in the specs' folder, not a module of the package

    return module


def figure(word: str, ratio: float, low: float, high: float) -> dict:
    return {"word": word, "ratio": ratio, "ci_low": low, "ci_high": high}


SAME = figure("same", 1.0, 0.99, 1.01)
OPEN = figure("open", 1.0, 0.8, 1.2)


def row(key: str = "x", **against: dict) -> Row:
    """A row with one measure of time. against: arm -> figure of the subject, compared with that arm."""
    everyone = dict.fromkeys(against, SAME if all(f is SAME for f in against.values()) else OPEN)
    measure = Measure("speed", "s", against, everyone, {})
    return Row(key, key, "g", {}, {"suite": {"reference": "glibc", "subject": "hakmem"}}, (measure,))


def test_there_are_enough_programs_and_every_peer_is_known():
    assert len(SPEC.workload) >= 24
    allocators = {arm.partition(",")[0] for arm in SPEC.allocators}
    assert len(allocators - {"hakmem"}) >= 8
    assert sum(arm.startswith("hakmem") for arm in SPEC.allocators) == 2
    assert allocators - {"hakmem"} <= {*peers.names(), "glibc"}
    assert SPEC.table == "reference"


def test_what_a_script_of_the_gallery_serves_is_there():
    serve = (ROOT / "bench" / "gallery" / "serve").read_text(encoding="utf-8")
    for each in SPEC.workload:
        words = (each.server or each).command
        if words[0].startswith("bench/"):
            assert (ROOT / words[0]).exists()
        if words[0] == "bench/gallery/serve":
            assert f"  {words[1]})\n" in serve
    assert "gzip_http_version 1.0;" in serve, "ab speaks HTTP 1.0, and would get no compressed page"


def test_most_published_changes_have_a_row_with_a_short_and_a_long_load():
    rows = {each["key"]: each for each in read_toml(ROOT / gallery.SPEC)["workload"]}
    changes = gallery.changes()
    assert len(changes) == 25 and sum(bool(each.row) for each in changes) >= 20
    assert all(each.source and each.change for each in changes)
    assert {each.row for each in changes if each.row} <= {*rows}
    assert sum("loads" in rows[each.row] for each in changes if each.row) >= 18


def test_every_package_has_one_version():
    folder = ROOT / "bench" / "gallery"
    lines = (folder / "requirements.txt").read_text(encoding="utf-8").split()
    assert lines and all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def test_a_program_of_python_is_one_that_its_script_has():
    script = (ROOT / "bench" / "gallery" / "python_load.py").read_text(encoding="utf-8")
    for each in SPEC.workload:
        if "bench/gallery/python_load.py" in each.command:
            name = each.command[each.command.index("bench/gallery/python_load.py") + 1]
            assert f"\ndef {name}(" in script


def test_a_version_names_the_packages_of_a_command(pages):
    words = ["build/gallery/venv/bin/python", "-P", "-s", "bench/gallery/python_load.py", "lance", "2"]
    assert pages.packages_of(words) == ["pylance 14.0.2"]
    assert pages.packages_of(["node", "bench/gallery/pictures.js", "24"]) == ["sharp 0.35.5"]


def test_a_cell_is_in_the_grammar_of_verdicts():
    (measure,) = row(glibc=SAME).measures
    assert measure.cell(figure("open", 1.0, 0.64, 1.44)) == "undecided [-56, +44] %"
    assert measure.cell(figure("faster", 1.5, 1.1, 1.9)) == "50 % faster [10, 90]"
    assert measure.cell(SAME) == "same [-1.0, +1.0] %"
    assert measure.cell(figure("same", 1.0, 1.0, 1.0)) == "same"
    assert measure.cell(figure("same", 0.97, 0.96, 0.98)) == "same (3.1 % slower [2.0, 4.2])"


def less(word: str, by: float, low: float, high: float) -> dict:
    return {"word": word, "less": by, "ci_low": low, "ci_high": high, "unit": "KiB/1,000 requests"}


def test_a_cell_of_growth_is_a_difference():
    (measure,) = row(glibc=SAME).measures
    measure = replace(measure, unit="KiB/1,000 requests")
    assert measure.cell(less("leaner", 120.0, 100.0, 140.0)) == "120 KiB/1,000 requests lower [100, 140]"
    assert measure.cell(less("larger", -1.2, -1.5, -1.0)) == "1.2 KiB/1,000 requests higher [1.0, 1.5]"
    assert measure.cell(less("open", 1.0, -40.0, 20.0)) == "undecided [-20, +40] KiB/1,000 requests"
    assert measure.cell(less("same", 0.0, 0.0, 0.0)) == "same [0, 0] KiB/1,000 requests"
    assert measure.cell(less("same", 1.0, -1e-16, 4.2)) == "same [-4, 0] KiB/1,000 requests"


def test_a_row_that_grows_faster_has_lost_and_its_kind_counts_it(pages):
    plain = replace(row(glibc=OPEN), group="servers", header={"arms": []})
    plain = replace(plain, result={"suite": {"reference": "glibc", "subject": "hakmem", "margin": 0.05}})
    larger, leaner = less("larger", -12.0, -14.0, -10.0), less("leaner", 9.0, 8.0, 11.0)
    found = more_of(plain, "growth", glibc=larger, jemalloc=leaner, hakmem=larger)
    assert found.standing() == LOST and found.measures[1].arms(-1) == ["glibc", "hakmem"]
    assert found.losses()[0] == (1.0, "glibc")
    answer, _, *told = pages.gallery_chart.kinds([found])
    assert "less memory than glibc? No: 0 of 1 need less and 1 more. " in answer
    assert answer.endswith("The greatest losses: x (growth 12 KiB/1,000 requests higher).")
    assert (
        "- Growth: 0 of 1 program grow slower than on glibc, 1 faster, 0 the same within 5 %, and 0 undecided." in told
    )


def test_a_row_stands_by_its_worst_measure():
    slower = figure("slower", 0.8, 0.7, 0.9)
    faster = figure("faster", 1.2, 1.1, 1.3)
    assert row(glibc=slower, jemalloc=faster).standing() == LOST
    assert row(glibc=faster, jemalloc=slower).standing() == BEHIND
    assert row(glibc=faster, jemalloc=OPEN).standing() == AHEAD
    assert row(glibc=SAME, jemalloc=SAME).standing() == ALIKE
    assert row(glibc=OPEN, jemalloc=faster).standing() == UNDECIDED
    assert row(**{"glibc": OPEN, "glibc,MALLOC_ARENA_MAX=2": slower}).standing() == BEHIND
    assert row(**{"glibc": SAME, "jemalloc": OPEN}).standing() == NEAR


def test_its_own_profile_is_no_other_allocator():
    leaner = figure("slower", 0.8, 0.7, 0.9)
    lean = {"hakmem,HAKMEM_PROFILE=lean": leaner}
    assert row(glibc=OPEN, **lean).standing() == UNDECIDED
    assert "; better than hakmem: hakmem,HAKMEM_PROFILE=lean" in next(row(glibc=OPEN, **lean).sentences())


def test_the_greatest_sure_loss_comes_first():
    mild, bad = figure("slower", 0.5, 0.4, 0.95), figure("slower", 0.8, 0.75, 0.85)
    assert row(glibc=bad).losses() < row(glibc=mild).losses()  # by the certain part of the loss, not by the estimate
    assert row(glibc=mild, jemalloc=bad).losses() == row(glibc=mild).losses()  # where glibc is better, only it counts


def test_sentences_say_who_is_better_and_where_allocators_do_not_matter():
    slower = figure("slower", 0.8, 0.7, 0.9)
    assert next(row(glibc=SAME, jemalloc=SAME).sentences()) == "speed: all allocators are the same."
    (told,) = row(glibc=slower, mimalloc2=OPEN).sentences()
    assert told.startswith("speed against glibc: 25 % slower [") and told.endswith("; better than hakmem: glibc.")


def test_growth_that_is_the_same_has_its_amount():
    grown = less("same", -2.0, -3.0, -1.0)
    *_, told = more_of(row(glibc=SAME), "growth", glibc=grown).sentences()
    assert told.startswith("growth against glibc: same (2.0 KiB/1,000 requests higher [1.0, 3.0]); ")


def test_the_sentence_counts_what_is_better_worse_or_the_same(pages):
    words = (figure("faster", 1.2, 1.1, 1.3), figure("slower", 0.8, 0.7, 0.9), OPEN, figure("same", 1.02, 1.01, 1.03))
    found = [Row("x", "x", "g", {}, {"suite": {"margin": 0.05}}, (Measure("t", "s", {}, {"hakmem": each}, {}),))
             for each in words]  # fmt: skip
    told = pages.gallery_chart.sentence(found, gallery.TIME)
    assert told == "1 of 4 programs is faster than on glibc, 1 slower, 1 the same within 5 %, and 1 undecided."


def more_of(first: Row, metric: str, **figures: dict) -> Row:
    """The row with a further measure, as of a run of its own that took 90 minutes and left it open."""
    measure = Measure(gallery.MORE[metric], "KiB", figures, figures, dict.fromkeys(figures, 1024.0))
    tried = {"suite": {"tried": {first.key: {"open": True, "seconds": 5400.0, "blocks": 40}}}}
    more = replace(first, result=first.result | tried, measures=(measure,))
    return replace(first, measures=(*first.measures, measure), more={metric: more})


def test_a_measure_of_its_own_run_is_found_by_its_name_and_says_how_long_it_was_tried(pages):
    plain = replace(row(glibc=OPEN), result={"suite": {"reference": "glibc", "subject": "hakmem", "margin": 0.05}})
    found = more_of(plain, "after-load", glibc=OPEN, hakmem=figure("leaner", 1.3, 1.2, 1.4))
    assert found.measure("memory after load") is found.measures[1] and found.measure(gallery.TIME).label == "speed"
    assert found.measure("least memory") is None and found.measure(gallery.TAIL) is None
    first, second = pages.summary(found)
    assert "tried" not in first[2]
    assert second[1:3] == ["memory after load", "undecided [-17, +25] %, tried for 1 h 30 min"]
    told = pages.gallery_chart.sentence([found], "memory after load")
    assert told.startswith("1 of 1 program keeps less than on glibc, 0 more")
    assert pages.gallery_chart.measured([found]) == ["memory after load"]


def test_a_setting_of_hakmem_that_was_measured_has_its_counts(pages):
    setting = "hakmem,HAKMEM_BACKGROUND=1"
    rows = [
        more_of(row(glibc=OPEN), "after-load", glibc=OPEN, **{setting: figure(word, 1 / cost, 1 / cost, 1 / cost)})
        for word, cost in (("leaner", 0.5), ("leaner", 0.7), ("larger", 1.2))
    ]
    rows.append(more_of(row("bad", glibc=OPEN), "after-load", glibc=OPEN, **{setting: {"word": "failed"}}))
    told = pages.gallery_chart.settings(rows, "memory after load")
    thread = "a background thread in programs with one thread too"
    assert told == (
        f" With `HAKMEM_BACKGROUND=1`, {thread}, 2 of 3 keep less and 1 more (without it, 0 and 0); "
        "the median is 0.70 ×. It failed in bad."
    )
    assert pages.gallery_chart.settings(rows, "least memory") == ""


def test_growth_that_cannot_be_told_from_none_is_below_its_limit(pages):
    spec = {"workload": [{"key": "x", "requests": 64_000}]}
    found = more_of(row(glibc=OPEN), "growth", glibc=OPEN, hakmem=OPEN)
    measure = replace(found.measures[1], unit="KiB/1,000 requests", medians={"glibc": 1.0, "hakmem": 1.2})
    found = replace(found, more={"growth": replace(found.more["growth"], header={"spec": spec})})
    assert pages.middle(found, measure, "glibc") == "below 1.00 KiB/1,000 requests"
    assert pages.middle(found, measure, "hakmem") == "1.20 KiB/1,000 requests"


@pytest.mark.parametrize(
    "counts, word",
    [((9, 0, 0), "Not shown"), ((9, 5, 0), "Yes"), ((9, 4, 0), "In some programs"), ((9, 0, 1), "No"),
     ((9, 3, 1), "Rather yes"), ((9, 1, 3), "Rather not"), ((9, 2, 2), "It depends")],
)  # fmt: skip
def test_a_question_has_an_answer_that_names_the_heavier_side(pages, counts, word):
    assert pages.gallery_chart.verdict(*counts) == word


def test_a_program_is_named_once_among_the_greatest(pages):
    result = {"suite": {"reference": "glibc", "margin": 0.05}}
    plain = replace(row(glibc=OPEN, hakmem=OPEN), group="servers", header={"arms": []}, result=result)
    larger, less_so = figure("larger", 0.5, 0.4, 0.6), figure("larger", 0.8, 0.7, 0.9)
    twice = more_of(more_of(plain, "after-load", hakmem=less_so), "least-memory", hakmem=larger)
    once = more_of(replace(plain, key="y", title="y"), "least-memory", hakmem=less_so)
    answer = pages.gallery_chart.kinds([twice, once])[0]
    assert answer.endswith("The greatest losses: x (least memory 2.00 ×), y (least memory 1.25 ×).")


def test_a_row_whose_time_is_not_measured_has_a_page_too(pages):
    first = gallery.read(TIMED[0], RunFile(gallery.data(TIMED[0])))
    alone = replace(
        first, measures=(replace(first.measures[0], label="memory after load"),), more={"after-load": first}
    )
    assert alone.measure(gallery.TIME) is None and alone.measure("memory after load") is alone.measures[0]
    told = pages.page(alone, "a program 1.0")
    (waited,) = (each.get("after", AFTER_S) for each in first.header["spec"]["workload"] if each["key"] == first.key)
    assert f"| memory after load, {waited:g} s |" in told and "CPU time |" not in told
    assert f"To measure again: `hak bench {first.key} --set metric=after-load`." in told


def test_a_page_with_the_background_thread_says_where_it_runs(pages):
    first = gallery.read(TIMED[0], RunFile(gallery.data(TIMED[0])))
    measure = first.measures[0]
    assert pages.BACKGROUND not in pages.page(first, "a program 1.0")
    settings = measure.by_reference | {"hakmem,HAKMEM_BACKGROUND=1": SAME}
    medians = measure.medians | {"hakmem,HAKMEM_BACKGROUND=1": 1.0}
    both = replace(first, measures=(replace(measure, by_reference=settings, medians=medians),))
    assert pages.BACKGROUND in pages.page(both, "a program 1.0")


def test_a_row_is_published_from_its_own_run_while_others_are_measured(pages, tmp_path, monkeypatch):
    monkeypatch.setenv("HAK_STORE", str(tmp_path))
    for stamp, key in enumerate(("redis", "sort", "nginx")):
        header = {"type": "header", "schema": 1, "id": str(stamp), "kind": "suite", "spec": {"only": [key]}}
        (tmp_path / f"{stamp}.jsonl").write_text(json.dumps(header) + "\n", encoding="utf-8")
    assert pages.newest("sort").id == "1"


def test_a_kind_of_program_has_an_answer_with_its_gains_and_losses(pages):
    result = {"suite": {"reference": "glibc", "margin": 0.05}}
    plain = replace(row(glibc=OPEN, hakmem=OPEN), group="servers", header={"arms": []}, result=result)
    leaner, larger = figure("leaner", 1.25, 1.2, 1.4), figure("larger", 0.8, 0.7, 0.9)
    found = (
        more_of(plain, "after-load", hakmem=leaner, jemalloc5=larger),
        more_of(replace(plain, key="y", title="y"), "least-memory", hakmem=larger),
    )
    answer = pages.gallery_chart.kinds(list(found))[0]
    assert answer.startswith("**Services**: Is hakmem faster than glibc? Not shown: 0 of 2 are faster and 0 slower. ")
    assert " Does it need less memory than glibc? It depends: 1 of 2 needs less and 1 more (jemalloc: 0 " in answer
    assert " (jemalloc: 0 and 1 of 1). The greatest " in answer
    assert answer.endswith("gains: x (memory after load 0.80 ×). The greatest losses: y (least memory 1.25 ×).")


def test_the_chart_of_memory_has_the_rows_that_were_measured(pages):
    first, second = (gallery.read(key, RunFile(gallery.data(key))) for key in TIMED[:2])
    figures = {arm: figure("leaner", 1.3, 1.2, 1.4) for arm in ("hakmem", "mimalloc3", "glibc")}
    drawn = pages.gallery_chart.draw([more_of(first, "least-memory", **figures), second], "memory")
    assert f">{first.title.partition(':')[0]}<" in drawn and f">{second.title.partition(':')[0]}<" not in drawn


def test_where_a_load_ends_is_known_of_servers_and_of_marked_programs():
    assert {key for key in ("redis", "java", "sharp", "duckdb", "sort") if gallery.marks(key)} == {
        "redis", "java", "sharp", "duckdb",
    }  # fmt: skip


@pytest.mark.parametrize("key", TIMED)
def test_memory_is_of_runs_one_by_one(key):
    runs = [record for record in RunFile(gallery.data(key)).records() if record.get("phase") == "measure"]
    assert all(run["wall_s"] for run in runs if run["type"] == "run" and run["ok"]), "of the run one by one"


@pytest.mark.parametrize("key", MEASURED)
def test_a_page_says_what_its_raw_data_say(pages, key):
    read = gallery.published(key)
    assert read.result["final"]
    assert (PAGES / f"{key}.md").read_text(encoding="utf-8") == pages.page(read, pages.load_versions()[key])


@pytest.fixture(scope="module")
def rows():
    return gallery.rows()


@pytest.mark.xdist_group("gallery")
def test_the_index_is_made_of_the_rows_and_names_what_is_not_measured(pages, rows):
    left = [key for key in gallery.names() if key not in TIMED]
    assert (PAGES / "README.md").read_text(encoding="utf-8") == pages.index(rows, left)
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(MEASURED)


@pytest.mark.xdist_group("gallery")
def test_the_chart_and_the_figures_of_the_readme_are_those_of_the_rows(pages, rows):
    for path, drawn in pages.gallery_chart.pictures(rows).items():
        assert (ROOT / path).read_text(encoding="utf-8") == drawn, path
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert pages.gallery_chart.renewed(readme, rows) == readme, "experiments/gallery pages renews README.md"


def gaining(**more: dict) -> Row:
    """A row that takes half of glibc's time, with such figures of its least memory."""
    figures = {"hakmem": figure("faster", 2.0, 1.9, 2.1)}
    measure = Measure("CPU time", "s", figures, figures, {"hakmem": 0.5, "glibc": 1.0})
    plain = replace(row(), header={"arms": []}, measures=(measure,))
    plain = replace(plain, result={"suite": {"margin": 0.05, "reference": "glibc"}})
    return more_of(plain, "least-memory", **more) if more else plain


def test_the_sentences_of_the_readme_are_renewed_where_they_stand(pages):
    own = "- **Peak memory**: more,\n  and more.\n- **The largest loss in these programs**: x.\n"
    text = f"# it\n\n- **Report**: a bug\n\n{own}\nend\n"
    found = pages.gallery_chart.renewed(text, [gaining()])
    assert found.startswith("# it\n\n- **Report**: a bug\n\n- **Processor time**: 1 of 1 program is faster")
    assert found.endswith(" 1.00 s on glibc.\n\nend\n") and found.count("\n- **") == 2
    assert max(map(len, found.splitlines())) <= 118
    with pytest.raises(LabError, match="has 0 lists"):
        pages.gallery_chart.renewed("# it\n", [gaining()])


def test_the_measures_that_lose_stand_first_in_the_readme(pages):
    lines = pages.gallery_chart.lines([gaining(hakmem=figure("larger", 0.5, 0.4, 0.6))])
    heads = [line.partition("**:")[0] for line in lines]
    assert heads == ["**The largest loss in these programs", "**Least memory", "**Processor time"]


@pytest.mark.skipif(not MEASURED, reason="nothing is published yet")
def test_a_run_of_another_row_is_refused():
    with pytest.raises(LabError, match="did not measure exactly the gallery's row 'nothing'"):
        gallery.read("nothing", RunFile(gallery.data(TIMED[0])))


def hak(*words: str) -> Answer:
    return answered([*LAUNCH, *words], cwd=ROOT)


def test_bare_it_tells_what_was_found_losses_first():
    told = hak("bench", "gallery").out
    places = [told.find(f"\n{standing}:") for standing in gallery.STANDINGS]
    assert [place for place in places if place >= 0] == sorted(place for place in places if place >= 0)
    shown = set(re.findall(r"^  (\S+): ", told, re.MULTILINE))
    assert shown == set(MEASURED)


def test_an_unknown_row_is_one_line_with_the_nearest():
    answer = hak("bench", "gallery", "rediss")
    assert answer.status == 2 and "redis" in answer.message()


def test_a_row_is_a_suite_of_that_row_alone(tmp_path):
    if not (ROOT / "build" / "gallery" / "text.txt").exists():
        pytest.skip("bench/gallery/prepare has not been run")
    few = ("--allocators", "glibc", "hakmem", "--max-blocks", "1")
    answer = hak("bench", "gallery", "sort", *few, "--store", str(tmp_path), "--quiet")
    assert answer.status == 0, answer.err
    (stored,) = tmp_path.rglob("*.jsonl")
    assert RunFile(stored).header()["spec"]["only"] == ["sort"]
