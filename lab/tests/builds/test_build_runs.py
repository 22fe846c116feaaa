"""`hak ab --builds`: every block uses its pair of builds, as header and records say; a resumed run uses the same."""

import pytest

# One group, so that one worker builds the library six times and all of these tests use these builds.
pytestmark = pytest.mark.xdist_group("builds")

FLAGS = ("--repeat", "1", "--warm-up", "0", "--looks", "1", "--max-blocks", "12", "--seed", "5", "--quiet")
BUILDS = ("--builds", "6")


@pytest.fixture(scope="module")
def kept():
    """Result and stored file of the run that these tests share; the first test fills it."""
    return {}


@pytest.fixture
def measured(here, fakes, store, kept):
    """The result of the shared run. The first test measures it; each test gets the file in its own store."""
    if kept:
        store.mkdir()
        (store / kept["name"]).write_bytes(kept["data"])
        return kept["result"]
    words = ["ab", "--control", "hakmem", "--treatment", "glibc", "--metric", "rss", *FLAGS, *BUILDS, "--json", "-"]
    answer = here(*words, "--", fakes.program, "burn", "1")
    assert answer.status == 0, answer.err
    (path,) = store.glob("*.jsonl")
    kept |= {"result": answer.result(), "name": path.name, "data": path.read_bytes()}
    return kept["result"]


@pytest.mark.long
def test_a_run_says_which_build_took_part(measured, records, here):
    (header,) = records("header")
    pairs = header["builds"]["pairs"]
    assert header["builds"]["each"] == 2
    assert len({pair["hakmem"] for pair in pairs}) == len({pair["seed"] for pair in pairs}) == 6
    assert len({pair["glibc"] for pair in pairs}) == 1
    for record in records("block") + records("run", phase="measure"):
        assert record["build"] == record["block"] // 2
    assert measured["blocks"] == 12
    assert measured["builds"]["fixed"] == ["glibc"]
    assert [row["seed"] for row in measured["builds"]["pairs"]] == [pair["seed"] for pair in pairs]
    shown = here("show", "last", "--json", "-").result()
    assert (shown["estimate"], shown["builds"]) == (measured["estimate"], measured["builds"])
    out = here("show", "last").out
    assert "6 builds, 2 blocks each" in out
    assert "glibc is one build" in out


@pytest.mark.long
def test_resumed_on_the_same_builds(measured, records, here, store):
    (path,) = store.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if '"block": 7,' in line)
    path.write_text("".join(lines[:cut]))
    shown = here("show", "last", "--json", "-").result()
    assert (shown["verdict"], shown["final"], shown["blocks"]) == ("INCONCLUSIVE", False, 6)
    assert len(shown["builds"]["pairs"]) == 3
    assert "builds" in shown["answer"]
    assert here("show", "last").status == here("show", "last", "--format", "markdown").status == 0
    assert here("resume", "last").status == 0
    assert [block["build"] for block in records("block")] == [index // 2 for index in range(12)]
    assert records()[-1]["blocks"] == 12


@pytest.mark.long
def test_builds_cannot_be_prolonged(measured, here, store):
    (path,) = store.glob("*.jsonl")
    before = path.read_text()
    answer = here("resume", "last", "--more", "6")
    assert answer.status == 2
    assert "--more" in answer.message() and "start a new run" in answer.message()
    assert path.read_text() == before


@pytest.mark.long
def test_builds_that_are_no_longer_the_same(measured, here, store):
    (path,) = store.glob("*.jsonl")
    first, *rest = path.read_text().splitlines(keepends=True)
    library = "0" * 64
    start = first.index('"hakmem": "', first.index('"builds"')) + len('"hakmem": "')
    path.write_text("".join([first[:start] + library + first[start + 64 :], *rest[:20]]))
    answer = here("resume", "last")
    assert answer.status == 2
    assert "hakmem is not the library" in answer.message()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--control", "glibc", "--treatment", "glibc,A=1", *BUILDS], "neither glibc nor glibc,A=1"),
        (["--control", "glibc", "--treatment", "hakmem", "--builds", "5"], "at least 6, and more say more"),
        (["--control", "glibc", "--treatment", "hakmem", "--builds", "13"], "max-blocks is 12"),
        (["--control", "glibc", "--treatment", "hakmem", "--builds", "0"], "builds"),
        (["--control", "glibc", "--treatment", "hakmem", "--builds", "6", "--detect", "2%"], "detect"),
        (["--control", "glibc", "--treatment", "hakmem", "--builds", "6", "--callgrind"], "drop builds"),
    ],
)
def test_builds_that_cannot_be(here, fakes, store, flags, said):
    answer = here("ab", *FLAGS, *flags, "--", fakes.program, "exit", "0")
    assert answer.status == 2
    assert said in answer.message()
    assert not store.exists()
