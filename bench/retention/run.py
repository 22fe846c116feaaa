"""The retention programs on several libraries, interleaved: scripts/retention --help."""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

import table

# Its caches per processor need the restartable sequences that libc registers for itself (bench/peers/README.md).
TCMALLOC_TUNABLES = "glibc.pthread.rseq=0"
TIMEOUT_S = 600


def library(text):
    """NAME=PATH[+VARIABLE=VALUE...], or glibc: what is preloaded, and the environment of it."""
    name, _, rest = text.partition("=")
    path, *settings = rest.split("+") if rest else [""]
    if name != "glibc" and not pathlib.Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{text!r}: NAME=PATH of a library, or glibc")
    environment = dict(setting.partition("=")[::2] for setting in settings)
    if "google-tcmalloc" in (name, pathlib.Path(path).stem.removeprefix("lib")):
        environment["GLIBC_TUNABLES"] = TCMALLOC_TUNABLES
    if path:
        environment["LD_PRELOAD"] = str(pathlib.Path(path).resolve())
    return name, environment


def sweep(text):
    name, _, values = text.partition("=")
    if not re.fullmatch(r"[A-Z_0-9]+", name) or not values:
        raise argparse.ArgumentTypeError(f"{text!r}: HAKMEM_OPTION=VALUE,VALUE")
    return name, values.split(",")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="retention", description="Patterns of memory demand on several libraries.")
    parser.add_argument("--libs", help="NAME=PATH[+VARIABLE=VALUE...],...; glibc: nothing preloaded")
    parser.add_argument("--peers", default="mimalloc3,jemalloc5,gperftools,google-tcmalloc",
                        help="names whose median the others are divided by (%(default)s)")  # fmt: skip
    parser.add_argument("--best", default="glibc,gperftools,google-tcmalloc",
                        help="names of which the better one is the second yardstick (%(default)s)")  # fmt: skip
    parser.add_argument("--sweep", type=sweep, action="append", default=[], metavar="OPTION=VALUE,VALUE",
                        help="the first library with each value, against itself; may be repeated")  # fmt: skip
    parser.add_argument("--only", default="", metavar="REGEX", help="patterns whose name has a match")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each; the median counts (%(default)s)")
    parser.add_argument("--scale", type=int, default=100, help="percent of each pattern's memory (%(default)s)")
    parser.add_argument("--tail", action="store_true", help="also memory after 5 s with 400 small calls a second")
    parser.add_argument("--tail-silent", action="store_true", help="also memory after 5 s without a call")
    parser.add_argument("--load", type=int, default=0, metavar="K", help="busy loops beside (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side; then times mean nothing (%(default)s)")
    parser.add_argument("--json", default="build/retention.json", help="the raw figures (%(default)s)")
    parser.add_argument("--program", default="build/release/bench/retention", help="(%(default)s)")
    parser.add_argument("--show", nargs="+", metavar="FILE", help="print raw figures of earlier runs together")
    arguments = parser.parse_args()
    if (arguments.libs is None) == (arguments.show is None):
        parser.error("either --libs or --show")
    if arguments.show:
        return arguments
    try:
        arguments.libs = dict(library(text) for text in arguments.libs.split(","))
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    if arguments.sweep:
        arguments.libs = swept_libraries(arguments)
    return arguments


def swept_libraries(arguments):
    """The first library twice, which shows the noise, and once for each value."""
    name, environment = next(iter(arguments.libs.items()))
    arms = {name: environment, "same": environment}
    for option, values in arguments.sweep:
        for value in values:
            arms[f"{option.removeprefix('HAKMEM_')}={value}"] = environment | {option: value}
    return arms


@contextlib.contextmanager
def busy_loops(count):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_one(arguments, pattern, environment):
    """The figures of one run; None if it failed, which is said."""
    command = [arguments.program, pattern, str(arguments.scale)]
    command += ["--tail"] * arguments.tail + ["--tail-silent"] * arguments.tail_silent
    try:
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"retention: {pattern}, {environment}: not over in {TIMEOUT_S} s", file=sys.stderr)
        return None
    line = re.search(rf"^retention {pattern} (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or line is None:
        print(f"retention: {pattern}, {environment}: exit {done.returncode}, {done.stderr}", file=sys.stderr)
        return None
    return {key: float(value) for key, value in re.findall(r"(\w+)=(\S+)", line[1])}


def run_all(arguments, patterns):
    """Rows of pattern, library, round and figures. The library that begins changes with every round and pattern."""
    plan = []
    for count in range(arguments.rounds):
        for place, pattern in enumerate(patterns):
            names = list(arguments.libs)
            first = (count + place) % len(names)
            plan += [(pattern, name, count) for name in names[first:] + names[:first]]
    rows = []
    with busy_loops(arguments.load), concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(run_one, arguments, pattern, arguments.libs[name]) for pattern, name, _ in plan]
        for (pattern, name, count), run in zip(plan, runs, strict=True):
            rows.append({"pattern": pattern, "library": name, "round": count, "figures": run.result()})
            print(f"\r{len(rows)}/{len(plan)} {pattern} {name}\x1b[K", end="", file=sys.stderr)
            write_json(arguments, rows)
    print("\r\x1b[K", end="", file=sys.stderr)
    return rows


def write_json(arguments, rows):
    path = pathlib.Path(arguments.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = {key: vars(arguments)[key] for key in ("libs", "sweep", "load", "scale", "jobs")}
    path.write_text(json.dumps({"settings": settings, "runs": rows}, indent=1))


def read_json(paths):
    """The rows of several files, their libraries in order of appearance, and whether they are a sweep."""
    files = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    names = dict.fromkeys(name for file in files for name in file["settings"]["libs"])
    rows = [row for file in files for row in file["runs"]]
    return rows, list(names), any(file["settings"].get("sweep") for file in files)


def run_matching(arguments):
    listed = subprocess.run([arguments.program, "--list"], capture_output=True, text=True, check=True).stdout
    patterns = [line.split()[0] for line in listed.splitlines()]
    patterns = [pattern for pattern in patterns if re.search(arguments.only, pattern)]
    if not patterns:
        sys.exit(f"retention: no pattern matches {arguments.only!r}; {arguments.program} --list names them")
    return run_all(arguments, patterns), list(arguments.libs), bool(arguments.sweep)


def main():
    arguments = parse_arguments()
    rows, names, is_sweep = read_json(arguments.show) if arguments.show else run_matching(arguments)
    medians = table.medians(rows)
    if is_sweep:
        print(table.swept(medians, names))
    else:
        print(table.compared(medians, names, arguments.peers.split(","), arguments.best.split(",")))
    sys.exit(any(row["figures"] is None for row in rows))


if __name__ == "__main__":
    main()
