"""`hak doctor PID`: what the process has mapped, how it was started, and which allocator its calls reach."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.doctor.live import Process
from hakmem_lab.errors import LabError

SOURCES = Path(__file__).parent
MUSL = SOURCES.parents[2] / "build" / "musl" / "libhakmem.so"


@pytest.fixture
def preloaded(fakes):
    def env(library=None, **more):
        return {**os.environ, "LD_PRELOAD": str(library or fakes.allocator), **more}

    return env


def test_a_process_that_is_served(doctor, programs, running, preloaded, fakes):
    found = doctor(running(programs.host, env=preloaded()))
    assert (found.status, found.served) == (0, True)
    assert "none to another" in found.said("who serves malloc")
    assert found.said("preload") == f"LD_PRELOAD={fakes.allocator}"
    assert found.state("inspection") == "ok"


def test_a_process_that_was_started_without_it(doctor, programs, running):
    found = doctor(running(programs.host))
    assert found.status == 1
    assert found.verdict.startswith("not served: it was started without LD_PRELOAD; start it by: hak run -- ")
    assert "libc.so" in found.said("who serves malloc")


def test_a_process_with_another_preload(doctor, programs, running, preloaded, fakes):
    found = doctor(running(programs.host, env=preloaded(fakes.other_library)))
    assert found.status == 1
    assert f"LD_PRELOAD={fakes.other_library}" in found.verdict


def test_a_process_on_another_allocator(doctor, programs, running, preloaded, hakmem, fakes):
    found = doctor(running(programs.host, env=preloaded()), allocator="hakmem")
    assert found.status == 1
    assert "does not name hakmem" in found.verdict
    assert str(fakes.allocator) in found.said("who serves malloc")
    assert found.state("other allocators") == "ok", "what is preloaded is no library that the program needs"


def test_a_process_whose_preload_is_not_there(doctor, programs, running, preloaded, tmp_path, fakes):
    gone = tmp_path / fakes.allocator.name
    found = doctor(running(programs.host, env=preloaded(gone), stderr=subprocess.DEVNULL))
    assert found.status == 1
    assert f"LD_PRELOAD names {gone}, which is not there" in found.verdict


def test_another_build_of_hakmem_is_hakmem(doctor, programs, running, preloaded, hakmem, tmp_path):
    other = tmp_path / "libother.so"
    other.write_bytes(hakmem.read_bytes())
    found = doctor(running(programs.host, env=preloaded(other)), allocator="hakmem")
    assert found.verdict == "served by hakmem"
    assert str(other) in found.said("who serves malloc")


@pytest.mark.skipif(shutil.which("musl-gcc") is None or not MUSL.exists(), reason="needs musl-tools and make musl")
def test_a_process_on_musl(doctor, programs, running, preloaded):
    host = programs.made("host-musl", "host.c", "-DRTLD_DEEPBIND=0", compiler="musl-gcc")
    found = doctor(running(host, env=preloaded(MUSL)), allocator="hakmem")
    assert found.verdict == "served by hakmem"
    assert "musl, as the library" in found.said("C library")


@pytest.mark.parametrize("deep", [True, False])
def test_a_plugin_that_is_bound_to_another_malloc(doctor, programs, running, preloaded, deep):
    words = [programs.plugin, *(["deep"] if deep else [])]
    found = doctor(running(programs.host, *words, env=preloaded()))
    assert (found.status, found.in_part) == ((1, True) if deep else (0, False))
    if deep:
        assert found.verdict.startswith("served in part: malloc of plugin.so is bound to ")
        assert "RTLD_DEEPBIND" in found.remedy("who serves malloc")


@pytest.mark.parametrize("kept", ["0", "1"])
def test_hakmem_drops_the_flag_of_plugins(doctor, programs, running, preloaded, hakmem, kept):
    env = preloaded(hakmem, HAKMEM_KEEP_DEEPBIND=kept)
    found = doctor(running(programs.host, programs.plugin, "deep", env=env), allocator="hakmem")
    assert found.served == (kept == "0")
    assert found.state("RTLD_DEEPBIND") == ("ok" if kept == "0" else "problem")


def test_a_program_at_a_fixed_address(doctor, programs, running, preloaded, fakes):
    """The program took the address of malloc, so its libraries call malloc through its jump slot. This slot must not
    count as another allocator."""
    fixed = programs.made("fixed", "fixed.c", "-no-pie", "-fno-pic")
    found = doctor(running(fixed, env=preloaded()))
    assert (found.status, found.verdict) == (0, f"served by {fakes.allocator}")


def test_a_program_at_a_fixed_address_that_was_started_by_a_link(doctor, programs, running, preloaded, fakes, tmp_path):
    """For example, Debian's python3 is a link to python3.11, which is linked for a fixed address."""
    fixed = programs.made("fixed", "fixed.c", "-no-pie", "-fno-pic")
    link = tmp_path / "python3"
    link.symlink_to(fixed)
    found = doctor(running(link, env=preloaded(PATH=f"{tmp_path}:{os.environ['PATH']}")))
    assert (found.status, found.verdict) == (0, f"served by {fakes.allocator}")
    assert "to another" in found.said("who serves malloc")
    found = doctor(running(link))
    assert found.status == 1 and "libc.so" in found.said("who serves malloc") and "fixed" not in found.verdict


def test_a_library_that_was_replaced_since(doctor, programs, running, preloaded, hakmem, tmp_path):
    old = tmp_path / "libhakmem.so.0"
    old.write_bytes(hakmem.read_bytes())
    pid = running(programs.host, env=preloaded(old))
    old.unlink()
    found = doctor(pid, allocator="hakmem")
    assert found.served
    assert "(deleted)" in found.said("who serves malloc")


