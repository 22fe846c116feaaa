"""The options that are read from the environment, seen from outside.

usage: options_test.py PROBE TABLE    (the program built from probe.c, and src/system/options.def)
"""

import os
import re
import resource
import signal
import subprocess
import sys
import unittest
from pathlib import Path

PROBE = ""
MUSL = b"/ld-musl-" in Path(sys.argv[1] if len(sys.argv) > 1 else __file__).read_bytes()[:4096]
TABLE = ""

# The names that are promised; the table may have more.
OPTIONS = (
    ["PROFILE", "CACHE", "WARM_POOL_SIZE", "MEM_LEAN", "OS_STATS", "DECAY_MS"]
    + ["HUGE_PAGES", "MEMORY_LIMIT", "STATS", "HELP", "PROFILE_RATE", "PROFILE_SIGNAL", "PROFILE_UNWIND", "VERBOSE"]
    + [f"CACHE_C{band}" for band in range(8)]
)

# Every value works without a word on stderr.
GOOD_VALUES = {
    "PROFILE": ["speed", "balanced", "lean", "MIXED_TINYV3_C7_SAFE", "MIXED_TINYV3_C7_BALANCED"],
    "CACHE": ["0", "1"],
    "WARM_POOL_SIZE": ["0", "1", "16", "200"],
    "MEM_LEAN": ["0", "1"],
    "OS_STATS": ["0"],
    "DECAY_MS": ["0", "1", "1000", "60000"],
    "HUGE_PAGES": ["auto", "off", "dense"],
    "MEMORY_LIMIT": ["0", "1G", "256M", "1048576K", "2147483648", "auto", "auto:50%"],
    "PROFILE_RATE": ["auto", "0", "1", "4096", "512K", "1G"],
    "PROFILE_SIGNAL": ["0", "12"],
    "PROFILE_UNWIND": ["frames", "libgcc"],
    "VERBOSE": ["0", "1"],
    "STATS": ["0"],
    "HELP": ["0"],
    **{f"CACHE_C{band}": ["0", "1", "64", "1000"] for band in range(8)},
}

# Every value gives one warning that names the variable, and the program works on the default.
BAD_VALUES = {
    "PROFILE": ["fast", "speed ", "speedy"],
    "CACHE": ["2", "yes please", "-1"],
    "WARM_POOL_SIZE": ["many", "-1", "16x", "99999999999999999999999"],
    "MEM_LEAN": ["2", "lean"],
    "OS_STATS": ["2", "x"],
    "DECAY_MS": ["soon", "-5", "1.5"],
    "HUGE_PAGES": ["always", "1"],
    "MEMORY_LIMIT": ["64Q", "M", "-64M", "auto:0", "auto:101%", "99999999999G", "12 M"],
    "PROFILE_RATE": ["-1", "2G", "often"],
    "PROFILE_SIGNAL": ["USR1", "65"],
    "PROFILE_UNWIND": ["gdb", "1"],
    "VERBOSE": ["2", "much"],
    "STATS": ["x"],
    "HELP": ["x"],
    **{f"CACHE_C{band}": ["x", "-1", "0x"] for band in range(8)},
}

OS_STATS = re.compile(
    r"\[SS_OS_STATS\] alloc=\d+ free=\d+ madvise=\d+( [a-z_]+=\d+)* mmap_total=\d+( [a-z_]+=\d+)*"
)


