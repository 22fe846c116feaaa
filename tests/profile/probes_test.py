"""The probes of otel_memory: as their note tells of them, and as a tracer sees them.

usage: probes_test.py SUBJECT LIBRARY
"""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

SUBJECT = LIBRARY = ""
DEADLINE_S = 60
NOTE = re.compile(
    r"Provider: otel_memory\s+Name: (\w+)\s+"
    r"Location: 0x([0-9a-f]+), Base: 0x([0-9a-f]+), Semaphore: 0x([0-9a-f]+)\s+Arguments: (.*)"
)
ARGUMENTS = {
    "x86_64": {"alloc": "8@%rdi 8@%rsi 8@%rdx", "free": "8@%rdi"},
    "aarch64": {"alloc": "8@x0 8@x1 8@x2", "free": "8@x0"},
}
GDB = """set pagination off
set confirm off
break -probe-stap otel_memory:alloc
continue
printf "alloc %d %lu %lu %lu\\n", $_probe_argc, $_probe_arg0, $_probe_arg1, $_probe_arg2
continue
printf "alloc %d %lu %lu %lu\\n", $_probe_argc, $_probe_arg0, $_probe_arg1, $_probe_arg2
delete
break -probe-stap otel_memory:free
continue
printf "free %d %lu\\n", $_probe_argc, $_probe_arg0
delete
detach
"""


def output_of(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def notes():
    return {found[0]: found[1:] for found in NOTE.findall(output_of("readelf", "-n", LIBRARY))}


def sections():
    """name -> (address, bytes, flags)"""
    found = {}
    for row in re.findall(r"^ *\[ *\d+\] (\S+) +\S+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) \S+ +([A-Z]*)",
                          output_of("readelf", "-SW", LIBRARY), re.M):  # fmt: skip
        found[row[0]] = (int(row[1], 16), int(row[2], 16), row[3])
    return found


def symbols():
    rows = (line.split() for line in output_of("nm", LIBRARY).splitlines())
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


class Subject:
    """The program, as a tracer has it before it."""

    def __init__(self, test):
        self.process = subprocess.Popen([SUBJECT, "loop"], stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        test.addCleanup(self.process.stdout.close)
        test.assertEqual(self.process.stdout.readline(), "ready\n")
        rows = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        self.base = int(next(row for row in rows if Path(LIBRARY).name in row).split("-")[0], 16)

    def word(self, address, size):
        with open(f"/proc/{self.process.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(self.base + address)
            return int.from_bytes(memory.read(size), "little")

    def write(self, address, value):
        with open(f"/proc/{self.process.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(self.base + address)
            memory.write(struct.pack("<H", value))


class Probes(unittest.TestCase):
    def test_the_notes_tell_all(self):
        found, parts = notes(), sections()
        self.assertEqual(sorted(found), ["alloc", "free"])
        semaphores = []
        for name, (location, base, semaphore, arguments) in found.items():
            self.assertEqual(arguments.strip(), ARGUMENTS[os.uname().machine][name])
            self.assertEqual(int(base, 16), parts[".stapsdt.base"][0])
            start, size, flags = parts[".probes"]
            self.assertTrue(start <= int(semaphore, 16) <= start + size - 2 and "W" in flags)
            semaphores.append(int(semaphore, 16))
            start, size, _ = parts[".text"]
            self.assertTrue(start <= int(location, 16) < start + size)
            with open(LIBRARY, "rb") as file:  # code lies in the file where it is mapped
                file.seek(int(location, 16))
                nop = b"\x90" if os.uname().machine == "x86_64" else b"\x1f\x20\x03\xd5"
                self.assertEqual(file.read(len(nop)), nop)
            entry = symbols()[f"hak_probe_{name}"]
            self.assertIn(int(location, 16) - entry, (0, 4))  # behind an endbr64 at most
        self.assertEqual(len(set(semaphores)), 2)

    def wait_for_mean(self, subject, sampling):
        end = time.monotonic() + DEADLINE_S
        request = symbols()["hak_sample_request"]
        while (subject.word(request, 6) != 0) != sampling:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_raised_semaphore_starts_to_sample_until_it_falls(self):
        subject, semaphore = Subject(self), int(notes()["alloc"][2], 16)
        time.sleep(0.1)
        self.wait_for_mean(subject, False)
        for _ in range(2):
            subject.write(semaphore, 1)
            self.wait_for_mean(subject, True)
            subject.write(semaphore, 0)
            self.wait_for_mean(subject, False)
        self.assertIsNone(subject.process.poll())

    @unittest.skipUnless(shutil.which("gdb"), "there is no gdb")
    def test_a_debugger_sees_the_blocks(self):
        subject = Subject(self)
        script = Path(os.environ.get("TMPDIR", "/tmp")) / f"hak-probes-{subject.process.pid}.gdb"
        script.write_text(GDB)
        self.addCleanup(script.unlink)
        done = subprocess.run(
            ["gdb", "-q", "-nx", "-batch", "-p", str(subject.process.pid), "-x", str(script)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        if "ptrace: Operation not permitted" in done.stderr:
            self.skipTest("processes may not be traced here")
        blocks = [list(map(int, row)) for row in re.findall(r"^alloc (\d+) (\d+) (\d+) (\d+)$", done.stdout, re.M)]
        self.assertEqual(len(blocks), 2, done.stdout + done.stderr)
        for count, block, size, weighted in blocks:
            self.assertEqual((count, block % 16), (3, 0))
            self.assertTrue(100 <= size < 9100 and 512 << 10 <= weighted < (512 << 10) + 16384, (size, weighted))
        self.assertNotEqual(blocks[0], blocks[1])  # another sample, perhaps at the same place
        (free,) = re.findall(r"^free (\d+) (\d+)$", done.stdout, re.M)
        self.assertEqual((free[0], int(free[1]) % 16), ("1", 0))
        subject.process.send_signal(signal.SIGCONT)
        self.assertIsNone(subject.process.poll())


if __name__ == "__main__":
    SUBJECT, LIBRARY = sys.argv.pop(1), os.path.realpath(sys.argv.pop(1))
    unittest.main()
