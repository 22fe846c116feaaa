"""What a library asks of the machine and of its C library: no newer glibc than docs/platforms.md states, and on aarch64 a landing pad
at each entry (for x86-64 see scripts/check_shared_library).

usage: platform.py LIBRARY GLIBC
"""

import re
import shutil
import subprocess
import sys

ENTRIES = ("malloc", "free", "calloc", "realloc", "hak_malloc", "hak_free", "_Znwm", "_ZdlPv")


def lines_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def numbers(version):
    return tuple(map(int, version.split(".")))


def newest_glibc(library):
    texts = lines_of("readelf", "--version-info", "--wide", library)
    return max((found for text in texts for found in re.findall(r"Name: GLIBC_([0-9.]+)", text)), key=numbers)


def bare_entries(library):
    """Entries that begin neither with a landing pad nor with the signing of the return address, which is one."""
    symbols = {row[7].split("@")[0]: row[1] for row in map(str.split, lines_of("readelf", "--dyn-syms", "--wide", library)) if len(row) > 7}
    for name in ENTRIES:
        start = int(symbols[name], 16)
        range_of = (f"--start-address={start}", f"--stop-address={start + 4}")
        first = lines_of("aarch64-linux-gnu-objdump", "--disassemble", *range_of, library)[-1]
        if not re.search(r"\t(bti\tc|paciasp|hint\t#0x(19|22))", first):
            yield f"{name} begins with {first}"


def main(library, oldest):
    if not shutil.which("readelf"):
        print("skipped: no binutils")
        return 77
    found = newest_glibc(library)
    complaints = [] if numbers(found) <= numbers(oldest) else [f"it needs glibc {found}; stated is {oldest}"]
    aarch64 = any("AArch64" in text for text in lines_of("readelf", "--file-header", library))
    if aarch64 and shutil.which("aarch64-linux-gnu-objdump"):
        complaints += bare_entries(library)
    print("\n".join(complaints) or f"glibc {found}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
