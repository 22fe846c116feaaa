"""Arms as a user writes them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.errors import LabError
from hakmem_lab.plan import arms, peers, project
from hakmem_lab.plan.arms import parse_arm

needs_hakmem = pytest.mark.skipif(
    project.root() is None or not project.release_library(project.root()).is_file(),
    reason="needs hakmem's release build",
)


def test_name_text_and_variables():
    arm = parse_arm("glibc, A=1 ,B=x=y,C=", "short")
    assert (arm.name, arm.text, arm.allocator) == ("short", "glibc, A=1 ,B=x=y,C=", "glibc")
    assert arm.variables == {"A": "1", "B": "x=y", "C": ""}
    assert parse_arm("glibc").name == "glibc"


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("glibc,CONF=background_thread:true,narenas:2", {"CONF": "background_thread:true,narenas:2"}),
        ("glibc,A=1,2,3,B=x, y,C=", {"A": "1,2,3", "B": "x, y", "C": ""}),
        ("glibc,A=1,", {"A": "1,"}),
        ("glibc,A=,,", {"A": ",,"}),
        ("glibc,A=1,2=3", {"A": "1,2=3"}),
    ],
)
def test_a_value_may_hold_commas(text, variables):
    assert parse_arm(text).variables == variables


def test_settings_of_the_flag_are_taken_as_they_are():
    arm = parse_arm("glibc,A=1", settings=["B=x,C=y", "D= z "])
    assert arm.variables == {"A": "1", "B": "x,C=y", "D": " z "}


@pytest.mark.parametrize(("setting", "said"), [("A=2", "'A' is set twice"), ("B", "'B' is not NAME=VALUE")])
def test_a_mistake_in_a_flag_names_the_flag(setting, said):
    with pytest.raises(LabError, match=f"^--set: {said}"):
        parse_arm("glibc,A=1", settings=[setting])


def test_default_preloads_nothing():
    arm = parse_arm("default,A=1")
    assert arm.library.path is None
    assert "LD_PRELOAD" not in arm.environment({})
    assert arm.environment({})["A"] == "1"


def test_glibc_is_preloaded_like_every_other():
    arm = parse_arm("glibc")
    assert arm.library.path.name.startswith("libc")
    assert arm.environment({})["LD_PRELOAD"] == str(arm.library.path)


def test_a_path_is_a_library(fakes, tmp_path):
    link = tmp_path / "link.so"
    link.symlink_to(fakes.allocator)
    arm = parse_arm(f"{link},FAKE_SPIN=1")
    assert arm.library.path == fakes.allocator
    assert arm.record()["sha256"] == peers.file_sha256(fakes.allocator)
    assert arm.record()["variables"] == {"FAKE_SPIN": "1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("glbc", "did you mean 'glibc'?"),
        ("HAKMEN", "did you mean 'hakmem'?"),
        ("", "names no allocator"),
        (",A=1", "names no allocator"),
        ("glibc,A", "'A' in"),
        ("glibc,", "NAME=VALUE"),
        ("glibc,=1", "NAME=VALUE"),
        ("glibc,1A=1", "NAME=VALUE"),
        ("glibc,A B=1", "NAME=VALUE"),
        ("glibc,A=1,A=2", "set twice"),
        ("/nonexistent/libx.so", "/nonexistent/libx.so"),
        ("./libx.so", "libx.so"),
        ("/tmp", "/tmp"),
        ("/tmp/a\0b.so", "library"),
        ("glibc,A=x\0y", "A"),
    ],
)
def test_a_mistake_names_the_key_and_what_is_wrong(text, said):
    with pytest.raises(LabError, match=r"^treatment: ") as caught:
        parse_arm(text, where="treatment")
    assert said in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_an_arm_or_one_error(text):
    try:
        arm = parse_arm(text if not text.startswith(("hakmem", "~")) else "x" + text)
    except LabError:
        return
    assert arm.allocator in peers.names() or "/" in arm.allocator


def test_settings_of_an_arm_win_over_those_of_all(fakes):
    arm = parse_arm("glibc,A=arm")
    assert arm.environment({"A": "all", "B": "all"})["A"] == "arm"
    assert arm.environment({"A": "all", "B": "all"})["B"] == "all"


@pytest.mark.parametrize("extra", [True, False])
def test_a_library_that_the_user_preloads_too_is_kept(fakes, extra):
    """A preloaded library is kept beside the arm's own, whether it is set for all arms or for this one."""
    other = str(fakes.other_library)
    arm = parse_arm("glibc" if extra else f"glibc,LD_PRELOAD={other}")
    words = arm.environment({"LD_PRELOAD": other} if extra else {})["LD_PRELOAD"].split(":")
    assert words == [str(arm.library.path), other]