def run(*command, before=None, **options):
    """Run the probe with exactly these HAKMEM_ variables set."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    environment.update({f"HAKMEM_{name}": value for name, value in options.items()})
    return subprocess.run(
        [PROBE, *(command or ("work",))],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
        check=False,
    )


class Options(unittest.TestCase):
    def assert_works(self, result):
        self.assertEqual((result.returncode, result.stdout), (0, "worked\n"), result.stderr)

    def assert_one_warning(self, result, name):
        self.assert_works(result)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("hakmem: warning: "), lines[0])
        self.assertIn(f"HAKMEM_{name}", lines[0])

    def test_default_is_silent(self):
        result = run()
        self.assert_works(result)
        self.assertEqual(result.stderr, "")

    def test_every_option_has_values_here(self):
        self.assertEqual(sorted(OPTIONS), sorted(GOOD_VALUES))
        self.assertEqual(sorted(OPTIONS), sorted(BAD_VALUES))

    def test_good_values(self):
        for name, values in GOOD_VALUES.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    result = run(**{name: value})
                    self.assert_works(result)
                    self.assertEqual(result.stderr, "")

    def test_malformed_values(self):
        for name, values in BAD_VALUES.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.assert_one_warning(run(**{name: value}), name)

    def test_a_warning_names_the_value_and_what_is_allowed(self):
        for name, value, allowed in (
            ("PROFILE", "fast", "speed, balanced, lean, hardened"),
            ("HUGE_PAGES", "always", "auto, off, dense"),
            ("DECAY_MS", "soon", "0 to 3600000"),
            ("WARM_POOL_SIZE", "-1", "0 to 1048576"),
            ("MEMORY_LIMIT", "64Q", "auto, auto:PERCENT, or 0 or more bytes (suffix K, M, G)"),
            ("PROFILE_RATE", "often", "auto or 0 to 1073741824 bytes (suffix K, M, G)"),
            ("PROFILE_FILE", "x" * 300, "less than 256 characters"),
        ):
            with self.subTest(name=name):
                warning = run(**{name: value}).stderr
                self.assertIn(f"HAKMEM_{name}={value[:79]}: ", warning)
                self.assertTrue(warning.endswith(f"; allowed: {allowed}\n"), warning)

    def test_unknown_names(self):
        for name in ("FOO", "PROFIL", "PROFILES", "CACHE_C8", "profile", ""):
            with self.subTest(name=name):
                self.assert_one_warning(run(**{name: "1"}), name)

    def test_one_warning_for_each_variable(self):
        result = run(FOO="1", BAR="2", PROFILE="fast", DECAY_MS="1000")
        self.assert_works(result)
        lines = sorted(result.stderr.splitlines())
        self.assertEqual(len(lines), 3, result.stderr)
        for name in ("FOO", "BAR", "PROFILE"):
            self.assertEqual(sum(f"HAKMEM_{name}" in line for line in lines), 1, result.stderr)

    def test_long_value_is_one_warning(self):
        self.assert_one_warning(run(PROFILE="x" * 100000), "PROFILE")

    def test_other_variables_are_ignored(self):
        os.environ["HAKMEMORY"] = os.environ["XHAKMEM_FOO"] = "1"
        try:
            self.assertEqual(run().stderr, "")
        finally:
            del os.environ["HAKMEMORY"], os.environ["XHAKMEM_FOO"]

    def test_help_names_every_option(self):
        result = run(HELP="1")
        self.assert_works(result)
        with open(TABLE, encoding="utf-8") as table:
            names = re.findall(r'^HAK_OPTION\(\w+, "(\w+)"', table.read(), re.MULTILINE)
        self.assertLessEqual(set(OPTIONS), set(names))
        for name in names:
            self.assertEqual(len(re.findall(rf"\bHAKMEM_{name}\b", result.stderr)), 1, name)
        (row,) = re.findall(r"^HAKMEM_RETAIN_MAX +(\S+) +(\S+) +(\S+) +(\S+) +maximum ", result.stderr, re.MULTILINE)
        self.assertEqual(row, ("unlimited", "unlimited", "33554432", "0"))

    def test_profile_aliases(self):
        for value, profile in (
            ("speed", "speed"),
            ("balanced", "balanced"),
            ("lean", "lean"),
            ("MIXED_TINYV3_C7_SAFE", "speed"),
            ("MIXED_TINYV3_C7_BALANCED", "balanced"),
        ):
            with self.subTest(value=value):
                self.assertEqual(run("get", "HAKMEM_PROFILE", PROFILE=value).stdout, f"{profile}\n")
        self.assertEqual(run("get", "PROFILE").stdout, "speed\n")

    def test_malformed_value_leaves_the_default(self):
        for name, values in BAD_VALUES.items():
            with self.subTest(name=name):
                default = run("get", name).stdout
                self.assertNotEqual(default, "ENOENT\n")
                self.assertEqual(run("get", name, **{name: values[0]}).stdout, default)

    def test_option_get_and_set(self):
        for spelling in ("WARM_POOL_SIZE", "HAKMEM_WARM_POOL_SIZE", "warm_pool_size", "hakmem_Warm_Pool_Size"):
            self.assertEqual(run("get", spelling, WARM_POOL_SIZE="7").stdout, "7\n")
        self.assertEqual(run("get", "NO_SUCH").stdout, "ENOENT\n")
        self.assertEqual(run("set", "NO_SUCH", "1").stdout, "ENOENT\n")
        self.assertIn(run("set", "DECAY_MS", "soon").stdout, ("EINVAL\n", "EPERM\n"))

    def test_no_thread_cache(self):
        self.assert_works(run(CACHE="0"))
        self.assert_works(run(**{f"CACHE_C{band}": "0" for band in range(8)}))

    def test_combinations(self):
        for profile in ("speed", "balanced", "lean"):
            for decay in ("0", "1", "60000"):
                with self.subTest(profile=profile, decay=decay):
                    result = run(PROFILE=profile, DECAY_MS=decay, MEM_LEAN="1", WARM_POOL_SIZE="0")
                    self.assert_works(result)
                    self.assertEqual(result.stderr, "")

    def test_os_stats_line(self):
        result = run(SS_OS_STATS="1")
        self.assert_works(result)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIsNotNone(OS_STATS.fullmatch(lines[0]), lines[0])
        self.assertNotIn(" mmap_total=0 ", lines[0] + " ")

    def test_statistics_at_exit(self):
        result = run(STATS="1")
        self.assert_works(result)
        self.assertNotEqual(result.stderr, "")
        self.assertNotIn("-", re.sub(r"-+(?!\d)", "", result.stderr), "a negative count")

    def test_memory_limit(self):
        result = run("limit", MEMORY_LIMIT="64M")
        self.assertEqual(result.returncode, 0, result.stderr)
        first, second = map(int, result.stdout.split())
        self.assertTrue(24 <= first <= 64, result.stdout)
        self.assertTrue(first - 8 <= second <= 64, result.stdout)
        self.assertEqual(result.stderr, "")

    def test_a_limit_that_is_reached_is_told_once_where_asked(self):
        result = run("limit", MEMORY_LIMIT="64M", VERBOSE="1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"\Ahakmem: \d+ more bytes are refused: HAKMEM_MEMORY_LIMIT is 67108864\n\Z")
        self.assertEqual(run(MEMORY_LIMIT="64M", VERBOSE="1").stderr, "", "it is not reached")

    def test_address_space_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400000 * 1024, 400000 * 1024))

        result = run("limit", before=limit)
        self.assertEqual(result.returncode, 0, result.stderr)
        first, second = map(int, result.stdout.split())
        self.assertGreaterEqual(first, 150)
        self.assertGreaterEqual(second, first - 16)

    @unittest.skipIf(MUSL, "its puts fails at once")
    def test_closed_standard_files(self):
        def close_all():
            for number in (0, 1, 2):
                os.close(number)

        for options in ({}, {"HELP": "1"}, {"FOO": "1"}, {"SS_OS_STATS": "1", "STATS": "1"}):
            with self.subTest(options=options):
                # What the C library cannot write stays in its buffer, so the probe ends well.
                self.assertEqual(run(before=close_all, **options).returncode, 0)

    def test_misuse_with_closed_stderr(self):
        self.assertEqual(run("crime", before=lambda: os.close(2)).returncode, -signal.SIGABRT)

    def test_full_stderr(self):
        def to_full():
            os.dup2(os.open("/dev/full", os.O_WRONLY), 2)

        self.assert_works(run(before=to_full, HELP="1", FOO="1", SS_OS_STATS="1", STATS="1"))


if __name__ == "__main__":
    if len(sys.argv) < 3 or not os.access(sys.argv[1], os.X_OK):
        sys.exit("usage: options_test.py PROBE TABLE [unittest arguments]")
    PROBE = sys.argv.pop(1)
    TABLE = sys.argv.pop(1)
    unittest.main()
