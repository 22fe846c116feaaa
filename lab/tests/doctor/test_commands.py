"""`hak doctor -- COMMAND`: which programs the allocator serves, and the answers for those that it does not serve."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from hakmem_lab.system import allocators

AARCH64, MACHINE_AT = 183, 18


def test_a_dynamic_program_is_served(doctor, fakes):
    found = doctor(fakes.program, "exit", 0)
    assert (found.status, found.served, found.in_part) == (0, True, False)
    assert found.verdict == f"served by {fakes.allocator}"
    assert str(fakes.allocator) in found.said("who serves malloc")
    assert not [name for name in ("linking", "own malloc", "privileges", "architecture") if found.state(name) != "ok"]


def test_a_static_program(doctor, fakes):
    found = doctor(fakes.static_program, "exit", 0)
    assert (found.status, found.served) == (1, False)
    assert found.verdict.startswith("not served: it is statically linked")
    assert "libhakmem.a" in found.verdict
    assert found.state("linking") == "problem"
    assert "not started" in found.said("who serves malloc")


@pytest.mark.parametrize(("visibility", "why"), [("default", "comes before"), ("hidden", "cannot replace")])
def test_a_malloc_of_its_own(doctor, fakes, visibility, why):
    found = doctor(fakes.own_malloc(visibility))
    assert (found.status, found.served) == (1, False)
    assert "malloc of its own" in found.said("own malloc")
    assert why in found.said("own malloc")


def test_stripped_symbols_are_not_taken_for_none(doctor, fakes, programs):
    bare = programs.copy("stripped", fakes.program)
    subprocess.run(["strip", str(bare)], check=True)
    assert "stripped" in doctor(bare, "exit", 0).said("own malloc")
    assert "neither exported nor hidden" in doctor(fakes.program, "exit", 0).said("own malloc")


@pytest.mark.parametrize("bit", [0o4000, 0o2000])
def test_a_setuid_program_is_not_started(doctor, fakes, programs, bit):
    found = doctor(programs.copy(f"setuid-{bit:o}", fakes.program, 0o755 | bit), "exit", 0)
    assert found.status == 1
    assert "setuid" in found.verdict
    assert found.state("privileges") == "problem"
    assert found.state("who serves malloc") == "unknown"


def test_another_architecture(doctor, fakes, programs):
    path = programs.copy("foreign", fakes.program)
    content = bytearray(path.read_bytes())
    content[MACHINE_AT : MACHINE_AT + 2] = AARCH64.to_bytes(2, "little")
    path.write_bytes(content)
    found = doctor(path)
    assert found.status == 1
    assert "aarch64" in found.said("architecture")
    assert found.verdict.startswith("not served: it is for aarch64, 64 bit, little-endian")


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="needs musl-tools")
def test_a_program_for_musl(doctor, programs):
    found = doctor(programs.made("plain-musl", "brought.c", compiler="musl-gcc"))
    assert (found.status, found.state("C library")) == (1, "problem")
    assert found.verdict.startswith("not served: it is linked to musl")
    assert "musl" in found.remedy("C library")


def test_the_loader_of_musl_is_enough_to_tell(doctor, fakes, programs):
    """Needs no musl: the test overwrites the name of the dynamic linker in a copy of a program."""
    path = programs.copy("as-if-musl", fakes.program)
    content = path.read_bytes()
    wanted = next(name for name in (b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-linux-aarch64.so.1") if name in content)
    path.write_bytes(content.replace(wanted, b"/lib/ld-musl-x.so.1".ljust(len(wanted), b"\0")))
    found = doctor(path, "exit", 0)
    assert (found.status, found.state("C library")) == (1, "problem")
    assert "for musl (make musl)" in found.remedy("C library") or "/musl/libhakmem.so" in found.remedy("C library")


def test_an_allocator_that_is_linked_into_it(doctor, programs):
    found = doctor(programs.brought)
    assert (found.status, found.served, found.in_part) == (1, False, True)
    assert found.verdict.startswith("served in part: jemalloc is linked into it (function je_malloc)")
    assert found.state("who serves malloc") == "ok"


def test_an_allocator_is_told_by_its_messages_where_symbols_are_stripped(doctor, programs):
    bare = programs.copy("brought-stripped", programs.brought)
    subprocess.run(["strip", str(bare)], check=True)
    assert "jemalloc is linked into it (its messages)" in doctor(bare).verdict


@pytest.mark.parametrize("stripped", [False, True])
def test_an_allocator_inside_a_library_is_named(doctor, programs, running, stripped):
    """The library calls it by names of its own, as DuckDB's does with jemalloc."""
    name = f"inside{'-stripped' if stripped else ''}"
    library = programs.made(f"lib{name}.so", "brought.c", "-shared", "-fPIC", "-Dmain=used")
    if stripped:
        subprocess.run(["strip", str(library)], check=True)
    words = (f"-L{library.parent}", "-Wl,--no-as-needed", f"-l{name}", f"-Wl,-rpath,{library.parent}")
    host = programs.made(f"host-{name}", "host.c", "-ldl", *words)
    for found in (doctor(host), doctor(running(host))):
        assert found.said("inside libraries").startswith(f"jemalloc in lib{name}.so: it serves that library")
        assert found.state("built-in allocator") == "ok"
    assert "inside libraries" not in doctor(programs.host).checks


