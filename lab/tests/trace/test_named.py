"""Names of functions in files that only the recorded process can reach: they are kept in the trace."""

import ctypes
import json
import os
import shutil
import subprocess

import crafted as c
import pytest
from elftools.elf.elffile import ELFFile

from hakmem_lab.inside.profile.places import build_id_of
from hakmem_lab.trace import named, stacks

STACK, STACKS = 10, 6
CODES = bytes([STACK, c.MALLOC | c.NEXT, c.THREAD_END])


@pytest.fixture
def library():
    """The C library of this Python."""
    ctypes.CDLL(None)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "/libc.so" in line or "/libc-" in line)


def offset_of(library: str, function: str) -> int:
    """The place of a function in its file."""
    with open(library, "rb") as file:
        elf = ELFFile(file)
        address = next(s["st_value"] for s in elf.get_section_by_name(".dynsym").iter_symbols() if s.name == function)
        segments = [each for each in elf.iter_segments() if each["p_type"] == "PT_LOAD"]
        own = next(each for each in segments if each["p_vaddr"] <= address < each["p_vaddr"] + each["p_filesz"])
        return address - own["p_vaddr"] + own["p_offset"]


@pytest.mark.parametrize("with_id", [True, False])
@pytest.mark.parametrize("complete", [True, False, None])
def test_what_is_below_another_root_keeps_its_name(tmp_path, library, with_id, complete):
    root, path = tmp_path / "root", tmp_path / "one.trace"
    (root / "opt").mkdir(parents=True)
    shutil.copy(library, root / "opt" / "lost.so")
    tree = {"files": [["/opt/lost.so", build_id_of(library) if with_id else ""]],
            "nodes": [[0, 0, offset_of(library, "qsort") + 4]]}  # fmt: skip
    path.write_bytes(
        c.trace(c.chunk(c.INFO, b'{"stacks": 1}'), c.chunk(c.PROCESS, b"{}"),
                c.chunk(STACKS, json.dumps(tree).encode()),
                c.thread(0, CODES, c.leb(100), b"", b"", c.leb(1), slots=1), complete=complete)
    )  # fmt: skip
    at = os.open(root, os.O_PATH)
    stacks.keep_names(path, at)
    os.close(at)
    shutil.rmtree(root)
    found, profile = stacks.by_stack(path)
    assert ("qsort" in found["stacks"][0]["frames"][0]) == (complete is not None)
    assert (found["partial"] is None) == (complete is True) and profile.named == named.stored(path)


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"names": [[1]]}', b'{"names": [["a", "", "x", []]]}', b"\xff"])
def test_names_that_cannot_be_are_none(tmp_path, text):
    path = tmp_path / "hostile.trace"
    path.write_bytes(c.trace(c.chunk(c.INFO, b"{}"), named._piece(text)))
    assert named.stored(path) == {}


def test_only_another_root_or_mount_namespace_is_elsewhere():
    assert named.elsewhere(os.getpid()) is None and named.elsewhere(1 << 30) is None
    if subprocess.run(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no namespace can be made here")
    with subprocess.Popen(["unshare", "-rm", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.read(1) == b"\n"
        root = named.elsewhere(process.pid)
        process.stdin.close()
    assert root is not None
    os.close(root)
