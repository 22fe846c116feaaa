"""Profiles of commands that trace what they start: hak cannot follow these programs, and says so."""

import shutil
import sys

import pytest

LEAVES = "import os; kept = [bytes(1000) for _ in range(30000)]; os._exit(0)"


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_tracer_is_named_since_its_programs_cannot_be_followed(here, hakmem, tmp_path):
    words = ["strace", "-f", "-o", tmp_path / "calls", sys.executable, "-c", LEAVES]
    answer = here("profile", "-o", tmp_path / "p.txt", "--", *words)
    if answer.status != 0:
        pytest.skip("strace cannot trace here")
    assert "traces what it starts: what leaves by _exit or a signal there, not by exit(), may be missing" in answer.err
    assert "hak: strace (process " in answer.err


def test_other_programs_are_followed(here, hakmem, tmp_path):
    answer = here("profile", "-o", tmp_path / "p.txt", "--", sys.executable, "-c", LEAVES)
    assert answer.status == 0 and "traces what it starts" not in answer.err


def test_addresses_without_names_are_explained():
    from hakmem_lab.inside.profile.forms import headline
    from hakmem_lab.inside.profile.places import HeapProfile, Place

    known, bare = Place("/lib/x.so", "", 16), Place("", "", 4096)
    profile = HeapProfile({(known,): [1, 100, 1, 100, 0], (bare, known): [1, 50, 0, 0, 0]})
    assert "; 50 of them through addresses without names: code made at run time" in headline(profile)
    del profile.values[bare, known]
    assert "addresses" not in headline(profile)
