"""What has changed from one reading to another."""

from collections import Counter
from collections.abc import Mapping, Sequence

from hakmem_lab.inside.owners import OWNERS


def between(before: Mapping, after: Mapping) -> dict:
    """Of two readings: each row and class with its change."""
    earlier = Counter({row["owner"]: row["kib"] for row in before["rows"]})
    later = Counter({row["owner"]: row["kib"] for row in after["rows"]})
    names = [name for name in OWNERS if name in earlier or name in later]
    rows = [{"owner": n, "before_kib": earlier[n], "kib": later[n], "change_kib": later[n] - earlier[n]} for n in names]
    return {
        "since": before["time"],
        "rss_change_kib": after["rss_kib"] - before["rss_kib"],
        "rows": rows,
        "classes": _changed_classes(before["classes"], after["classes"]),
    }


def _changed_classes(before: Sequence[Mapping], after: Sequence[Mapping]) -> list[dict]:
    was = {row["block_bytes"]: row for row in before}
    now = {row["block_bytes"]: row for row in after}
    found = []
    for size in sorted({*was, *now}, key=lambda size: size or 1 << 62):
        change = {"block_bytes": size}
        for name in ("live_blocks", "live_kib", "free_kib", "resident_kib"):
            change[name] = now.get(size, {}).get(name, 0) - was.get(size, {}).get(name, 0)
        if any(change[name] for name in change if name != "block_bytes"):
            found.append(change)
    return sorted(found, key=lambda row: -abs(row["resident_kib"]))
