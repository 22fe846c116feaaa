"""used_heap.py [DIVISOR]: ranks allocators on five programs, on a fresh heap and on used ones.

Prints the table of results/used_heap.md, in about six minutes. DIVISOR divides the work of each program. Each
program prints its own figure, so that the time to make the heap used does not count. The recorded past is a recording
of the Perl program, whose blocks stay live.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
HAK = [sys.executable, "-m", "hakmem_lab"]
ALLOCATORS = "glibc,hakmem,mimalloc,jemalloc,tcmalloc"
BLOCKS = 8  # the fewest that give intervals for four comparisons at once
BENCH = "build/release/bench"
PERL = """use Time::HiRes 'time'; my $start = time;
our %kept; for my $i (1 .. shift) { $kept{"key$i"} = [$i, "value $i" x ($i % 9)]; delete $kept{"key" . ($i >> 1)} }
printf "seconds = %.5f\\n", time - $start"""
# Each program's title, metric, whether higher is better, size, and command; {n} stands for the size.
PROGRAMS = (
    ("`random_mixed`, 400 blocks", r"regex:Throughput = (\d+)", True, 20_000_000,
     [f"{BENCH}/random_mixed", "{n}", "400", "1"]),
    ("`churn`, sizes of programs", r"regex:churn = ([0-9.]+)", False, 3_000_000,
     [f"{BENCH}/churn", "{n}", "400", "16", "32768", "1", "1", "program", "ends"]),
    ("`lists` of 100,000", r"regex:lists = ([0-9.]+)", False, 10, [f"{BENCH}/lists", "{n}", "100000"]),
    ("Perl, a hash", r"regex:seconds = ([0-9.]+)", False, 150_000, ["perl", "-e", PERL, "{n}"]),
    ("Python, objects and JSON", r"regex:seconds = ([0-9.]+)", False, 1,
     ["/usr/bin/python3", "-P", "-s", "bench/workload.py", "{n}"]),
)  # fmt: skip
PYTHON = ["--env", "PYTHONMALLOC=malloc", "--env", "PYTHONHASHSEED=1"]


def command_of(words: list[str], count: int, divisor: int) -> list[str]:
    return [word.replace("{n}", str(max(count // divisor, 1))) for word in words]


def hak(*words: str) -> None:
    subprocess.run([*HAK, *words], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def order(result: dict, metric: str) -> str:
    """The allocators against glibc, the best first; brackets mark those that are undecided."""
    rows = [row for row in result["comparisons"] if row["metric"] == metric]
    found = [(0.0, "glibc")]
    for row in rows:
        text = f"{row['treatment']} {100 * row['estimate']:+.0f} %"
        decided = row["ci_low"] > 0 or row["ci_high"] < 0
        found.append((row["estimate"], text if decided else f"({text})"))
    return ", ".join(text for _, text in sorted(found, reverse=True)).replace("-", "−")


def main() -> None:
    divisor = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print("| program | fresh | random past | recorded past |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        past, answer = f"{folder}/past.trace", Path(folder) / "answer.json"
        hak("record", "-o", past, "--", *command_of(PROGRAMS[3][4], PROGRAMS[3][3], divisor))
        for title, metric, higher, count, words in PROGRAMS:
            cells = []
            for condition in (["--precondition"], ["--history", past]):
                hak("compare", "--allocators", ALLOCATORS, "--baseline", "glibc", "--metric", metric,
                    *(["--higher-is-better"] if higher else []), *condition, *PYTHON, "--repeat", "1", "--quiet",
                    "--max-blocks", str(BLOCKS), "--json", str(answer), "--",
                    *command_of(words, count, divisor))  # fmt: skip
                result = json.loads(answer.read_text(encoding="utf-8"))
                cells += [order(each, metric) for each in (result, *result["conditions"])]
            print(f"| {title} | {cells[0]} | {cells[1]} | {cells[3]} |", flush=True)


if __name__ == "__main__":
    main()