@pytest.mark.parametrize("name", ["PATH", "HOME", "TZ"])
def test_what_is_not_set_is_not_invented(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    assert name not in parse_arm("glibc").environment({})


@pytest.mark.parametrize("pad", [0, 1, 4095])
def test_padding(pad):
    env = parse_arm("glibc").environment({}, pad)
    assert len(env.get(arms.PAD_NAME, "")) == pad


def test_the_record_is_complete_and_holds_no_path_objects():
    record = parse_arm("glibc,A=1").record()
    assert set(record) >= {"name", "text", "allocator", "library", "sha256", "version", "variables", "configuration"}
    assert all(value is None or isinstance(value, str | dict) for value in record.values())


@needs_hakmem
class TestHakmem:
    """The names of hakmem's options are checked in advance, since the allocator itself can only warn."""

    def test_an_option_that_exists(self):
        name = sorted(arms.options_of(project.release_library(project.root())))[0]
        assert parse_arm(f"hakmem,{name}=1").variables == {name: "1"}

    def test_an_option_that_does_not_exist_gets_the_nearest(self):
        with pytest.raises(LabError, match=r"^control: .*'HAKMEM_PROFIL'.*did you mean 'HAKMEM_PROFILE'"):
            parse_arm("hakmem,HAKMEM_PROFIL=lean", where="control")

    @pytest.mark.parametrize("revision", ["", "no-such-revision", "-x", "a b"])
    def test_a_revision_that_does_not_exist(self, revision):
        with pytest.raises(LabError, match=r"hakmem@"):
            parse_arm(f"hakmem@{revision}", where="treatment")

    def test_a_value_that_the_allocator_refuses(self, here, fakes, store):
        words = ["ab", "--control", "glibc", "--treatment", "hakmem,HAKMEM_PROFILE=bogus", "--quiet"]
        answer = here(*words, "--", fakes.program, "exit", "0")
        assert answer.status == 2
        assert "HAKMEM_PROFILE" in answer.message()
        assert not store.exists()


@pytest.fixture
def earlier(fakes, tmp_path, monkeypatch):
    """A checkout with one revision, whose scripts/gates lists one research gate, IDEA."""
    files = {
        "include/hakmem.h": "",
        "src/malloc/fast.h": "",
        "scripts/gates": '#!/bin/sh\n[ "$1" = --list ] && printf "IDEA\\t0\\t2001-02-03\\ttry it\\n" && exit\n'
        f'echo "$@" >built\necho building\necho {fakes.allocator}\n',
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (("init",), ("add", "."), (*identity, "commit", "-m", "It has a gate")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestGatesOfARevision:
    def test_they_select_how_it_is_built(self, earlier, fakes):
        arm = parse_arm("hakmem@HEAD,HAKMEM_IDEA=1,A=2")
        assert (arm.gates, arm.variables) == ({"HAKMEM_IDEA": "1"}, {"A": "2"})
        assert (arm.library.path, arm.library.configuration) == (fakes.allocator, "HAKMEM_IDEA=1")
        assert next((earlier / "build" / "revisions").glob("*/built")).read_text() == "IDEA=1\n"

    def test_one_that_does_not_exist_gets_the_nearest(self, earlier):
        said = "hakmem@HEAD has no option or gate 'HAKMEM_IDEAS': did you mean 'HAKMEM_IDEA'"
        with pytest.raises(LabError, match=said):
            parse_arm("hakmem@HEAD,HAKMEM_IDEA=1,HAKMEM_IDEAS=1")


def test_the_state_of_a_checkout_is_its_revision_and_whether_its_sources_differ(earlier):
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    clean = {"revision": asked.stdout.strip(), "dirty": False}
    (earlier / "notes").write_text("no source")
    assert project.git_state(earlier) == clean
    (earlier / "src" / "new.c").touch()
    assert project.git_state(earlier) == clean | {"dirty": True}
    (earlier / "src" / "new.c").unlink()
    (earlier / "include" / "hakmem.h").write_text("changed")
    assert project.git_state(earlier) == clean | {"dirty": True}


def test_without_a_revision_there_is_no_state(tmp_path):
    assert project.git_state(None) is None
    assert project.git_state(tmp_path) is None
    subprocess.run(["git", "init"], cwd=tmp_path, check=True, capture_output=True)
    assert project.git_state(tmp_path) is None


def test_a_path_in_the_home_folder(monkeypatch, fakes, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    os.symlink(fakes.allocator, tmp_path / "mine.so")
    assert parse_arm("~/mine.so").library.path == fakes.allocator


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this is no Debian")
def test_one_search_of_dpkg_finds_the_packages_of_all_allocators(monkeypatch):
    asked, run = [], subprocess.run
    monkeypatch.setattr(peers.subprocess, "run", lambda words, **more: asked.append(words) or run(words, **more))
    for cached in (peers._packages, peers.version_of):
        cached.cache_clear()
    there = [name for name in ("glibc", *peers.DEBIAN) if not peers.lacking([name])]
    versions = {name: peers.library(name).version for name in there}
    assert sum("-S" in words for words in asked) == 1
    asked.clear()
    assert versions["glibc"].startswith("libc6 2.")
    assert peers.version_of(Path("/tmp/libx.so.1.2")) == "1.2" and not asked
