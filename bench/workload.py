"""workload.py [ROUNDS]: objects, dictionaries, strings and JSON, as a small service would churn them.

Run with PYTHONMALLOC=malloc so that every object goes through malloc. Prints the time of the work alone.
"""

import json
import random
import sys
import time

DEFAULT_ROUNDS = 8
RECORDS = 12000
KEPT = 5


class Record:
    def __init__(self, key, rng):
        self.key = f"user-{key:07d}"
        self.tags = [f"tag{rng.randrange(5000)}" for _ in range(rng.randrange(1, 8))]
        self.fields = {f"f{i}": rng.random() for i in range(rng.randrange(2, 10))}
        self.note = "x" * rng.randrange(10, 300)

    def plain(self):
        return {"key": self.key, "tags": self.tags, "fields": self.fields, "note": self.note}


def one_round(index, rng, kept):
    records = [Record(key, rng) for key in range(index * RECORDS, (index + 1) * RECORDS)]
    text = json.dumps([record.plain() for record in records])
    parsed = json.loads(text)
    by_tag = {}
    for entry in parsed:
        for tag in entry["tags"]:
            by_tag.setdefault(tag, []).append(entry["key"])
    lines = [",".join(sorted(keys)) for keys in by_tag.values()]
    words = " ".join(lines).replace("user-", "u").split(",")
    kept.append((by_tag, words))
    if len(kept) > KEPT:
        kept.pop(rng.randrange(len(kept)))
    return len(text) + len(words)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_ROUNDS
    rng = random.Random(42)
    kept, total = [], 0
    start = time.perf_counter()
    for index in range(rounds):
        total += one_round(index, rng, kept)
    print(f"seconds = {time.perf_counter() - start:.4f} check={total}")


if __name__ == "__main__":
    main()
