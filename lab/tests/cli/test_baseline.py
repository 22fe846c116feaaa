"""`hak runs keep`: keeps a library in a file, and later measures it in the same blocks as its successor."""

import io
import json
import tarfile

import pytest

RATE = r"regex:ops (\d+)"
FAST = ("--looks", "1", "--max-blocks", "6", "--repeat", "1", "--quiet", "--json", "-")


@pytest.fixture
def kept(here, fakes, tmp_path):
    """A baseline of the bump allocator with a setting, and a spec."""
    spec = tmp_path / "spec.toml"
    command = json.dumps([str(fakes.program), "print", "ops 5"])
    spec.write_text(f'kind = "ab"\ncontrol = "glibc"\ntreatment = "glibc"\nmargin = "3%"\ncommand = {command}\n')
    file = tmp_path / "old.baseline"
    answer = here("baseline", "save", file, "--allocator", f"{fakes.allocator},RATE=1000", "--spec", spec)
    assert answer.status == 0, answer.err
    assert str(file) in answer.out
    return file


def rewritten(file, **members):
    """The archive with other contents."""
    with tarfile.open(file, "r:gz") as archive:
        found = {entry.name: archive.extractfile(entry).read() for entry in archive}
    with tarfile.open(file, "w:gz") as archive:
        for name, data in (found | members).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def test_both_run_now_in_the_same_blocks(kept, here, fakes, records, tmp_path):
    words = ["--treatment", f"{fakes.allocator},RATE=1100", "--metric", RATE, "--higher-is-better", *FAST]
    command = ["sh", "-c", "echo ops $RATE"]
    result = here("baseline", "compare", kept, *words, "--", *command).result()
    assert (result["verdict"], result["margin"]) == ("GO", 0.03)
    assert result["estimate"] == pytest.approx(0.1)
    control = records("header")[0]["arms"][0]
    assert control["name"] == f"baseline:{kept}"
    assert control["variables"] == {"RATE": "1000"}
    runs = records("run", phase="measure")
    assert [sum(run["arm"] == control["name"] for run in runs if run["block"] == block) for block in range(6)] == [
        2
    ] * 6


def test_the_spec_in_it_is_enough(kept, here, fakes, records):
    here("baseline", "compare", kept, "--treatment", fakes.allocator, *FAST)
    (header,) = records("header")
    assert header["command"]["argv"][1:] == ["print", "ops 5"]
    assert header["spec"]["margin"] == 0.03


def test_it_outlives_the_library(kept, here, fakes, tmp_path):
    """The built library is deleted, but its copy in the baseline can still be measured."""
    other = tmp_path / "lib.so"
    other.write_bytes(fakes.allocator.read_bytes())
    file = tmp_path / "again.baseline"
    here("baseline", "save", file, "--allocator", other)
    other.unlink()
    answer = here("ab", "--control", f"baseline:{file},X=1", "--treatment", "glibc", *FAST, "--", "true")
    assert answer.status == 0, answer.err
    assert answer.result()["arms"][0]["variables"] == {"X": "1"}


def test_a_baseline_is_an_arm_of_any_kind(kept, here):
    arms = ["--allocators", f"baseline:{kept}", "glibc"]
    answer = here("compare", *arms, "--max-blocks", "6", "--repeat", "1", "--quiet", "--json", "-", "--", "true")
    assert [arm["name"] for arm in answer.result()["arms"]] == ["glibc", f"baseline:{kept}"]


@pytest.mark.parametrize(
    "members",
    [{"library.so": b"other"}, {"baseline.json": b"{}"}, {"baseline.json": b"[]"}, {"baseline.json": b"\xff"}],
)
def test_a_damaged_baseline(kept, here, members):
    rewritten(kept, **members)
    answer = here("baseline", "compare", kept, *FAST, "--", "true")
    assert answer.status == 2
    assert "is no baseline of this laboratory, or damaged" in answer.message()


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_a_file_that_is_none(here, tmp_path, content):
    file = tmp_path / "x.baseline"
    if content is not None:
        file.write_bytes(content)
    answer = here("baseline", "compare", file, *FAST, "--", "true")
    assert answer.status == 2
    assert str(file) in answer.message()


def test_names_in_an_archive_write_nowhere(kept, here, tmp_path):
    rewritten(kept, **{"../../escaped": b"x"})
    assert here("baseline", "compare", kept, "--treatment", "glibc", *FAST, "--", "true").status == 0
    assert not list(tmp_path.parent.rglob("escaped*"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [(["--allocator", "glibc"], "'glibc' is part of the system"), (["--allocator", "default"], "'default'"),
     (["--allocator", "hakmm"], "did you mean 'hakmem'?"), (["--spec", "none.toml"], "none.toml")],
)  # fmt: skip
def test_what_cannot_be_kept(here, tmp_path, flags, said):
    answer = here("baseline", "save", tmp_path / "x.baseline", *flags)
    assert answer.status == 2
    assert said in answer.message()
    assert not (tmp_path / "x.baseline").exists()


def test_a_spec_of_another_kind(here, tmp_path):
    spec = tmp_path / "s.toml"
    spec.write_text('kind = "compare"\ncommand = "true"\n')
    answer = here("baseline", "save", tmp_path / "x.baseline", "--spec", spec)
    assert "kind ab" in answer.message()
