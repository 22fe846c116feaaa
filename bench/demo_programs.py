"""The real programs of `make demo`. Each runs once on an arm and reports its figure and its peak memory."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

from arms import RUN_SECONDS, BenchError, check_serves, libc_path, run_program

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
SERVER_CPU, CLIENT_CPU = 0, 1
REDIS_REQUESTS = 400_000
START_SECONDS = 10
SQLITE_ROWS = 300_000


def _number(pattern, text, what):
    found = re.search(pattern, text)
    if found is None:
        raise BenchError(f"cannot read the output of {what}: {text[-200:]!r}")
    return float(found.group(1))


def _needed(name):
    path = shutil.which(name)
    if path is None:
        raise BenchError(f"{name} is not installed")
    return path


def _pinned(cpu):
    """For Popen: keeps the child on one processor where there is more than one."""
    allowed = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {allowed[cpu % len(allowed)]})


class RandomMixed:
    title, unit, higher_is_better = "random_mixed", "Mop/s", True

    def __init__(self, bin_dir):
        self.command = [os.path.join(bin_dir, "random_mixed"), "40000000", "400", "1"]
        if not os.path.isfile(self.command[0]):
            raise BenchError(f"{self.command[0]} is missing: build it first (make)")

    def preflight(self, arm):
        check_serves(arm, [self.command[0], "preflight"])

    def run(self, arm, rng):
        text = run_program(arm, self.command, rng)
        return {"figure": _number(r"Throughput = (\d+)", text, self.title) / 1e6,
                "peak_kib": int(_number(r"peak_kib=(\d+)", text, self.title))}


class _Timed:
    """A program that starts, works and ends: run by the small static starter, which reports time and peak memory."""

    unit, higher_is_better = "s", False

    def __init__(self, bin_dir):
        self.spawn = os.path.join(bin_dir, "spawn")
        if not os.path.isfile(self.spawn):
            raise BenchError(f"{self.spawn} is missing: build it first (make)")

    def timed(self, arm, command, rng, variables=()):
        env = arm.environment(rng, preload="")
        env.update(variables)
        done = subprocess.run([self.spawn, "1", "1", arm.library or "-", "--", *command], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        fields = done.stdout.split()
        failed = done.returncode != 0 or len(fields) != 4 or fields[3] != "0"
        if failed or "cannot be preloaded" in done.stderr:
            raise BenchError(f"{arm.name}: {command[0]} failed: {done.stdout}{done.stderr[-400:]}")
        return {"figure": float(fields[1]) / 1e3, "peak_kib": int(fields[2])}


class Python(_Timed):
    title = "Python (PYTHONMALLOC=malloc)"

    def preflight(self, arm):
        check_serves(arm, [PYTHON, "-c", "pass"])

    def run(self, arm, rng):
        return self.timed(arm, [PYTHON, "-I", os.path.join(HERE, "workload.py")], rng,
                          {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}.items())


SQLITE_SCRIPT = f"""
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INTEGER, price REAL, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {SQLITE_ROWS})
INSERT INTO item SELECT i, 'name-' || (i * 7919 % 100003), i % 997, i * 0.37,
  substr('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz', i % 26, i % 25 + 5) FROM n;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_grp ON item(grp, price);
SELECT grp, count(*), sum(price), group_concat(name) FROM item GROUP BY grp ORDER BY 3 DESC;
UPDATE item SET note = note || '-' || upper(name) || printf('%08d', id) WHERE id % 3 = 0;
SELECT a.name, b.note FROM item a JOIN item b ON a.name = b.name AND a.id < b.id ORDER BY b.note LIMIT 20000;
SELECT json_group_array(json_object('id', id, 'name', name, 'note', note)) FROM item WHERE id % 4 = 0;
SELECT upper(name) || replace(note, 'a', 'bb'), count(*) FROM item GROUP BY 1 ORDER BY 2 DESC LIMIT 1000;
DELETE FROM item WHERE id % 2 = 0;
SELECT count(DISTINCT note), max(length(note)) FROM item;
"""


class Sqlite(_Timed):
    title = "SQLite, in memory"

    def __init__(self, bin_dir):
        super().__init__(bin_dir)
        self.program = _needed("sqlite3")
        self.folder = tempfile.TemporaryDirectory(prefix="hakmem-demo-")
        self.script = os.path.join(self.folder.name, "work.sql")
        with open(self.script, "w", encoding="ascii") as out:
            out.write(SQLITE_SCRIPT)

    def preflight(self, arm):
        check_serves(arm, [self.program, "-version"])

    def run(self, arm, rng):
        return self.timed(arm, [self.program, "-batch", "-bail", ":memory:", ".read " + self.script], rng)


class Redis:
    title, unit, higher_is_better = "Redis SET/GET/LPUSH", "kreq/s", True

    def __init__(self, _bin_dir):
        self.server, self.client = _needed("redis-server"), _needed("redis-benchmark")
        self.libc = libc_path()

    # Debian's server is linked with jemalloc: for glibc's malloc its C library has to be preloaded.
    def _library(self, arm):
        return arm.library or self.libc

    def preflight(self, arm):
        check_serves(arm, [self.server, "--version"], self._library(arm))

    def _start(self, arm, rng, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        server = subprocess.Popen(
            [self.server, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder,
             "--activedefrag", "no", "--loglevel", "warning"],
            env=arm.environment(rng, self._library(arm)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=_pinned(SERVER_CPU))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
                return server, port
            except OSError:
                time.sleep(0.01)
        server.kill()
        server.wait()
        raise BenchError(f"{arm.name}: redis-server does not start")

    def _check_mapped(self, arm, server):
        wanted = os.path.realpath(self._library(arm))
        with open(f"/proc/{server.pid}/maps", encoding="utf-8", errors="replace") as maps:
            if wanted not in maps.read():
                raise BenchError(f"{arm.name}: {wanted} is not mapped in redis-server")

    def _load(self, port):
        """Requests a second over the three commands together."""
        done = subprocess.run(
            [self.client, "-p", port, "-t", "set,get,lpush", "-n", str(REDIS_REQUESTS), "-r", "100000", "-d", "200",
             "-P", "32", "-c", "50", "--csv"], capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
            env={"LC_ALL": "C"}, preexec_fn=_pinned(CLIENT_CPU))
        rates = [float(x) for x in re.findall(r'^"(?:SET|GET|LPUSH)[^"]*","([0-9.]+)"', done.stdout, re.M)]
        if done.returncode != 0 or len(rates) != 3:
            raise BenchError(f"redis-benchmark failed: {done.stdout[-200:]}{done.stderr[-200:]}")
        return len(rates) / sum(1 / rate for rate in rates)

    def run(self, arm, rng):
        with tempfile.TemporaryDirectory(prefix="hakmem-demo-") as folder:
            server, port = self._start(arm, rng, folder)
            try:
                self._check_mapped(arm, server)
                rate = self._load(port)
                with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
                    peak = int(_number(r"VmHWM:\s+(\d+)", status.read(), "/proc"))
            finally:
                server.terminate()
                server.wait(START_SECONDS)
            return {"figure": rate / 1e3, "peak_kib": peak}


def programs(bin_dir):
    return [Redis(bin_dir), Python(bin_dir), Sqlite(bin_dir), RandomMixed(bin_dir)]
