#!/usr/bin/env python3
"""The command `hakmem`: wrapper_test.py COMMAND LIBRARY ARCHIVE. It must serve a program, or refuse it with the reason before
it runs."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND, LIBRARY, ARCHIVE = (Path(path).resolve() for path in sys.argv[1:4])
CC = os.environ.get("CC", "cc")
USAGE, REFUSED, NOT_FOUND = 125, 126, 127
# Ends with 0 where malloc is hakmem's, which tells by a function that only it has.
SERVED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(void) { free(malloc(1)); return dlsym(RTLD_DEFAULT, "hak_version") ? 0 : 3; }
"""
OWN_MALLOC = "#include <stddef.h>\nstatic char heap[4096];\nvoid *malloc(size_t n) { return n < 4096 ? heap : NULL; }\nvoid free(void *p) { (void)p; }\nint main(void) { return malloc(1) == NULL; }\n"


class Wrapper(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_it(self, *arguments: object, **env: str) -> subprocess.CompletedProcess:
        clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("HAKMEM_")}
        return subprocess.run(
            [str(word) for word in (COMMAND, *arguments)], env=clean | env, capture_output=True, text=True, timeout=60
        )

    def compile(self, source: str, *options: object, name: str = "program") -> Path:
        path = self.folder / name
        (self.folder / f"{name}.c").write_text(source)
        subprocess.run([CC, "-fno-builtin", "-o", path, self.folder / f"{name}.c", *options], check=True)
        return path

    def refused(self, status: int, words: str, *arguments: object, **env: str) -> None:
        done = self.run_it(*arguments, **env)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1 if words != "usage:" else done.stderr.count("\n"))

    def test_serves(self) -> None:
        program = self.compile(SERVED)
        self.assertEqual(subprocess.run([program]).returncode, 3)
        done = self.run_it(program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_passes_arguments_status_and_profile(self) -> None:
        script = 'printf "%s|" "$@" "$HAKMEM_PROFILE"; exit 7'
        done = self.run_it("--profile", "lean", "sh", "-c", script, "sh", "a b", "--profile")
        self.assertEqual((done.returncode, done.stdout), (7, "a b|--profile|lean|"))
        self.assertEqual(self.run_it("--profile=balanced", "--", "sh", "-c", "echo $HAKMEM_PROFILE").stdout, "balanced\n")

    def test_keeps_what_was_preloaded(self) -> None:
        other = self.compile("int hak_other;\n", "-shared", "-fPIC", name="other.so")
        done = self.run_it("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=str(other))
        self.assertEqual(done.stdout, f"{LIBRARY}:{other}\n")
        twice = self.run_it(COMMAND, "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual(twice.stdout, f"{LIBRARY}\n")

    def test_scripts(self) -> None:
        script = self.folder / "script"
        for first in ("#!/bin/sh", "#! /usr/bin/env sh", "#!/usr/bin/env -S sh -e"):
            script.write_text(f"{first}\necho $LD_PRELOAD\n")
            script.chmod(0o755)
            self.assertEqual(self.run_it(script).stdout, f"{LIBRARY}\n", first)
        script.write_text("#!/no/such/interpreter\n")
        self.refused(NOT_FOUND, "No such file", script)
        script.write_text("echo $LD_PRELOAD\n")
        self.assertEqual(self.run_it(script).stdout, f"{LIBRARY}\n")

    def test_words_that_are_no_programs(self) -> None:
        self.refused(REFUSED, "Permission denied", self.folder)
        self.refused(NOT_FOUND, "No such file", "")
        program = Path(shutil.copy("/bin/true", self.folder / "program"))
        program.chmod(0o644)
        self.refused(REFUSED, "Permission denied", program)

    def test_folders_that_LD_PRELOAD_cannot_name(self) -> None:
        for name in ("with space", "with:colon"):
            for folder in ("bin", "lib"):
                (self.folder / name / folder).mkdir(parents=True)
            command = shutil.copy(COMMAND, self.folder / name / "bin")
            shutil.copy(LIBRARY, self.folder / name / "lib/libhakmem.so.0")
            done = subprocess.run([command, "true"], capture_output=True, text=True)
            self.assertEqual(done.returncode, REFUSED)
            self.assertIn("ends a name at a space or a colon", done.stderr)

    def test_the_library_by_either_of_its_names(self) -> None:
        folder = self.folder / "bin"
        folder.mkdir()
        command = shutil.copy(COMMAND, folder)

        def said() -> subprocess.CompletedProcess:
            return subprocess.run([command, "sh", "-c", "echo $LD_PRELOAD"], capture_output=True, text=True)

        self.assertEqual(said().returncode, REFUSED)
        self.assertIn("neither libhakmem.so.0 nor libhakmem.so lies beside this command", said().stderr)
        self.assertIn("neither", subprocess.run([command, "--library"], capture_output=True, text=True).stderr)
        shutil.copy(LIBRARY, folder / "libhakmem.so")
        self.assertEqual(said().stdout, f"{folder}/libhakmem.so\n")
        shutil.copy(LIBRARY, folder / "libhakmem.so.0")
        self.assertEqual(said().stdout, f"{folder}/libhakmem.so.0\n")

    def test_another_path_that_ends_alike_is_not_taken_for_the_library(self) -> None:
        other = self.folder / str(LIBRARY)[1:]
        other.parent.mkdir(parents=True)
        subprocess.run([CC, "-shared", "-fPIC", "-o", other, "-x", "c", "/dev/null"], check=True)
        done = self.run_it("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=str(other))
        self.assertEqual(done.stdout, f"{LIBRARY}:{other}\n")

    def test_refuses_what_cannot_be_served(self) -> None:
        static = self.compile("int main(void) { return 0; }\n", "-static", name="static")
        self.refused(REFUSED, "statically linked", static)
        own = self.compile(OWN_MALLOC, "-rdynamic", name="own")
        self.refused(REFUSED, "malloc of its own", own)
        self.refused(NOT_FOUND, "nosuch", "nosuch")
        self.refused(NOT_FOUND, "No such file", "/no/such/program")

    def test_commands_that_start_another(self) -> None:
        program = self.compile(SERVED)
        for words in (["env", "A=1"], ["nice", "-n", "1"], ["timeout", "-k", "9", "60"], ["env", "-u", "A", "nohup"]):
            self.assertEqual(self.run_it(*words, program).returncode, 0, words)
        self.assertEqual(self.run_it("env").returncode, 0)

    def test_sanitizers(self) -> None:
        """What a runtime with a malloc of its own would end without a word is refused; the others run."""
        for option, flags in (("address", []), ("thread", []), ("address", ["-static-libasan"])):
            program = self.compile(SERVED, f"-fsanitize={option}", *(flags if "gcc" in self.compiler() else []), name=option)
            self.refused(REFUSED, f"-fsanitize={option}", program)
        for option in ("undefined", *(["leak"] if "gcc" in self.compiler() else [])):  # clang links that one into the program
            self.assertEqual(self.run_it(self.compile(SERVED, f"-fsanitize={option}", name=option)).returncode, 0)

    def test_sanitizers_of_other_platforms(self) -> None:
        """A program that calls the runtime of its compiler: in a library, and linked into it."""
        for short, option in (("asan", "address"), ("tsan", "thread"), ("hwasan", "hwaddress"), ("msan", "memory")):
            calls = f"void __{short}_init(void);\nint main(void) {{ __{short}_init(); return 0; }}\n"
            runtime = f"void __{short}_init(void) {{}}\n"
            library = self.compile(runtime, "-shared", "-fPIC", name=f"lib{short}.so")
            self.refused(REFUSED, f"-fsanitize={option}", self.compile(calls, library, name=f"shared-{option}"))
            self.refused(REFUSED, f"-fsanitize={option}", self.compile(runtime + calls, "-rdynamic", name=f"static-{option}"))
        names = ("Address", "Thread", "HWAddress", "Memory", "Leak")
        for name in names:  # a runtime that exports malloc alone: by the name under which it writes
            code = (f'#include <stddef.h>\nconst char name[] = "\\0{name}Sanitizer";\n'
                    "void *malloc(size_t n) { return n ? (void *)name : NULL; }\nint main(void) { return 0; }\n")
            program = self.compile(code, "-rdynamic", "-fno-builtin", name=f"named-{name}")
            self.refused(REFUSED, f"-fsanitize={name.lower()}", program)

    def compiler(self) -> str:
        said = subprocess.run([CC, "--version"], capture_output=True, text=True, check=True).stdout.lower()
        return "clang" if "clang" in said else "gcc"

    def test_embedded_is_served(self) -> None:
        program = self.compile("#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }\n", ARCHIVE, "-lpthread")
        subprocess.run(["strip", program], check=True)
        self.assertEqual(self.run_it(program).returncode, 0)
        self.assertNotIn("LD_PRELOAD", self.run_it(program).stderr)

    def test_refuses_more_rights(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root makes a program of another owner setuid")
        program = Path(shutil.copy("/bin/true", self.folder / "privileged"))
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        self.refused(REFUSED, "setuid", program)
        program.chmod(0o2755)
        self.refused(REFUSED, "setgid", program)

    def test_another_machine(self) -> None:
        image = bytearray(Path("/bin/true").read_bytes())
        for place, value in ((18, 0xF3), (4, 1), (5, 2)):  # e_machine, EI_CLASS, EI_DATA
            changed = bytearray(image)
            changed[place] = value
            program = self.folder / "foreign"
            program.write_bytes(changed)
            program.chmod(0o755)
            self.refused(REFUSED, "there is no libhakmem.so for that", program)

    def test_a_program_for_musl_gets_the_library_for_musl(self) -> None:
        if not shutil.which("musl-gcc"):
            self.skipTest("needs musl-tools")
        for folder in ("bin", "lib/musl"):
            (self.folder / folder).mkdir(parents=True)
        command = shutil.copy(COMMAND, self.folder / "bin")
        source = self.folder / "served.c"
        source.write_text(SERVED)
        subprocess.run(["musl-gcc", "-o", self.folder / "served", source], check=True)
        shutil.copy(LIBRARY, self.folder / "lib/libhakmem.so.0")
        done = subprocess.run([command, self.folder / "served"], capture_output=True, text=True)
        self.assertEqual(done.returncode, REFUSED)
        self.assertIn(" and musl, and there is no libhakmem.so for that", done.stderr)
        library = self.folder / "lib/musl/libhakmem.so.0"
        source.write_text("int hak_version(void) { return 1; }\n")
        subprocess.run(["musl-gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        done = subprocess.run([command, self.folder / "served"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = subprocess.run([command, "sh", "-c", "echo $LD_PRELOAD"], capture_output=True, text=True)
        self.assertEqual(done.stdout, f"{self.folder}/lib/libhakmem.so.0\n")

    def test_damaged_files_are_told_or_run(self) -> None:
        image, dice = Path("/bin/true").read_bytes(), random.Random(17)
        program = self.folder / "damaged"
        for _ in range(150):
            changed = bytearray(image[: dice.randrange(1, len(image))] if dice.random() < 0.3 else image)
            for _ in range(dice.randrange(1, 9)):
                changed[dice.randrange(min(len(changed), 1024))] = dice.randrange(256)
            program.write_bytes(changed)
            done = self.run_it("--status", os.getpid())
            self.assertIn(done.returncode, (0, 1))
            program.chmod(0o644)  # so that nothing damaged is run
            done = self.run_it(program)
            self.assertEqual(done.returncode, REFUSED, done.stderr)

    def test_status(self) -> None:
        for command, words, status in (
            ([COMMAND, "sleep", "60"], f"served by {LIBRARY}", 0),
            (["sleep", "60"], "not served by hakmem, but by its C library", 1),
        ):
            process = subprocess.Popen([str(word) for word in command])
            try:
                while os.readlink(f"/proc/{process.pid}/exe") != os.path.realpath(shutil.which("sleep") or ""):
                    os.sched_yield()
                while "libc" not in Path(f"/proc/{process.pid}/maps").read_text():
                    os.sched_yield()
                done = self.run_it("--status", process.pid)
            finally:
                process.kill()
                process.wait()
            self.assertIn(words, done.stdout)
            self.assertEqual(done.returncode, status)
        self.refused(NOT_FOUND, "there is none", "--status", "4000000000")
        self.refused(USAGE, "takes the number of a process", "--status", "abc")

    def test_usage(self) -> None:
        self.refused(USAGE, "usage:")
        self.refused(USAGE, "speed, balanced, lean or hardened, not 'fast'", "--profile", "fast", "true")
        self.refused(USAGE, "speed, balanced, lean or hardened", "--profile")
        self.refused(USAGE, "unknown option '--fast'", "--fast")
        self.assertIn("usage:", self.run_it("--help").stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^hakmem \d+\.\d+\.\d+\n$")
        self.assertEqual(self.run_it("--library").stdout, f"{LIBRARY}\n")


unittest.main(argv=sys.argv[:1])
