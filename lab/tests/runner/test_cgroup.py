"""Control groups: found in made-up systems of every layout, read from made-up files, and real ones if allowed."""

import os

import pytest

from hakmem_lab.system import usage
from hakmem_lab.system.usage import Group, Groups, NoGroups, find, tried

MIB = 1 << 20


@pytest.fixture
def system(tmp_path):
    """system(own groups, mounts): a folder like /proc/self. The mount points are folders in tmp_path/sys."""

    def make(own, mounts):
        proc = tmp_path / "proc"
        proc.mkdir()
        (proc / "cgroup").write_text("".join(f"{line}\n" for line in own))
        lines = []
        for name, root, kind, options in mounts:
            (tmp_path / "sys" / name).mkdir(parents=True, exist_ok=True)
            lines.append(f"30 20 0:{len(lines)} {root} {tmp_path}/sys/{name} rw,relatime - {kind} {kind} rw,{options}")
        (proc / "mountinfo").write_text("21 1 0:5 / / rw - ext4 /dev/vda rw\n" + "".join(f"{x}\n" for x in lines))
        return proc

    return make


@pytest.fixture
def folder(tmp_path):
    """folder(path, handed_on): a group with these controllers for its children (version 2), or without (version 1)."""

    def make(path, handed_on=None):
        made = tmp_path / "sys" / path
        made.mkdir(parents=True, exist_ok=True)
        (made / "cgroup.procs").write_text("")
        if handed_on is not None:
            (made / "cgroup.subtree_control").write_text(handed_on + "\n")
        return made

    return make


def test_version_2_beside_our_own_group(system, folder):
    proc = system(["0::/user/shell"], [("two", "/", "cgroup2", "nsdelegate")])
    folder("two", "cpu memory pids")
    user, _ = folder("two/user", "memory pids"), folder("two/user/shell", "")
    assert find(proc) == Groups(2, {"memory": user})


def test_version_2_below_our_own_group_where_it_hands_memory_on(system, folder):
    proc = system(["0::/"], [("two", "/", "cgroup2", "nsdelegate")])
    root = folder("two", "cpu memory")
    assert find(proc) == Groups(2, {"memory": root})


@pytest.mark.parametrize("handed_on", ["", "cpu pids", "memory_recursiveprot"])
def test_version_2_without_its_memory_controller_is_of_no_use(system, folder, handed_on):
    proc = system(["0::/user/shell"], [("two", "/", "cgroup2", "nsdelegate")])
    folder("two", "memory")
    folder("two/user", handed_on), folder("two/user/shell", "")
    with pytest.raises(NoGroups, match="systemd-run --user --scope"):
        find(proc)


def test_never_above_where_the_hierarchy_is_mounted(system, folder, tmp_path):
    """A container's own group is the root of the mounted hierarchy. Groups outside it belong to others."""
    proc = system(["0::/docker/abc"], [("two", "/docker/abc", "cgroup2", "rw")])
    folder("two", "")
    (tmp_path / "sys" / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "sys" / "cgroup.procs").write_text("")
    with pytest.raises(NoGroups):
        find(proc)


def test_version_1_where_version_2_has_no_controllers(system, folder):
    own = ["5:memory:/work", "4:cpu,cpuacct:/", "0::/"]
    mounts = [("memory", "/", "cgroup", "memory"), ("cpu", "/", "cgroup", "cpu,cpuacct"), ("two", "/", "cgroup2", "rw")]
    proc = system(own, mounts)
    folder("two", "")
    memory, cpu = folder("memory/work"), folder("cpu")
    assert find(proc) == Groups(1, {"memory": memory, "cpuacct": cpu})


def test_version_1_of_a_container_is_mounted_from_its_own_group_on(system, folder):
    proc = system(["5:memory:/docker/abc/inner"], [("memory", "/docker/abc", "cgroup", "memory")])
    inner = folder("memory/inner")
    assert find(proc) == Groups(1, {"memory": inner})


