"""Six services that should never grow: each as a program of rounds, run for minutes under `hak soak`.

The laboratory judges resident memory and throughput; address space, mappings and processor time a round are judged from
the machine's own figures, as those of any program.
"""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from arms import MACHINE, ROOT, Run, parse
from judge import growth
from programs import HOWS, KIB, MIB, ORDERS, REGION, STRIDE, TOUCHES, Op, pack

WHOLE, PAGES, ENDS = TOUCHES["whole"], TOUCHES["pages"], TOUCHES["ends"]
BUDGET = "4 MiB/h"


def _churn(low: int, high: int, slots: int, times: int, region: int = 0, touch: int = ENDS, name: str = "churn") -> Op:
    return {"op": name, "first": region * REGION, "count": slots, "x": low, "y": high, "z": times, "touch": touch}


def _batch(
    size: int, step: int, count: int, region: int, order: str = "lifo", how: str = "malloc", keep: int = 0
) -> list[Op]:
    where = {"first": region * REGION, "count": count}
    return [
        {"op": "alloc", **where, "x": size, "y": step, "how": HOWS[how], "touch": WHOLE},
        {"op": "free", **where, "x": ORDERS[order], "y": keep},
    ]


def _threads(count: int, body: list[Op], stay: bool = False) -> Op:
    return {"op": "threads", "count": count, "x": int(stay), "y": STRIDE, "body": body}


SERVICES: dict[str, list[Op]] = {
    "large_buffers": [
        _churn(5 * MIB, 60 * MIB, 8, 6, touch=PAGES),
        _threads(2, [_churn(5 * MIB, 20 * MIB, 6, 4, region=1, touch=PAGES, name="exchange")]),
        {"op": "pause", "x": 5},
    ],
    "request_arenas": [
        _threads(
            2,
            [
                {
                    "op": "loop",
                    "count": 20,
                    "body": [*_batch(64 * KIB, 40 * KIB, 12, 0), *_batch(24, 1, 2000, 1, "fifo")],
                }
            ],
        ),
        {"op": "pause", "x": 2},
    ],
    "cache_with_eviction": [_churn(100, 64 * KIB, 4096, 2000, touch=WHOLE), _churn(16, 2 * KIB, 4096, 4000, region=1)],
    "thread_pool": [
        _threads(16, [_churn(16, 8 * KIB, 500, 1000), _churn(8 * KIB, 800 * KIB, 20, 60, region=1)]),
        _threads(4, [_churn(16, 100 * KIB, 300, 300)], stay=True),
        _threads(2, [_churn(16, 8 * KIB, 2000, 4000, name="exchange")]),
        {"op": "pause", "x": 20},
    ],
    "fork_server": [
        _churn(16, 32 * KIB, 4096, 2000),
        {
            "op": "loop",
            "count": 4,
            "body": [{"op": "fork", "body": [*_batch(100, 3, 2000, 1), _churn(100, 3 * MIB, 20, 50, 2)]}],
        },
    ],
    "json_and_images": [
        *_batch(16, 1, 500, 0, "random"),
        *_batch(40, 0, 4000, 1, "fifo", keep=50),
        *_batch(12 * MIB, 100, 2, 2, how="calloc"),
        {"op": "alloc", "first": 3 * REGION, "count": 4, "x": 1000, "touch": ENDS},
        {"op": "resize", "first": 3 * REGION, "count": 4, "x": 8 * MIB, "z": 50},
        {"op": "free", "first": 3 * REGION, "count": 4},
    ],
}


def _one(name: str, minutes: float, out: Path) -> bool:
    program, figures, spec = (out / f"{name}.{kind}" for kind in ("program", "figures", "toml"))
    program.write_bytes(pack({"rounds": 1, "ops": SERVICES[name]}))
    words = [str(MACHINE), str(program), "{seconds}", str(figures)]
    spec.write_text(
        f'kind = "soak"\nquestion = "Does {name} grow?"\nallocator = "hakmem"\ncommand = {words!r}\n'
        f'duration = "{minutes * 60:.0f}s"\nbudget = "{BUDGET}"\n'
        "line = '^steady t=(?P<t>[0-9.]+) operations=(?P<operations>[0-9]+)'\n"
    )
    figures.unlink(missing_ok=True)
    command = [str(ROOT / ".venv/bin/hak"), "soak", str(spec), "--store", str(out / "store")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    text = [f"== {name}", done.stdout.strip(), done.stderr.strip()]
    bad = done.returncode != 0 or "NO-GO" in done.stdout
    if figures.exists() and figures.stat().st_size:
        one = Run(0, "", **parse(figures.read_text(), 0))
        # One moment against another says nothing of what goes up and down in a round; hak soak looks at all of them.
        flags = [flag for flag in growth(one, times=False) if flag.kind != "rss grows"]
        first, early, last = one.samples[4], one.samples[-5], one.last
        us = first.cpu_us / first.round, (last.cpu_us - early.cpu_us) / max(1, last.round - early.round)
        text.append(
            f"rounds {last.round}; size {first.size >> 10} → {last.size >> 10} MiB, mappings {first.mappings} → "
            f"{last.mappings}, longest call {one.longest_us / 1000:.2f} ms, "
            f"processor {us[0]:.0f} → {us[1]:.0f} µs a round"
        )
        text += [f"  {flag}" for flag in flags]
        bad = bad or bool(flags)
    print("\n".join(line for line in text if line), flush=True)
    return bad


def steady(minutes: float, names: list[str], jobs: int, out: Path) -> int:
    """All of them, `jobs` at a time, `minutes` each; the exit status tells whether any grew."""
    out = (out / "steady").resolve()
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        bad = list(pool.map(lambda name: _one(name, minutes, out), names or SERVICES))
    return 1 if any(bad) else 0
