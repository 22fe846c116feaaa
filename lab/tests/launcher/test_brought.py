"""C programs that a wheel includes are used without compiling, unless they are of another version."""

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan import peers, project
from hakmem_lab.system import compiled
from hakmem_lab.system.launcher import helper_path


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """The folder for a wheel's compiled programs; the cache of compiled programs is empty."""
    monkeypatch.setattr(compiled, "BROUGHT", tmp_path / "built")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "built").mkdir()
    return tmp_path / "built"


def test_a_program_of_this_version_needs_no_compiler(brought, tmp_path, monkeypatch):
    made = helper_path()
    (brought / made.name).write_bytes(made.read_bytes())
    made.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert helper_path() == brought / made.name


def test_a_program_of_another_version_is_not_taken(brought, tmp_path, monkeypatch):
    (brought / "launcher-0123456789abcdef").write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="needs a C compiler once"):
        helper_path()


def test_the_library_of_the_wheel_serves_where_there_is_no_other(brought, monkeypatch):
    monkeypatch.setattr(peers, "BROUGHT", brought)
    monkeypatch.setattr(project, "roots", list)
    monkeypatch.setattr(peers, "_installed", lambda names: None)
    with pytest.raises(LabError, match=r"libhakmem\.so is not there"):
        peers.hakmem_library()
    (brought / "libhakmem.so").write_bytes(b"")
    assert peers.hakmem_library().path == brought / "libhakmem.so"


def test_in_an_unbuilt_checkout_the_package_s_own_library_serves(tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        for name in ("include/hakmem.h", "src/malloc/fast.h"):
            (folder / name).parent.mkdir(parents=True)
            (folder / name).touch()
    library = project.release_library(own)
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.chdir(other)
    monkeypatch.setattr(project, "__file__", str(own / "lab" / "project.py"))
    assert project.root() == other and peers.hakmem_library().path == library
    project.release_library(other).parent.mkdir(parents=True)
    project.release_library(other).touch()
    assert peers.hakmem_library().path == project.release_library(other)
