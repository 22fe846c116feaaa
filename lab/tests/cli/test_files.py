"""A file that hak writes is complete, or stays as it was. Packages missing at the first compilation are named."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import hakmem_lab
from hakmem_lab.system import files

ROOT = Path(hakmem_lab.__file__).parent
LIMITED = """
import resource, signal, sys
from pathlib import Path
from hakmem_lab.system import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    files.write(Path(sys.argv[1]), b"x" * 5000)
except OSError as error:
    sys.exit(f"said: {error.strerror}")
"""


def test_a_file_that_does_not_fit_stays_as_it_was(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "said: File too large\n")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_its_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real)
    files.write(link, "new\udcff")
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode), link.is_symlink()) == ("new\\udcff", 0o604, True)
    before = os.umask(0o027)
    files.write(tmp_path / "fresh", b"1")
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to_itself(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        files.write(tmp_path / "pipe", "through")
        assert reader.communicate(timeout=600)[0] == b"through"
    with pytest.raises(OSError, match="No space left"):
        files.write(Path("/dev/full"), "x")


@pytest.mark.parametrize("group", ["cli", "show", "inside"])
def test_no_other_way_leads_to_a_users_file(group):
    found = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / group).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"(?<!formats)\.write_(text|bytes)\(|open\([^)]*\"w", line)
    ]
    assert found == []


@pytest.mark.parametrize(("header", "package"), [("zstd.h", "libzstd-dev"), ("stdio.h", "libc6-dev")])
def test_a_library_that_is_missing_is_named_with_its_package(hak, tmp_path, header, package):
    compiler = tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *{header}*) exit 1;; esac\nexec {shutil.which("cc")} "$@"\n')
    compiler.chmod(0o755)
    env = os.environ | {"PATH": f"{compiler.parent}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    answer = hak("record", "-o", tmp_path / "x.trace", "--", "touch", tmp_path / "ran", env=env)
    assert answer.status == 2
    assert f"hak needs {package} once" in answer.message()
    assert not (tmp_path / "ran").exists()
