"""The heap profile, seen from outside: exact where every block is counted, in each of its forms, and written whenever
it is asked for.

usage: profile_test.py SUBJECT [TEST...]    (the program built from subject.c, linked with the library)
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import pprof

SUBJECT = ""
DEADLINE_S = 30
# Without the number of the process: how the tools that know the format check a line.
TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"),
         ("resident_space", "bytes")]  # fmt: skip


def environment(options):
    env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    return env | {f"HAKMEM_{name}": str(value) for name, value in options.items()}


def functions_of(path):
    """[(first, last address in the file, name)]"""
    lines = subprocess.run(["nm", "-S", path], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = (line.split() for line in lines)
    return [(int(row[0], 16), int(row[0], 16) + int(row[1], 16), row[3]) for row in rows if len(row) == 4]


def wait_for(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.01)


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hak-profile-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_subject(self, *words, status=0, **options):
        done = subprocess.run(
            [SUBJECT, *map(str, words)], env=environment(options), cwd=self.folder, capture_output=True, text=True,
            timeout=4 * DEADLINE_S, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def take(self, name="p.pb.gz", **options):
        done = self.run_subject("known", PROFILE_RATE=1, PROFILE_FILE=self.folder / name, **options)
        self.assertEqual(done.stderr, "")
        return truth_of(done.stdout), self.folder / name

    def start(self, *words, **options):
        process = subprocess.Popen(
            [SUBJECT, *map(str, words)], env=environment(options), cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def profiles(self):
        return sorted(self.folder.iterdir())


def by_function(profile):
    """Innermost function of the subject -> values."""
    functions, found = functions_of(SUBJECT), {}
    for stack, values in profile.samples:
        if isinstance(stack[0], str):
            continue
        file, offset = profile.mapping_of(stack[0])
        named = [name for first, last, name in functions if first <= offset < last] if file == SUBJECT else []
        sums = found.setdefault(named[0] if named else "another", [0] * len(values))
        for i, value in enumerate(values):
            sums[i] += value
    return found


def truth_of(output):
    rows = (line.split() for line in output.splitlines())
    return {name: (int(blocks), int(size)) for name, blocks, size in rows}


class Exact(WithFolder):
    def check_truth(self, truth, found):
        for name in ("by_calloc", "by_aligned"):
            self.assertEqual(tuple(found[name][:2]), truth[name], name)
            self.assertEqual(tuple(found[name][2:4]), truth[name], name)
        self.assertEqual(tuple(found["by_malloc"][:2]), truth["by_malloc"])
        self.assertEqual(found["by_malloc"][2], truth["by_malloc"][0] - 100)
        self.assertEqual(tuple(found["by_realloc"][2:4]), truth["by_realloc"])
        self.assertEqual(found["by_and_by"][0], 5000)
        self.assertEqual(found["by_and_by"][2:4], [0, 0])

    def test_every_block_is_counted_where_it_was_allocated(self):
        truth, path = self.take()
        profile = pprof.read(path)
        self.check_truth(truth, by_function(profile))
        self.assertEqual(profile.period, 1)

    def test_the_same_by_other_unwinders(self):
        for unwinder in ("libgcc", "libunwind"):
            truth, path = self.take(PROFILE_UNWIND=unwinder)
            self.check_truth(truth, by_function(pprof.read(path)))

    def test_the_format_is_what_readers_expect(self):
        _, path = self.take()
        profile = pprof.read(path)  # which refuses what does not fit together
        self.assertEqual(profile.types, TYPES)
        self.assertEqual(profile.default_type, "inuse_space")
        self.assertEqual(profile.period_type, ("space", "bytes"))
        first = min(profile.mappings)
        self.assertEqual((first, profile.mappings[first]["file"]), (1, SUBJECT))
        self.assertEqual(sorted(profile.locations), list(range(1, len(profile.locations) + 1)))
        self.assertEqual(sorted(profile.functions), list(range(1, len(profile.functions) + 1)))
        notes = subprocess.run(["readelf", "-n", SUBJECT], check=True, capture_output=True, text=True).stdout
        build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
        self.assertEqual(profile.mappings[first]["build_id"], build_id[1] if build_id else "")
        self.assertLess(abs(profile.time / 1e9 - time.time()), 3600)
        self.assertGreater(profile.duration, 0)
        self.assertTrue(any("at exit" in each for each in profile.comments))

    def test_blocks_of_regions_have_their_names(self):
        self.run_subject("regions", PROFILE_RATE=1, PROFILE_FILE=self.folder / "p.pb.gz")
        profile, in_use, allocated = pprof.read(self.folder / "p.pb.gz"), {}, {}
        for labels, (_, values) in zip(profile.labels, profile.samples, strict=True):
            name = labels.get("region")
            in_use[name] = in_use.get(name, 0) + values[2]
            allocated[name] = allocated.get(name, 0) + values[0]
        self.assertEqual({name: in_use.get(name) for name in ("cache", "scope", "request")},
                         {"cache": 10, "scope": 20, "request": 0})  # fmt: skip
        self.assertEqual(allocated["request"], 300)
        self.assertGreaterEqual(in_use[None], 5)

    def test_without_gzip_it_is_the_same(self):
        truth, path = self.take("p.pb")
        self.assertNotEqual(path.read_bytes()[:2], b"\x1f\x8b")
        self.check_truth(truth, by_function(pprof.read(path)))

    def test_a_name_of_another_format_gives_a_warning(self):
        for name in ("p.folded", "p.txt"):
            done = self.run_subject("known", PROFILE_FILE=name)
            self.assertRegex(done.stderr, rf"^hakmem: warning: HAKMEM_PROFILE_FILE={name}: every profile is for pprof")
            self.assertEqual((self.folder / name).read_bytes()[:2], b"\x1f\x8b")


@unittest.skipUnless(shutil.which("go"), "there is no go")
class Go(WithFolder):
    """Go ships its pprof as source, and builds it at the first call, for minutes: no limit of time until it is there."""

    def test_go_tool_pprof_reads_it(self):
        found = subprocess.run(["go", "tool", "-n", "pprof"], check=True, capture_output=True, text=True)
        truth, path = self.take()
        for kind, index in (("inuse_objects", 0), ("inuse_space", 1)):
            words = [found.stdout.strip(), "-top", "-nodecount=1000", "-nodefraction=0", "-unit=B"]
            if kind == "inuse_objects":
                words.remove("-unit=B")
            done = subprocess.run(
                [*words, f"-sample_index={kind}", SUBJECT, str(path)],
                env=os.environ | {"PPROF_TMPDIR": str(self.folder)},
                capture_output=True, text=True, timeout=4 * DEADLINE_S, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = re.findall(r"^ *(\d+)B? +\S+% +\S+% +\S+ +\S+% +(by_\w+)", done.stdout, re.M)
            values = {name: int(value) for value, name in rows}
            for name in ("by_calloc", "by_aligned", "by_realloc"):
                self.assertEqual(values[name], truth[name][index], done.stdout)


class Sampled(WithFolder):
    def test_the_estimate_is_near(self):
        self.run_subject("many", 400, PROFILE_RATE="64K", PROFILE_FILE=self.folder / "p.pb.gz")
        found = by_function(pprof.read(self.folder / "p.pb.gz"))["by_malloc"]
        # 102,400 blocks, each sampled with p = 0.06: 6,240 samples; six standard deviations are 8 %.
        self.assertLess(abs(found[2] / 102400 - 1), 0.08)
        self.assertEqual(found[:2], found[2:4])

    def test_what_is_resident_adds_up_to_what_the_kernel_says(self):
        process = self.start("rest", 200, PROFILE_SIGNAL=int(signal.SIGUSR2), PROFILE_FILE="p.pb.gz", PROFILE_RATE="64K")
        wait_for(lambda: "S" in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0])
        process.send_signal(signal.SIGUSR2)
        wait_for(lambda: self.profiles() and self.profiles()[0].stat().st_size > 0)
        wait_for(lambda: "S" in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0])
        profile = pprof.read(self.folder / "p.pb.gz")
        rss = path = 0
        for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
            words = line.split()
            if re.match(r"^[0-9a-f]+-", line):
                path = words[5] if len(words) > 5 else "[anon:hakmem]"
            elif words[0] == "Rss:" and path == "[anon:hakmem]":
                rss += int(words[1]) * 1024
        total = profile.total("resident_space")
        self.assertLess(abs(total / rss - 1), 0.02, f"{total} of {rss}")
        # Six of 100 blocks lie elsewhere, as samples; five standard deviations of 3,200 samples are 9 %.
        self.assertGreater(by_function(profile)["by_malloc"][4], 0.85 * rss)
        rows = {stack[0] for stack, _ in profile.samples if isinstance(stack[0], str)}
        self.assertLessEqual({"[metadata]"}, rows)

    def test_what_is_older_than_the_sampling_is_not_charged_to_what_is_younger(self):
        self.run_subject("late", "p.pb.gz")
        profile = pprof.read(self.folder / "p.pb.gz")
        values = by_function(profile)["by_malloc"]
        self.assertEqual(values[2], 400)
        self.assertLess(values[4], 1.5 * values[3])
        rows = {stack[0]: values[4] for stack, values in profile.samples if isinstance(stack[0], str)}
        self.assertGreater(rows["[not sampled]"], 39800 * 1000 + 200 * 100000)

    def test_off_there_is_nothing(self):
        done = self.run_subject("known")
        self.assertEqual((done.stderr, self.profiles()), ("", []))
        self.run_subject("known", PROFILE_RATE="1")
        self.assertEqual(self.profiles(), [])
        self.run_subject("known", PROFILE_RATE="0", PROFILE_FILE="p.pb")
        self.assertEqual(self.profiles(), [])


class Occasions(WithFolder):
    def comment_of(self, path):
        return pprof.read(path).comments[0]

    def test_by_calls(self):
        self.run_subject("calls", "by.%p.%%.%n.%x.pb.gz")
        (path,) = self.profiles()
        self.assertRegex(path.name, r"^by\.\d+\.%\.3\.%x\.pb\.gz$")
        found = by_function(pprof.read(path))
        self.assertNotIn("by_malloc", found)  # before the start
        self.assertEqual(found["by_calloc"][2], 10)
        # A thread that has left the table of requests behind may be counted a little longer.
        self.assertLess(found.get("by_aligned", [0])[0], 100)
        self.assertIn("asked for", self.comment_of(path))

    def test_at_a_signal(self):
        process = self.start("loop", PROFILE_SIGNAL=int(signal.SIGUSR2), PROFILE_FILE="s.%p.%n.pb.gz", PROFILE_RATE=65536)
        for number in (1, 2, 3):
            process.send_signal(signal.SIGUSR2)
            path = self.folder / f"s.{process.pid}.{number}.pb.gz"
            wait_for(path.exists)
            time.sleep(0.2)
            self.assertIn("signal", self.comment_of(path))
        self.assertEqual(len(self.profiles()), 3)
        self.assertIsNone(process.poll())

    def test_as_it_grows(self):
        self.run_subject("many", 100, PROFILE_DUMP_GROWTH="20M", PROFILE_RATE="64K", PROFILE_FILE="g.%n.pb.gz")
        paths = self.profiles()
        self.assertIn(len(paths), (4, 5))
        sizes = [pprof.read(path).total("inuse_space") for path in paths]
        for i, size in enumerate(sizes, 1):
            self.assertLess(abs(size - i * (20 << 20)), (i + 1) * (4 << 20))
        self.assertIn("growth", self.comment_of(paths[0]))

    def test_before_the_limit(self):
        for words, options in ((("refused",), {"MEMORY_LIMIT": "100M"}), (("refused",), {"MEMORY_LIMIT": "64M"})):
            self.run_subject(*words, PROFILE_DUMP_LIMIT=90, PROFILE_FILE="l.%p.%n.pb.gz", **options)
            (path,) = self.profiles()
            self.assertIn("limit", self.comment_of(path))
            limit = int(options["MEMORY_LIMIT"][:-1]) << 20
            size = pprof.read(path).total("inuse_space")
            self.assertTrue(0.75 * limit < size < 1.15 * limit, f"{size} of {limit}")
            path.unlink()

    def test_when_memory_is_refused(self):
        self.run_subject("refused", PROFILE_DUMP_LIMIT=100, MEMORY_LIMIT="50M", PROFILE_FILE="r.pb.gz", PROFILE_RATE="1G")
        self.assertIn("memory was refused", self.comment_of(self.folder / "r.pb.gz"))

    def test_both_at_exit_and_at_another_time(self):
        self.run_subject("many", 30, PROFILE_DUMP_GROWTH="20M", PROFILE_EXIT=1, PROFILE_FILE="b.%n.pb", PROFILE_RATE="64K")
        self.assertEqual([path.name for path in self.profiles()], ["b.1.pb", "b.2.pb"])

    def test_the_usual_name(self):
        self.run_subject("known", PROFILE_EXIT=1)
        (path,) = self.profiles()
        self.assertRegex(path.name, r"^hakmem\.\d+\.1\.pb\.gz$")

    def test_what_cannot_be_written_is_told_once(self):
        done = self.run_subject("known", PROFILE_FILE="/no/such/folder/p.pb")
        self.assertRegex(done.stderr, r"^hakmem: no profile /no/such/folder/p\.pb \(at exit\): there is no such folder\n$")
        done = self.run_subject("known", PROFILE_FILE="/no/such/folder/%p.%n.pb")
        self.assertRegex(done.stderr, r"^hakmem: no profile /no/such/folder/\d+\.1\.pb \(at exit\)")
        done = self.run_subject("known", PROFILE_FILE="/dev/full.txt/x.pb")
        self.assertEqual(len(done.stderr.splitlines()), 1)
        done = self.run_subject("known", PROFILE_FILE="/dev/full")
        self.assertEqual(done.stderr, "hakmem: no profile /dev/full (at exit): the disk is full\n")

    def test_a_name_with_another_end_is_a_profile(self):
        done = self.run_subject("known", PROFILE_FILE="h.heap", PROFILE_RATE=1)
        self.assertEqual(done.stderr, "")
        (path,) = self.profiles()
        self.assertEqual(path.name, "h.heap")
        self.assertTrue(pprof.read(path))  # which refuses what does not fit together

    def test_a_child_has_a_profile_of_its_own(self):
        command = ["sh", "-c", f"{SUBJECT} known; {SUBJECT} known"]
        env = environment({"PROFILE_FILE": "c.%p.pb.gz", "PROFILE_RATE": 1})
        subprocess.run(command, env=env, cwd=self.folder, check=True, capture_output=True)
        self.assertEqual(len(self.profiles()), 2)

    def test_a_storm_of_forks_signals_threads_and_libraries(self):
        self.run_subject("storm", 200, PROFILE_RATE=4096, PROFILE_SIGNAL=int(signal.SIGUSR2), PROFILE_FILE="t.%p.pb")
        self.assertGreater(len(self.profiles()), 0)


if __name__ == "__main__":
    SUBJECT = sys.argv.pop(1)
    unittest.main()
