"""Checks of limits and of the machine on made-up file trees, so that no test depends on the machine."""

import os
import struct
from pathlib import Path

import pytest

from hakmem_lab.doctor import surroundings

THP = "sys/kernel/mm/transparent_hugepage"
STATUS = "Seccomp:\t0\nNoNewPrivs:\t0\nTHP_enabled:\t1\nVmSize:\t  1000000 kB\nVmData:\t  500000 kB\nCapEff:\t0\n"
LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n"


@pytest.fixture
def made(tmp_path):
    """made({path: text}): a root folder with these files."""

    def make(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return make


def limit_lines(address="unlimited", data="unlimited"):
    rows = [("Max address space", address), ("Max data size", data), ("Max open files", "20")]
    return LIMITS + "".join(f"{name:<25} {soft:<20} {'unlimited':<20} bytes     \n" for name, soft in rows)


@pytest.mark.parametrize(("size", "state"), [(4096, "ok"), (16384, "note"), (65536, "note")])
def test_the_page_size(made, size, state):
    root = made({"proc/7/auxv": struct.pack("@NNNNNN", 3, 1, 6, size, 0, 0)})
    found = surroundings.page_size(root, "7")
    assert (found.state, found.found.split(":")[0]) == (state, f"{size >> 10} KiB")


@pytest.mark.parametrize(
    ("text", "option", "state"),
    [
        ("always [madvise] never", None, "ok"),
        ("[always] madvise never", None, "note"),
        ("always madvise [never]", None, "ok"),
        ("always madvise [never]", "dense", "problem"),
        ("always [madvise] never", "dense", "ok"),
        (None, None, "unknown"),
    ],
)
def test_huge_pages(made, text, option, state):
    root = made({f"{THP}/enabled": text} if text else {})
    found = surroundings.huge_pages({"HAKMEM_HUGE_PAGES": option} if option else {}, root)
    assert found.state == state
    assert (found.remedy is not None) == (state in ("note", "problem"))


@pytest.mark.parametrize(
    ("text", "above", "state"),
    [
        ("always inherit [madvise] never", "[never]", "ok"),
        ("[always] inherit madvise never", "[never]", "ok"),
        ("always [inherit] madvise never", "[madvise]", "ok"),
        ("always [inherit] madvise never", "[never]", "note"),
        ("always inherit madvise [never]", "[always]", "note"),
    ],
)
def test_multi_size_pages(made, text, above, state):
    root = made({f"{THP}/enabled": above, f"{THP}/hugepages-64kB/enabled": text})
    found = surroundings.middle_pages({}, root)
    assert found.state == state
    if state == "note":
        assert found.remedy == f"echo madvise >/{THP}/hugepages-64kB/enabled"


def test_multi_size_pages_that_the_kernel_lacks_or_nobody_wants(made):
    root = made({f"{THP}/enabled": "[madvise]", f"{THP}/hugepages-2048kB/enabled": "[never]"})
    assert surroundings.middle_pages({}, root).state == "note"
    root = made({f"{THP}/hugepages-64kB/enabled": "[never]"})
    assert surroundings.middle_pages({"HAKMEM_HUGE_PAGES": "off"}, root).state == "ok"


@pytest.mark.parametrize(
    ("mode", "used", "state"),
    [("0", 1, "ok"), ("1", 1, "ok"), ("2", 1, "note"), ("2", 99, "problem"), ("x", 1, "unknown")],
)
def test_overcommit(made, mode, used, state):
    memory = f"CommitLimit:  {100 << 20} kB\nCommitted_AS:  {used << 20} kB\n"
    found = surroundings.overcommit(made({"proc/sys/vm/overcommit_memory": f"{mode}\n", "proc/meminfo": memory}))
    assert found.state == state
    if mode == "2":
        assert f"{used} GiB of 100 GiB" in found.found
        assert "vm.overcommit_memory=0" in found.remedy


@pytest.mark.parametrize(
    ("most", "used", "state"), [(65530, None, "ok"), (65530, 100, "ok"), (65530, 65000, "problem"), (1000, 10, "note")]
)
def test_mappings(made, most, used, state):
    found = surroundings.mappings(made({"proc/sys/vm/max_map_count": str(most)}), used)
    assert (found.state, f"{most:,}" in found.found) == (state, True)


@pytest.mark.parametrize(
    ("soft", "process", "state", "said"),
    [
        ({}, "self", "ok", "unlimited"),
        ({"address": str(1 << 30)}, "self", "note", "address space 1 GiB"),
        ({"data": str(300 << 10)}, "self", "problem", "data 300 KiB"),
        ({"address": str(1 << 40)}, "7", "note", "977 MiB used"),
        ({"address": str(1024_000_000)}, "7", "problem", "address space 977 MiB"),
        ({"address": str(1 << 30), "data": "1000"}, "self", "problem", "address space 1 GiB; data 1000 bytes"),
    ],
)
def test_limits(made, soft, process, state, said):
    folder = made({f"proc/{process}/limits": limit_lines(**soft), f"proc/{process}/status": STATUS}) / "proc" / process
    found = surroundings.limits(
        folder, dict(line.split(":\t") for line in STATUS.replace("  ", "").splitlines()), process
    )
    assert (found.state, said in found.found) == (state, True), found
    if state != "ok":
        assert found.remedy.startswith("ulimit" if process == "self" else f"prlimit --pid {process}")


def test_limits_that_are_not_for_us(made):
    assert surroundings.limits(made({}) / "proc/7", {}, "7").state == "unknown"


V2 = {
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    "proc/7/cgroup": "0::/a/b\n",
}


@pytest.mark.parametrize(
    ("files", "state", "said"),
    [
        ({"a/b/memory.max": "max"}, "ok", "no limit"),
        ({"a/b/memory.max": "max", "a/memory.max": str(1 << 30)}, "note", "100 MiB of 1 GiB used"),
        ({"a/b/memory.max": str(110 << 20)}, "problem", "the kernel ends it"),
        (
            {"a/b/memory.max": str(1 << 30), "a/b/memory.high": str(1 << 29)},
            "note",
            "512 MiB used; beyond, the kernel slows",
        ),
        ({"a/b/memory.max": "max", "a/b/memory.events": "low 0\noom_kill 3\n"}, "note", "want of memory: 3"),
    ],
)
def test_a_control_group_of_version_2(made, files, state, said):
    usage = {"a/b/memory.current": str(100 << 20)}
    root = made(V2 | {f"sys/fs/cgroup/{name}": text for name, text in (usage | files).items()})
    found = surroundings.memory_group(root, "7")
    assert (found.state, said in found.found) == (state, True), found
    if "of 1 GiB" in said:
        assert "HAKMEM_MEMORY_LIMIT=921M" in found.remedy


def test_a_control_group_of_version_1(made):
    v1 = {
        "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        "proc/7/cgroup": "4:memory:/box\n0::/\n",
        "sys/fs/cgroup/memory/box/memory.usage_in_bytes": str(10 << 20),
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": str(1 << 62),
        "sys/fs/cgroup/memory/box/memory.stat": f"cache 1\nhierarchical_memory_limit {200 << 20}\n",
    }
    found = surroundings.memory_group(made(v1), "7")
    assert (found.state, found.found) == ("note", "10 MiB of 200 MiB used; beyond, the kernel ends it")


@pytest.mark.parametrize(
    "mounted", ["", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "strange\n", "a - b\n"]
)
def test_a_control_group_that_is_not_ours_to_see(made, mounted):
    root = made({"proc/self/mountinfo": mounted, "proc/7/cgroup": "0::/../../elsewhere\n"})
    assert surroundings.memory_group(root, "7").state == "unknown"


@pytest.mark.parametrize(
    ("lines", "state", "said"),
    [
        ("Seccomp:\t0\n", "ok", "no filter"),
        ("Seccomp:\t1\n", "problem", "strict"),
        ("Seccomp:\t2\nSeccomp_filters:\t2\n", "note", "2 filters"),
        ("Seccomp:\t2\nNoNewPrivs:\t1\n", "note", "1 filter of"),
        ("Name:\tx\n", "unknown", "does not say"),
    ],
)
def test_filters_of_system_calls(lines, state, said):
    found = surroundings.seccomp(dict(line.split(":\t") for line in lines.splitlines()))
    assert (found.state, said in found.found) == (state, True)
    assert ("no new privileges" in found.found) == ("NoNewPrivs" in lines)


def test_huge_pages_of_a_process(made):
    folder = made({"proc/7/smaps_rollup": "Rss:  10 kB\nAnonHugePages:   4096 kB\n"}) / "proc/7"
    assert surroundings.thp(folder, {"THP_enabled": "0"}).state == "note"
    found = surroundings.thp(folder, {"THP_enabled": "1"})
    assert (found.state, "4 MiB are in pages of 2 MiB" in found.found) == ("ok", True)


@pytest.mark.parametrize(
    ("scope", "capabilities", "container", "state", "said"),
    [
        (None, "0", False, "ok", "by its own user"),
        ("0", "0", True, "note", "in a container without ptrace"),
        ("0", "80000", True, "ok", "by its own user"),
        ("1", "0", False, "note", "by its parents alone"),
        ("1", "80000", False, "ok", "by root"),
        ("2", "0", False, "note", "by root alone"),
        ("3", "80000", False, "note", "by nobody"),
    ],
)
def test_who_may_look_into_it(made, scope, capabilities, container, state, said):
    files = {"proc/self/status": f"CapEff:\t{capabilities}\n", "proc/self/cgroup": "0::/\n"}
    files |= {"proc/sys/kernel/yama/ptrace_scope": scope} if scope else {}
    files |= {".dockerenv": ""} if container else {}
    found = surroundings.inspection(made(files))
    assert (found.state, said in found.found) == (state, True), found
    assert (found.remedy is None) == (state == "ok")


def test_memory_that_cannot_be_read(made):
    root = made({"proc/self/status": "CapEff:\t0\n", "proc/7/cgroup": "0::/kubepods/x\n"})
    found = surroundings.inspection(root, "7", "Permission denied")
    assert (found.state, "in a container" in found.found, "SYS_PTRACE" in found.remedy) == ("note", True, True)
    assert surroundings.inspection(root, "7").state == "ok"


def test_an_empty_root_is_unknown_and_no_error(tmp_path: Path):
    found = [
        *surroundings.of_process(tmp_path, "7"),
        surroundings.inspection(tmp_path, "7", "x"),
        *surroundings.of_machine({}, tmp_path, "7"),
    ]
    assert {check.name for check in found if check.state == "unknown"} >= {
        "limits",
        "cgroup memory",
        "seccomp",
        "overcommit",
    }
    assert os.listdir(tmp_path) == []
