"""peak.py [RECORDS]: what a service keeps after a peak: of many records the oldest and the newest live on.

Run with PYTHONMALLOC=malloc so that every object goes through malloc. Prints the resident memory after a rest.
"""

import random
import sys
import time
from pathlib import Path

DEFAULT_RECORDS = 100_000
SURVIVORS = 50  # one in so many
REST_S = 1.0


def resident_kib() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_RECORDS
    rng = random.Random(42)
    records = [{"key": f"user-{i}", "tags": [f"tag-{i}-{j}" for j in range(4)], "note": "x" * rng.randrange(10, 600)}
               for i in range(count)]  # fmt: skip
    del records[count // SURVIVORS : -count // SURVIVORS]
    time.sleep(REST_S)
    # Some work, so that an allocator that works only when it is called has its turn.
    total = sum(len(str(record)) for record in records)
    print(f"resident_kib = {resident_kib()} check={total}")


if __name__ == "__main__":
    main()