def test_an_upgrade_beneath_a_process_that_is_not_served(doctor, programs, running):
    program = programs.copy("renewed", programs.host)
    pid = running(program)
    program.unlink()
    found = doctor(pid)
    assert (found.status, "libc.so" in found.said("who serves malloc")) == (1, True)


def test_a_static_process(doctor, running, programs):
    static = programs.made("jailed-static", "jailed.c", "-static")
    found = doctor(running(static))
    assert found.verdict.startswith("not served: it is statically linked")
    assert found.remedy("preload") is None, "to start it anew would not help"


def test_a_process_of_which_a_library_keeps_its_malloc(doctor, running, programs, preloaded):
    found = doctor(running(programs.linked_to("-Wl,-Bsymbolic"), env=preloaded()))
    assert (found.status, found.in_part) == (1, True)


def test_a_process_with_a_malloc_of_its_own(doctor, running, programs, preloaded):
    """The program exports its malloc, which takes precedence over that of the preloaded library."""
    own = programs.made("own", "host.c", str(SOURCES / "private.c"), "-ldl", "-rdynamic")
    found = doctor(running(own, env=preloaded()))
    assert found.status == 1
    assert "malloc of its own" in found.verdict
    assert found.state("preload") == "ok", "it is mapped, and to no avail"


def test_a_filter_of_system_calls(doctor, running, programs, preloaded):
    found = doctor(running(programs.jailed, env=preloaded()))
    assert found.served
    assert found.state("seccomp") == "note"
    assert "no new privileges" in found.said("seccomp")
    assert "madvise" in found.remedy("seccomp")
    assert found.state("huge pages here") == "note"


def test_limits_of_a_process(doctor, running, programs, preloaded):
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
        resource.setrlimit(resource.RLIMIT_DATA, (256 << 10, 256 << 10))

    assert "unlimited" in doctor(running(programs.host, env=preloaded())).said("limits")
    pid = running(programs.host, preexec_fn=bound)
    found = doctor(pid)
    assert found.state("limits") == "problem"
    assert "address space 8 GiB" in found.said("limits")
    assert "data 256 KiB" in found.said("limits")
    assert found.remedy("limits") == f"prlimit --pid {pid} --as=unlimited --data=unlimited"


def test_options_that_are_none(doctor, running, programs, preloaded, hakmem):
    found = doctor(running(programs.host, env=preloaded(hakmem, HAKMEM_PROFIL="lean"), stderr=subprocess.DEVNULL),
                   allocator="hakmem")  # fmt: skip
    assert found.state("options") == "problem"
    assert "did you mean 'HAKMEM_PROFILE'?" in found.said("options")


def test_mechanisms_of_the_hardened_profile(doctor, running, programs, preloaded, hakmem):
    env = preloaded(hakmem, HAKMEM_PROFILE="hardened", HAKMEM_HARDENED_ZERO="0", HAKMEM_HARDENED_GUARDS="0")
    said = doctor(running(programs.host, env=env), allocator="hakmem").said("hardened")
    on, _, off = said.partition("; off: ")
    assert on.startswith("in force: seals")
    assert "delayed reuse" in on
    assert "zeroed and checked blocks" in off
    assert "guard slabs" in off
    plain = doctor(running(programs.host, env=preloaded(hakmem)), allocator="hakmem")
    assert "hardened" not in plain.checks


def test_mappings_are_counted(doctor, running, programs):
    assert ", it has " in doctor(running(programs.host)).said("vm.max_map_count")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_process_that_began_with_more_rights(doctor, running, programs, preloaded):
    """The file is setuid to another user, so the kernel makes the dynamic linker ignore LD_PRELOAD."""
    program = programs.copy("wary", programs.host)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("the bit has no effect on this file system")
    found = doctor(running(program, env=preloaded()))
    assert (found.status, found.state("secure mode")) == (1, "problem")
    assert found.verdict.startswith("not served: it is setuid")


@pytest.mark.parametrize("pid", [0, 2**31 - 1, 10**30])
def test_a_process_that_is_not_there(here, fakes, pid):
    answer = here("doctor", "--allocator", fakes.allocator, pid)
    assert answer.status == 2
    assert f"process {pid} is not there" in answer.message()


def test_a_process_that_has_ended(here, fakes):
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    answer = here("doctor", "--allocator", fakes.allocator, child.pid)
    child.wait()
    assert answer.status == 2
    assert f"has ended, and waits for its parent, process {os.getpid()}" in answer.message()


def test_a_thread_of_the_kernel(here, fakes, tmp_path):
    """Made-up files of a kernel thread, since a container has none."""
    folder = tmp_path / "proc" / "2"
    folder.mkdir(parents=True)
    (folder / "status").write_text("Name:\tkthreadd\nState:\tS (sleeping)\nPPid:\t0\n")
    (folder / "stat").write_text("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0\n")
    with pytest.raises(LabError, match="process 2 is a thread of the kernel"):
        Process.of(2, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_process_of_somebody_else(programs, running, monkeypatch):
    """The doctor runs as a user who may not inspect the process."""
    from hakmem_lab.doctor import live
    from hakmem_lab.errors import LabError

    pid = running(programs.host)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            live.Process.of(pid)
        except LabError as error:
            os._exit(7 if "be its user, or root" in str(error) else 8)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_program_has_the_name_that_it_was_started_by(running, tmp_path):
    """For example, Debian's redis-server is a link to redis-check-rdb."""
    shutil.copy(shutil.which("sh"), tmp_path / "check-rdb")
    (tmp_path / "server").symlink_to("check-rdb")
    for name in ("server", "check-rdb"):
        process = Process.of(running(tmp_path / name, "-c", "echo ready; read line; echo $line", stdin=subprocess.PIPE))
        assert process.executable.name == name
