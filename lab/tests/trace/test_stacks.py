"""Stacks in recordings: they match a program with known allocations, and data of hostile traces are checked."""

import json
import subprocess
from pathlib import Path

import crafted as c
import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.inside.profile import forms, places
from hakmem_lab.trace import stacks

FOLDER = Path(__file__).parent
STACK, STACKS = 10, 6
INFO = c.chunk(c.INFO, b'{"stacks": 1}')
TREE = {"files": [["/no/such", "beef"]], "nodes": [[0, 0, 16], [1, 0, 32]]}
ONE = bytes([STACK, c.MALLOC | c.NEXT, c.FREE | c.IMPLIED, c.THREAD_END])


@pytest.fixture(scope="session")
def program(common, compile_once) -> Path:
    """The program without frame pointers, as distributions build theirs."""
    flags = ("-w", "-O1", "-fomit-frame-pointer", "-fno-builtin", "-fno-optimize-sibling-calls", "-pthread")
    return compile_once(common("plain") / "stacks", ["cc", *flags, FOLDER / "stacks.c"])


@pytest.fixture
def by_stack(here, tmp_path: Path):
    """by_stack(path, words…): innermost function of a stack -> its row."""

    def ask(path: Path, *words: object) -> dict[str, dict]:
        file = tmp_path / "stacks.json"
        answer = here("trace", path, "--by", "stack", "--json", file, *words)
        assert answer.status == 0, answer.err
        found = json.loads(file.read_text(encoding="utf-8"))
        return {each["frames"][0]: each for each in found["stacks"]}

    return ask


def test_every_call_of_a_known_program(hak, by_stack, program, path, tmp_path):
    assert hak("record", "--stacks", "--rate", "1", "-o", path, "--", program).status == 0
    found = by_stack(path, "-o", tmp_path / "p.pb.gz", "--html", tmp_path / "p.html")
    for name in ("temporary", "leaks", "peak", "grows"):
        assert found[name]["frames"][1] == "main" and found[name]["frames"][-1] == "_start"
    told = ("calls", "bytes", "temporaries", "kept", "kept_bytes", "peak_bytes")
    assert [found["temporary"][key] for key in told] == [1000, 100_000, 1000, 0, 0, 0]
    assert [found["leaks"][key] for key in told] == [500, 32_000, 0, 500, 32_000, 0]
    assert [found["peak"][key] for key in told] == [300, 300_000, 0, 0, 0, 300_000]
    assert [found["grows"][key] for key in told] == [50, 1_275_000, 49, 1, 50_000, 0]
    thread = found["in_a_thread"]
    assert thread["temporaries"] == 1 and "start_thread" in thread["frames"] and "main" not in thread["frames"]
    assert 0 < found["leaks"]["live"][-1] <= 32_000  # at the last point in time, perhaps before the last block
    profile = forms.read(tmp_path / "p.pb.gz")
    assert profile.main == str(program)
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("<svg") == 5
    own = {place.build_id for place in stacks.by_stack(path)[1].places() if place.path == str(program)}
    assert own == {places.build_id_of(str(program))} != {""}


def test_a_child_has_stacks_of_its_own(hak, by_stack, program, path):
    assert hak("record", "--stacks", "--rate", "1", "-o", path, "--", program).status == 0
    child = by_stack(path, "--process", "1")
    assert set(child) == {"in_a_child"}  # blocks inherited by the fork belong to the parent
    assert child["in_a_child"]["kept_bytes"] == 555


@pytest.mark.parametrize("mean", ["1K", "16K"])
def test_a_sample_tells_about_as_much(hak, by_stack, program, path, mean):
    """Samples 20 MB in blocks of 512 bytes, and tolerates 5 standard errors of the estimate."""
    rounds, size = 40_000, 512
    assert hak("record", "--stacks", "--rate", mean, "-o", path, "--", program, rounds).status == 0
    row = by_stack(path)["often"]
    spread = 5 * row["samples"] ** -0.5
    assert row["samples"] < rounds / 1.5
    assert abs(row["bytes"] / (rounds * size) - 1) < spread
    assert abs(row["calls"] / rounds - 1) < spread