def test_a_library_is_no_program(doctor, programs):
    found = doctor(programs.plugin)
    assert found.verdict.startswith(f"not served: {programs.plugin} is a library")
    assert "hak doctor PID" in found.remedy("program") and "linking" not in found.checks


def test_a_library_that_gives_way(doctor, programs):
    found = doctor(programs.linked_to())
    assert (found.status, found.state("other allocators")) == (0, "note")
    assert "libprivate.so is linked" in found.said("other allocators")


@pytest.mark.parametrize("flag", ["-Wl,-Bsymbolic", "-fvisibility=hidden"])
def test_a_library_that_keeps_its_malloc_to_itself(doctor, programs, flag):
    shown = ('-Danswer=__attribute__((visibility("default")))answer',) if "hidden" in flag else ()
    found = doctor(programs.linked_to(flag, *shown))
    assert (found.status, found.in_part) == (1, True)
    assert "malloc of its own, to which its calls are bound" in found.verdict
    assert "-Bsymbolic" in found.remedy("other allocators")


def test_plugins(doctor, fakes, programs, monkeypatch, hakmem):
    assert "nothing here loads plugins" in doctor(fakes.static_program).said("RTLD_DEEPBIND")
    found = doctor(programs.host)
    assert (found.state("RTLD_DEEPBIND"), "host may load plugins" in found.said("RTLD_DEEPBIND")) == ("note", True)
    assert doctor(programs.host, allocator="hakmem").state("RTLD_DEEPBIND") == "ok"
    monkeypatch.setenv("HAKMEM_KEEP_DEEPBIND", "1")
    found = doctor(programs.host, allocator="hakmem")
    assert found.state("RTLD_DEEPBIND") == "problem"
    assert found.remedy("RTLD_DEEPBIND") == "unset HAKMEM_KEEP_DEEPBIND"


def test_python_has_arenas_of_its_own(doctor, monkeypatch):
    found = doctor(sys.executable, "-c", "pass")
    assert found.status == 0
    assert "512 bytes in arenas of its own" in found.verdict
    assert found.remedy("language") == "PYTHONMALLOC=malloc"
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    found = doctor(sys.executable, "-c", "pass")
    assert found.state("language") == "ok"
    assert "arenas" not in found.verdict


def test_a_library_that_could_run_python_makes_no_python_of_a_program(doctor, programs):
    """Like ImageMagick: a library of the program needs another library, which needs libpython."""
    folder = ("-L" + str(programs.folder), f"-Wl,-rpath,{programs.folder}", "-Wl,--no-as-needed")
    programs.made("libpython3.99.so", "plugin.c", "-shared", "-fPIC")
    programs.made("libbridge.so", "plugin.c", "-shared", "-fPIC", *folder, "-l:libpython3.99.so")
    found = doctor(programs.made("bridged", "brought.c", *folder, "-l:libbridge.so"))
    assert found.said("language").startswith("one of its libraries needs libpython3.99.so; should it run that: Python")
    direct = doctor(programs.made("direct", "brought.c", *folder, "-l:libpython3.99.so"))
    assert direct.said("language").startswith("Python keeps")


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_java_maps_its_heap_itself(doctor):
    found = doctor("java", "-version")
    assert found.status == 0
    assert "NativeMemoryTracking" in found.remedy("language")


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_go_maps_its_heap_itself(doctor):
    program = shutil.which("go")
    found = doctor(program, "version")
    assert "Go" in found.said("language")
    assert "GOMEMLIMIT" in found.remedy("language")


