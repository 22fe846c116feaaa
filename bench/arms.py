"""The allocators under test and how a program is run on one of them."""

import glob
import os
import random
import re
import subprocess
import sys

PEERS = ("mimalloc", "jemalloc", "tcmalloc")
PEER_FILES = {
    "mimalloc": ("libmimalloc.so.2.0", "libmimalloc.so.2"),
    "jemalloc": ("libjemalloc.so.2",),
    "tcmalloc": ("libtcmalloc_minimal.so.4",),
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAD_BYTES = 4096
RUN_SECONDS = 300


class BenchError(Exception):
    """Something is missing or wrong that the user can put right; its text is the whole message."""


class Arm:
    """One allocator: a name, the library to preload ('' for glibc) and variables to set."""

    def __init__(self, name, library, variables=None):
        self.name, self.library, self.variables = name, library, dict(variables or {})

    def environment(self, rng, preload=None):
        """A complete environment: nothing leaks in from the caller's, and its length varies from run to run."""
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "HOME": "/nonexistent"}
        env["BENCH_PAD"] = "x" * rng.randrange(PAD_BYTES)
        library = self.library if preload is None else preload
        if library:
            env["LD_PRELOAD"] = library
        env.update(self.variables)
        return env


def system_library(names):
    for name in names:
        for pattern in ("/usr/lib/*-linux-gnu/", "/usr/lib64/", "/usr/lib/", "/usr/local/lib/"):
            found = sorted(glob.glob(pattern + name))
            if found:
                return found[0]
    return None


def libc_path():
    """The libc this Python runs on: preloading it puts glibc's malloc before a linked allocator."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            path = line.split()[-1]
            if os.path.basename(path).startswith("libc.so") or os.path.basename(path).startswith("libc-"):
                return path
    raise BenchError("cannot find the C library's file")


def parse_arm(text):
    """NAME=PATH[,VARIABLE=VALUE...]"""
    head, *variables = text.split(",")
    name, _, path = head.partition("=")
    if not name or not path or any("=" not in v for v in variables):
        raise BenchError(f"--arms: '{text}' is not NAME=PATH[,VARIABLE=VALUE...]")
    if not os.path.isfile(path):
        raise BenchError(f"--arms: no such file: {path}")
    return Arm(name, os.path.abspath(path), dict(v.split("=", 1) for v in variables))


def standard_arms(hakmem, extra):
    if not os.path.isfile(hakmem):
        raise BenchError(f"{hakmem} is missing: build it first (make)")
    arms = [Arm("hakmem", os.path.abspath(hakmem)), Arm("glibc", "")]
    for peer in PEERS:
        path = system_library(PEER_FILES[peer])
        if path is None:
            raise BenchError(f"{PEER_FILES[peer][-1]} is not installed (Debian: libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4)")
        arms.append(Arm(peer, path))
    arms += [parse_arm(text) for text in extra]
    names = [arm.name for arm in arms]
    if len(set(names)) != len(names):
        raise BenchError("--arms: two arms have the same name")
    return arms


_BINDING = re.compile(r"binding file \S+ \[\d+\] to (\S+) \[\d+\]: normal symbol `(?:malloc|free)'")


def check_serves(arm, command, preload=None):
    """Asks the dynamic linker which object answers malloc and free in the program; it must be the arm's library."""
    env = arm.environment(random.Random(0), preload)
    env.update(LD_DEBUG="bindings", LD_BIND_NOW="1")
    done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=RUN_SECONDS, check=False)
    text = done.stderr.decode(errors="replace")
    # A program at a fixed address may answer for its libraries with its own jump slot, which goes to the same target.
    targets = {os.path.realpath(path) for path in _BINDING.findall(text)} - {os.path.realpath(command[0])}
    wanted = os.path.realpath(env.get("LD_PRELOAD") or libc_path())
    if targets != {wanted}:
        served = ", ".join(sorted(targets)) or "nothing (is the program static?)"
        raise BenchError(f"preflight: {arm.name} should serve malloc in {command[0]}, but {served} does")


def run_program(arm, command, rng):
    """Runs the command on the arm and returns its standard output."""
    done = subprocess.run(command, env=arm.environment(rng), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=RUN_SECONDS, check=False)
    errors = done.stderr.decode(errors="replace").strip()
    if done.returncode != 0 or "cannot be preloaded" in errors:
        raise BenchError(f"{arm.name}: {' '.join(command)} failed ({done.returncode}): {errors[-400:]}")
    return done.stdout.decode()


_last_topic = None


def progress(text):
    """What runs now, on standard error: rewritten in place on a terminal, else one line per topic (before ':')."""
    global _last_topic
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text)
    elif text and text.partition(":")[0] != _last_topic:
        sys.stderr.write(text + "\n")
    _last_topic = text.partition(":")[0]
    sys.stderr.flush()
