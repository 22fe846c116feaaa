"""The workloads of `make bench`: command, figure and bars, one row each."""

import dataclasses

SPEED, TIME = "speed", "time"  # how a ratio to the best peer is expressed


@dataclasses.dataclass(frozen=True)
class Row:
    """One program run on every arm in every block.

    figure: the name before `=` in the program's first line; higher_is_better says which way it counts.
    bar: smallest speed ratio (or greatest time ratio, if bar_kind is TIME) to the best peer; None = for information.
    """

    key: str
    title: str
    command: tuple
    figure: str
    unit: str
    higher_is_better: bool = False
    bar: float = None
    bar_kind: str = SPEED
    limit_bar: float = None  # smallest speed ratio to the call limit
    live_bar: float = None  # greatest ratio of peak RSS to live data
    idle_bar_mib: float = None  # greatest figure, in MiB
    max_blocks: int = 1000  # for rows that take long
    rss: bool = True  # peak RSS is compared with the leanest peer's


def _mixed(key, title, ops, ws, bar, limit_bar=None):
    return Row(key, title, ("random_mixed", str(ops), str(ws), "1"), "Throughput", "Mop/s", True, bar,
               limit_bar=limit_bar)


BAR_ROWS = (
    _mixed("ws400", "random_mixed WS=400", 40_000_000, 400, 1.06, 0.95),
    _mixed("ws100k", "random_mixed WS=100k", 20_000_000, 100_000, 1.08),
    _mixed("ws1m", "random_mixed WS=1M", 20_000_000, 1_000_000, 1.30),
    Row("bulk", "bulk, rings of 20k blocks", ("bulk", "1500", "1", "all"), "bulk", "ns", bar=0.90, bar_kind=TIME),
    Row("remote50", "2 threads, 50% freed by the other", ("remote", "2", "50", "10000000"), "remote", "ns", bar=1.0),
    Row("remote90", "2 threads, 90% freed by the other", ("remote", "2", "90", "10000000"), "remote", "ns", bar=1.0),
    Row("prodcons", "producer -> consumer", ("prodcons", "8000000"), "prodcons", "ns", bar=1.0, live_bar=1.2),
    Row("falseshare", "false sharing, 8-64 B", ("falseshare", "scratch", "60000"), "falseshare", "ns", bar=0.95),
    Row("idle-exit", "idle 1 s after 1 GiB, threads ended", ("idle", "exit"), "idle", "MiB", idle_bar_mib=32,
        max_blocks=3, rss=False),
    Row("idle-stay", "idle 1 s after 1 GiB, threads asleep", ("idle", "stay"), "idle", "MiB", idle_bar_mib=32,
        max_blocks=3, rss=False),
)

# Not in the table of bars; the design's other rows, for comparison with the prototype and the peers.
INFO_ROWS = (
    Row("thrash", "false sharing, own blocks only", ("falseshare", "thrash", "60000"), "falseshare", "ns"),
    Row("bulk-runs", "bulk, runs of 50 equal sizes", ("bulk", "1000", "1", "all", "50"), "bulk", "ns"),
    Row("bulk-random", "bulk, freed in random order", ("bulk", "1000", "1", "random"), "bulk", "ns"),
    Row("remote0", "2 threads, nothing shared", ("remote", "2", "0", "20000000"), "remote", "ns"),
    Row("remote8", "8 threads, 50% remote, to 32 KiB", ("remote", "8", "50", "2000000", "16", "32768", "log"), "remote",
        "ns"),
    Row("generations", "3,000 threads in turn", ("generations", "3000", "4000"), "generations", "ns"),
    Row("phases", "phases of changing size, 200 MiB", ("phases", "200"), "phases", "ns", max_blocks=3),
    Row("mid", "churn of 32 KiB - 1 MiB", ("churn", "50000", "64", "32768", "1048576"), "churn", "ns"),
    Row("large", "churn of 5 - 25 MiB", ("churn", "150", "8", "5242880", "26214400"), "churn", "ns", max_blocks=5),
)

SYSCALLS_KEY, TRUE_KEY, DEMO_KEY = "syscalls", "true", "demo-rss"
SYSCALL_OPS = (20_000_000, 220_000_000)
SYSCALLS_PER_OP_BAR = 1e-8
TRUE_BAR_MS, TRUE_BAR_MIB = 0.3, 1.0
RSS_BAR = 1.10
PROTOTYPE_TIME_BAR = 1.02
LIMIT_FILE = "liblimit.so"


def all_keys():
    return [row.key for row in BAR_ROWS + INFO_ROWS] + [SYSCALLS_KEY, TRUE_KEY, DEMO_KEY]