@pytest.mark.skipif(shutil.which("busybox") is None, reason="needs busybox")
def test_busybox(doctor):
    found = doctor(shutil.which("busybox"), "true")
    assert found.served == (found.state("linking") == "ok")


def test_a_script_is_examined_by_what_reads_it(doctor, fakes, tmp_path):
    found = doctor(fakes.script(tmp_path))
    assert found.status == 0
    assert str(tmp_path) not in found.said("program")
    broken = tmp_path / "static.sh"
    broken.write_text(f"#!{fakes.static_program} exit\n")
    broken.chmod(0o755)
    found = doctor(broken)
    assert (found.status, "statically linked" in found.verdict) == (1, True)


def test_a_wrapper_is_followed_to_what_does_the_work(doctor, fakes):
    for words in (["env", "A=b"], ["timeout", "60"], ["sh", "-c", 'exec "$0" "$@"']):
        found = doctor(*words, fakes.program, "sleep", 60000)
        assert found.status == 0, words
        assert found.said("program").startswith(str(fakes.program)), words


def test_a_wrapper_that_starts_what_cannot_be_served(doctor, fakes):
    found = doctor("env", fakes.static_program, "sleep", 60000)
    assert found.status == 1
    assert "statically linked" in found.verdict


def test_a_wrapper_that_clears_the_environment(doctor, fakes):
    found = doctor("env", "-i", fakes.program, "sleep", 60000)
    assert found.status == 1
    assert "without LD_PRELOAD" in found.verdict
    assert "env -i" in found.remedy("who serves malloc")


def test_a_shell_of_which_nothing_else_is_seen(doctor):
    found = doctor("sh", "-c", ":")
    assert found.state("who serves malloc") == "note"
    assert "nothing that it starts" in found.verdict


def test_a_library_that_is_missing(doctor, fakes):
    found = doctor(fakes.dependent_program, "exit", 0)
    assert found.status == 1
    assert "libanswer.so" in found.said("program")


def test_a_library_that_is_found_through_the_environment(doctor, fakes, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakes.other_library.parent))
    found = doctor(fakes.dependent_program, "exit", 0)
    assert (found.status, found.state("program")) == (0, "ok")


def test_a_library_that_is_no_allocator(doctor, fakes):
    found = doctor(fakes.program, "exit", 0, allocator=fakes.other_library)
    assert found.status == 1
    assert "libc.so" in found.verdict


def test_static_tls_that_was_taken_away(doctor, programs, monkeypatch, hakmem):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.rtld.optional_static_tls=8")
    found = doctor(programs.host, allocator="hakmem")
    assert (found.status, found.state("TLS space")) == (0, "note")
    monkeypatch.delenv("GLIBC_TUNABLES")
    assert doctor(programs.host, allocator="hakmem").state("TLS space") == "ok"


def test_options_of_hakmem(doctor, fakes, monkeypatch, hakmem):
    found = doctor(fakes.program, "exit", 0, allocator="hakmem,HAKMEM_PROFILE=lean")
    assert found.verdict == "served by hakmem,HAKMEM_PROFILE=lean"
    assert found.said("options") == "HAKMEM_PROFILE=lean"
    monkeypatch.setenv("HAKMEM_PROFIL", "lean")
    found = doctor(fakes.program, "exit", 0, allocator="hakmem")
    assert (found.status, found.state("options")) == (0, "problem")
    assert "HAKMEM_PROFIL" in found.said("options")


def test_real_programs(doctor, hakmem):
    for name in ("git", "redis-server", "sort"):
        if program := shutil.which(name):
            found = doctor(program, "--version", allocator="hakmem")
            assert found.served, name


@pytest.mark.parametrize("flags", [["-static"], [], ["-s"]])
def test_hakmem_that_is_linked_into_it(doctor, programs, hakmem, flags):
    archive = hakmem.parent / "libhakmem.a"
    if not archive.exists():
        pytest.skip("there is no libhakmem.a")
    program = programs.made(f"linked-in{''.join(flags)}", "brought.c", str(archive), "-lpthread", "-ldl", *flags)
    found = doctor(program, allocator="hakmem")
    assert "hakmem is linked into" in found.said("who serves malloc")
    assert (found.state("linking"), found.state("own malloc")) == ("ok", "ok")


def test_a_command_that_is_none_is_bad_input(here, tmp_path):
    for words in (["--", "no-such-program"], ["--", str(tmp_path)], ["no-such-program"]):
        answer = here("doctor", *words)
        assert answer.status == 2
        assert answer.message()


