"""The watcher sees each call of the heap that takes pages away exactly once, as strace counts them.

once.py LIBRARY HOOK HOOKED
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

CALL = re.compile(r"(madvise|munmap|mremap|mmap|getppid)\((\w*)(?:, (\d+))?([^=]*)= *(-?\w+)")


def made(text: str) -> tuple[int, int]:
    """Discards and unmaps between the two marks. Nobody has seen the last page of what was just mapped, which is asked
    whether it is locked; and a call to a fixed place follows one that announced it."""
    discards = unmaps = fresh_end = 0
    between = False
    for name, address, length, rest, result in CALL.findall(text):
        end = int(address, 16) + int(length) if address.startswith("0x") else 0
        if name == "getppid":
            between = not between
        elif name == "mmap":
            fresh_end = int(result, 16) + int(length)
        elif not between:
            continue
        elif name == "madvise":
            discards += "MADV_DONTNEED" in rest and not (length == "4096" and end == fresh_end)
        else:
            unmaps += "MREMAP_FIXED" not in rest
            fresh_end = int(address, 16) if end == fresh_end else fresh_end
    return discards, unmaps


def main() -> int:
    library, hook, hooked = sys.argv[1:]
    if subprocess.run(["strace", "-o", "/dev/null", "true"], check=False, capture_output=True).returncode != 0:
        print("skipped: strace may not trace here")
        return 77
    failed = False
    for order in ([hook, library], [library, hook]):
        with tempfile.NamedTemporaryFile() as calls:
            trace = ["strace", "-o", calls.name, "-e", "trace=madvise,munmap,mremap,mmap,getppid"]
            command = [*trace, "env", f"LD_PRELOAD={' '.join(order)}", hooked]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seen, counted = tuple(map(int, done.stdout.split())), made(Path(calls.name).read_text())
        print(f"{' '.join(order)}: the watcher saw {seen} discards and unmaps, the kernel {counted}")
        failed |= seen != counted or min(seen) == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
