"""`hak heap profile -- COMMAND`: whatever ends a process, its profile is whole, and what it inherited counts once."""

import os
from unittest.mock import Mock

import pytest

from hakmem_lab.inside.profile import started

BLOCK = 1024


@pytest.fixture
def profiled(here, hakmem, made, tmp_path):
    """profiled(what): (answer, bytes allocated and in use by `fill`)"""

    def call(what: str):
        (tmp_path / "jail").mkdir()
        file = tmp_path / "p.txt"
        answer = here(
            "profile",
            "--rate",
            "1",
            "-o",
            file,
            "--",
            made("ends.c", "-fno-omit-frame-pointer"),
            what,
            tmp_path / "jail",
        )
        rows = [text.split() for text in file.read_text().split("\n    fill\n")[:-1]]
        last = [[int(word.replace(",", "")) for word in row[-4:]] for row in rows]
        return answer, sum(row[3] for row in last), sum(row[0] for row in last)

    return call


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")


@pytest.mark.parametrize(
    ("what", "status"),
    [("m", 3), ("mx", 3), ("t", 3), ("ma", 134), pytest.param("um", 3, marks=ROOT), pytest.param("rm", 3, marks=ROOT),
     pytest.param("rumx", 3, marks=ROOT)],
)  # fmt: skip
def test_whatever_ends_it(profiled, what, status):
    answer, allocated, in_use = profiled(what)
    assert (answer.status, allocated, in_use) == (status, 3000 * BLOCK, 3000 * BLOCK), answer.err
    assert ("its profile was read from outside at its end" in answer.err) == ("r" in what)


@pytest.mark.parametrize("way", ["f", "F"])
def test_a_child_counts_what_it_allocates_and_says_what_it_inherited(profiled, tmp_path, way):
    answer, allocated, in_use = profiled(way * 3)
    assert (allocated, in_use) == (4000 * BLOCK, (4 * 1000 + 3 * 1000) * BLOCK), answer.err
    assert "4 processes are counted together" in answer.err and "inherited over fork)" in answer.err
    assert "inherited over fork" in (tmp_path / "p.txt").read_text()


def test_without_ptrace_the_latest_look_counts_and_it_is_said(profiled, monkeypatch):
    monkeypatch.setattr(started, "Exits", Mock(side_effect=OSError("it is forbidden")))
    answer, allocated, _ = profiled("m")
    assert "may be missing, as none is followed: it is forbidden" in answer.err and allocated == 3000 * BLOCK