def test_only_libraries_serve(here, fakes):
    answer = here("doctor", "--allocator", "default", "--", fakes.program)
    assert (answer.status, "--allocator" in answer.message()) == (2, True)


def test_it_is_run_unless_only_its_start_is_looked_at(doctor, here, fakes, tmp_path):
    """Without running the program, the doctor could not see which programs it starts later."""
    marker = tmp_path / "written"
    script = tmp_path / "writes.py"
    script.write_text(f"open({str(marker)!r}, 'w')\n")
    words = ("doctor", "--only-start", "--allocator", fakes.allocator, "--json", "-", "--", sys.executable, script)
    assert here(*words).result()["served"]
    assert not marker.exists()
    assert doctor(sys.executable, script).served
    assert marker.exists()


def test_a_killed_launcher_says_nothing_of_the_program(here, fakes, monkeypatch):
    from hakmem_lab.system.launcher import Launcher

    real = Launcher.start

    def killed(self, *arguments, **keywords):
        self._process.kill()
        return real(self, *arguments, **keywords)

    monkeypatch.setattr(Launcher, "start", killed)
    answer = here("doctor", "--allocator", fakes.allocator, "--", fakes.program, "exit", 0)
    assert (answer.status, answer.out) == (3, "")
    assert "launcher was killed" in answer.message()


@pytest.mark.parametrize(
    "text", ["subprocess.run(w, env={})", "os.execve(w[0], w, {})"], ids=["a child", "the program itself"]
)
def test_what_loses_the_allocator_later_is_found(doctor, fakes, text):
    program = f"import os, subprocess\nw = [{str(fakes.program)!r}, 'burn', '100']\n{text}"
    found = doctor(sys.executable, "-c", program)
    assert (found.status, found.served) == (1, False)
    assert f"{fakes.program}, which " in found.said("who serves malloc")
    assert "without LD_PRELOAD" in found.verdict


def test_a_script_is_said_to_be_one_and_what_it_becomes(doctor, fakes, tmp_path):
    """Like the shims of pyenv: scripts that replace themselves by a program of the same name."""
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    found = doctor(shim, "-c", "pass")
    assert found.served
    assert found.said("script").startswith(f"{shim} is a script of /bin/sh, and becomes ")
    assert found.said("script") in " ".join(found.verdict.split())
    assert "python" in found.said("program")


@pytest.mark.parametrize(
    ("option", "served"), [("address", False), ("thread", False), ("undefined", True), ("leak", True)]
)
def test_sanitizers(doctor, programs, option, served):
    found = doctor(programs.made(f"with-{option}", "fixed.c", f"-fsanitize={option}"))
    assert found.served is served
    assert found.state("sanitizer") == ("ok" if served else "problem")
    assert served or f"-fsanitize={option}" in found.verdict


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("runtime", allocators.SANITIZERS)
def test_sanitizers_of_other_platforms(doctor, tmp_path, runtime, linked):
    """A program that calls a sanitizer's runtime, which is in a library or linked into the program."""
    sanitizer = allocators.SANITIZERS[runtime]
    code, calls, library = tmp_path / "runtime.c", tmp_path / "calls.c", tmp_path / "libruntime.so"
    code.write_text(f"void {sanitizer.function}(void) {{}}\n")
    calls.write_text(f"void {sanitizer.function}(void);\nint main(void) {{ {sanitizer.function}(); return 0; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, code], check=True)
    program = tmp_path / "program"
    subprocess.run(["cc", "-o", program, calls, code if linked else library], check=True)
    found = doctor(program)
    assert found.served is False
    assert found.state("sanitizer") == "problem"
    assert runtime in found.said("sanitizer") and sanitizer.option in found.verdict


def test_a_home_that_is_read_only_changes_nothing(doctor, fakes, monkeypatch, tmp_path):
    """The launcher is kept in TMPDIR instead."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert doctor(fakes.program, "exit", 0).verdict == f"served by {fakes.allocator}"
    assert list((tmp_path / f"hakmem-lab-{os.getuid()}").iterdir())


def test_without_a_place_for_its_launcher_the_verdict_is_not_known(doctor, fakes, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"hakmem-lab-{os.getuid()}").touch()
    found = doctor(fakes.program, "exit", 0)
    assert found.verdict.startswith("not known: hak cannot keep its ") and found.status == 1