def test_a_system_without_groups_says_so(system):
    with pytest.raises(NoGroups, match="no control groups are mounted"):
        find(system([], []))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_group_that_we_must_not_write_in_is_refused(system, folder):
    proc = system(["5:memory:/work"], [("memory", "/", "cgroup", "memory")])
    folder("memory/work").chmod(0o500)
    with pytest.raises(NoGroups, match="be root"):
        find(proc)


def test_a_refusal_at_the_attempt_is_a_reason_and_no_error(tmp_path):
    groups, why = tried(lambda: Groups(2, {"memory": tmp_path / "gone"}))
    assert groups is None
    assert "No such file" in why


def test_where_one_hierarchy_refuses_nothing_is_left_in_the_other(tmp_path):
    (tmp_path / "memory").mkdir()
    with pytest.raises(OSError, match="No such file"):
        Groups(1, {"memory": tmp_path / "memory", "cpuacct": tmp_path / "gone"}).new()
    assert list((tmp_path / "memory").iterdir()) == []


def write(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_version_2_is_read(tmp_path):
    write(tmp_path, memory__peak=f"{3 * MIB}\n", cpu__stat="usage_usec 2500000\nuser_usec 2000000\n",
          memory__events="low 0\noom 1\noom_kill 1\n",
          memory__pressure="some avg10=0.00 avg60=0.00 total=250000\nfull avg10=0.00 total=7\n")  # fmt: skip
    found = Group(2, {"memory": tmp_path}).read()
    assert found == {"by": "cgroup v2", "memory_peak_kib": 3072, "cpu_s": 2.5, "oom_kills": 1, "memory_stall_s": 0.25}


def test_version_1_is_read(tmp_path):
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    memory.mkdir(), cpu.mkdir()
    write(memory, memory__max_usage_in_bytes=f"{MIB}\n", memory__oom_control="oom_kill_disable 0\noom_kill 2\n")
    write(cpu, cpuacct__usage="1500000000\n")
    found = Group(1, {"memory": memory, "cpuacct": cpu}).read()
    assert found == {"by": "cgroup v1", "memory_peak_kib": 1024, "cpu_s": 1.5, "oom_kills": 2, "memory_stall_s": None}


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_kernel_does_not_say_is_unknown(tmp_path, version):
    found = Group(version, {"memory": tmp_path}).read()
    assert {key for key, value in found.items() if value is None} == set(found) - {"by"}


def test_from_the_mark_on_only_what_was_added_counts(tmp_path):
    write(tmp_path, memory__peak=f"{9 * MIB}\n", cpu__stat="usage_usec 4000000\n", memory__events="oom_kill 3\n")
    group = Group(2, {"memory": tmp_path})
    group.mark()
    assert (tmp_path / "memory.peak").read_text()[0] == "0"
    write(tmp_path, cpu__stat="usage_usec 4500000\n", memory__peak=f"{2 * MIB}\n")
    found = group.read()
    assert (found["cpu_s"], found["oom_kills"], found["memory_peak_kib"]) == (0.5, 0, 2048)


def test_a_group_is_entered_once_even_if_two_controllers_share_it(tmp_path):
    group = Group(1, {"memory": tmp_path / "a", "cpuacct": tmp_path / "a"})
    assert group.processes() == [str(tmp_path / "a" / usage.PROCESSES)]


@pytest.fixture
def real():
    groups, why = tried()
    if groups is None:
        pytest.skip(f"no real group here: {why}")
    return groups


def test_a_real_group_sees_every_process(real, fakes):
    """Including a process that nobody waits for, which rusage therefore misses."""
    from hakmem_lab.system.launcher import Launcher, Request

    group = real.new()
    with Launcher() as launcher:
        request = Request([str(fakes.program), "family", "3", "48"], {}, groups=group.processes())
        outcome, found = launcher.run(request), group.read()
    folders = list(group.folders.values())
    group.close()
    assert found["memory_peak_kib"] >= 143 * 1024
    assert outcome.rss_peak_kib <= 56 * 1024
    if found["cpu_s"] is not None:
        assert found["cpu_s"] > outcome.cpu_s
    assert found["oom_kills"] in (0, None)
    assert not any(folder.exists() for folder in folders)