def test_a_process_that_runs(begin, by_stack, program, path, until):
    running = subprocess.Popen([program, "0", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "ready\n"
    recorder = begin("record", "--stacks", "--rate", "1", "-o", path, str(running.pid))
    until(lambda: "hak-record" in Path(f"/proc/{running.pid}/maps").read_text(encoding="utf-8"), 60)
    running.communicate("\n", timeout=600)
    assert recorder.wait(600) == 0
    found = by_stack(path, "--process", "0")
    assert (found["leaks"]["kept"], found["leaks"]["frames"][1]) == (500, "main")


def test_without_stacks_there_are_none(hak, here, program, path):
    assert hak("record", "-o", path, "--", program).status == 0
    answer = here("trace", path, "--by", "stack")
    assert answer.status == 2 and "hak record --stacks" in answer.err


def test_what_goes_with_what(here, path):
    for words in (("--by", "size"), ("--html", "x.html"), ("--output", "x.folded")):
        assert here("trace", path, *words).status == 2


def crafted(tmp_path: Path, tree: object, codes: bytes = ONE, node: int = 2, complete: bool = True) -> Path:
    path = tmp_path / "crafted"
    text = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    operations = c.thread(0, codes, c.leb(100), b"", b"", c.leb(node), slots=1)
    about = c.chunk(c.PROCESS, b"{}")
    path.write_bytes(c.trace(INFO, about, c.chunk(STACKS, text), operations, complete=complete))
    return path


def test_what_grows_and_what_was_there_from_the_start(written):
    """One stack keeps another block every microsecond, the other has a single block from the start."""
    lines = ['t 1 0 {"stacks": 1}', "t 2 0 {}", f"t {STACKS} 0 {json.dumps(TREE)}"]
    for slot in range(513):
        size, node, time = (100, 1, 1000 * slot) if slot else (9000, 2, 1)
        lines += [f"o 0 0 {STACK} 0 0 {node} {time}", f"o 0 0 {c.MALLOC} {size} {slot} 0 {time}"]
    found, _ = stacks.by_stack(written([*lines, "e 1 {}"]))
    grows, stays = sorted(found["stacks"], key=lambda row: -row["kept"])
    assert grows["kept_bytes"] == grows["peak_bytes"] == 51_200 and stays["peak_bytes"] == 9000
    assert stays["grown_bytes"] == 0 and 24_000 < grows["grown_bytes"] < 27_000
    assert grows["live"] == sorted(grows["live"]) and len(grows["live"]) > 16


def test_a_crafted_trace_is_read(tmp_path):
    found, _ = stacks.by_stack(crafted(tmp_path, TREE))
    (row,) = found["stacks"]
    assert (row["calls"], row["bytes"], row["temporaries"], len(row["frames"])) == (1, 100, 1, 2)


@pytest.mark.parametrize(
    "tree",
    [b"{", [], {}, {"files": 1, "nodes": []}, {"files": [], "nodes": [[1, 0, 0]]}, {"files": [], "nodes": [[-1, 0, 0]]},
     {"files": [["a"]], "nodes": []}, {"files": [], "nodes": [["x", 0, 0]]}, {"files": [], "nodes": [[0, 0]]}],
)  # fmt: skip
def test_a_hostile_tree_is_one_line(tmp_path, tree):
    with pytest.raises(LabError, match="is damaged"):
        stacks.by_stack(crafted(tmp_path, tree))


def test_a_stack_that_cannot_be(tmp_path):
    with pytest.raises(LabError, match="a stack cannot be"):
        stacks.by_stack(crafted(tmp_path, TREE, node=1 << 20))


@pytest.mark.parametrize("mean", [b"0", b"-1", b"true", b'"1"', b"1e400", b"18446744073709551616"])
def test_a_rate_that_cannot_be(tmp_path, mean):
    path = tmp_path / "crafted"
    path.write_bytes(c.trace(c.chunk(c.INFO, b'{"stacks": ' + mean + b"}")))
    with pytest.raises(LabError, match="has no stacks"):
        stacks.by_stack(path)


def test_a_node_that_was_cut_off_is_unknown(tmp_path):
    found, _ = stacks.by_stack(crafted(tmp_path, TREE, node=77))
    assert found["stacks"][0]["frames"] == ["[unknown]"]


def test_a_place_in_a_file_that_is_not_told(tmp_path):
    found, _ = stacks.by_stack(crafted(tmp_path, {"files": [], "nodes": [[0, 9, 64], [1, -1, 80]]}))
    assert found["stacks"][0]["frames"] == ["0x50", "0x40"]


def test_what_names_say_is_text_in_the_page(here, tmp_path):
    taken = "</script><img src=x onerror=alert(1)>"
    tree = {"files": [["/x/" + taken, ""]], "nodes": [[0, 0, 16], [1, 0, 32]]}
    page = tmp_path / "page.html"
    assert here("trace", crafted(tmp_path, tree), "--by", "stack", "--html", page).status == 0
    assert "<img" not in page.read_text(encoding="utf-8")


def test_written_and_read_again(written, printed):
    lines = [f"o 0 0 {STACK} 0 0 5 0", f"o 0 0 {c.MALLOC} 8 0 0 0", f"o 0 0 {c.THREAD_END} 0 0 0 0"]
    read = [line for line in printed(written(lines)) if line.startswith("o ")]
    assert read == lines


@pytest.mark.parametrize(("mean", "said"), [(b"1", "nothing was allocated"), (b"512", "a smaller --rate")])
def test_an_empty_trace_gets_advice_that_can_be_followed(tmp_path, mean, said):
    path = tmp_path / "crafted"
    path.write_bytes(c.trace(c.chunk(c.INFO, b'{"stacks": ' + mean + b"}")))
    with pytest.raises(LabError, match=said):
        stacks.by_stack(path)
    assert said in forms.headline(places.HeapProfile(period=int(mean)))


def test_of_a_wrapper_and_its_program_the_one_that_allocates_most_is_shown(here, tmp_path):
    """Process 0 has two stacks with 200 bytes each, process 1 has one with 9,000."""
    two = bytes([STACK, c.MALLOC | c.NEXT, STACK, c.MALLOC | c.NEXT, c.THREAD_END])
    one = bytes([STACK, c.MALLOC | c.NEXT, c.THREAD_END])
    path, parts = tmp_path / "both.trace", [INFO]
    for number, (name, codes, sizes, nodes) in enumerate(
        [("bash", two, c.leb(200) * 2, c.leb(1) + c.leb(2)), ("big", one, c.leb(9000), c.leb(2))]
    ):
        about = json.dumps({"command": f"/bin/{name} x"}).encode()
        parts += [c.chunk(c.PROCESS, about, process=number), c.chunk(STACKS, json.dumps(TREE).encode(), process=number)]
        parts += [c.thread(0, codes, sizes, b"", b"", nodes, slots=2, process=number)]
    path.write_bytes(c.trace(*parts))
    said = "not shown here: bash (400 bytes); --process N shows one of them"
    found, profile = stacks.by_stack(path)
    assert (found["process"], found["others"]) == (1, [{"process": 0, "program": "bash", "bytes": 400.0}])
    assert said in profile.comments and "big" in profile.comments[0]
    html = tmp_path / "x.html"
    answer = here("trace", path, "--by", "stack", "--html", html, "-o", tmp_path / "x.txt")
    assert "process 1: big x" in answer.out and said in answer.out
    assert said in (tmp_path / "x.txt").read_text() and said[1:] in html.read_text()
    assert stacks.by_stack(path, 0)[0]["process"] == 0
