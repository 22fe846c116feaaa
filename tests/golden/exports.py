"""What the library shows to the outside: exactly the symbols of exports.txt, which names every function of
hakmem.h.

usage: exports.py LIBRARY exports.txt hakmem.h
"""

import re
import subprocess
import sys


def lines_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def exported(library):
    """Names without a version; the linker's own absolute symbols are not functions of ours."""
    rows = (line.split() for line in lines_of("nm", "-D", "--defined-only", library))
    return {row[-1].split("@")[0] for row in rows if row[-2] != "A"}


def compare_exports(library, listed, header):
    found = exported(library)
    promised = set(re.findall(r"^HAK_EXPORT[^;(]*?\b(hak_\w+)\(", header, re.MULTILINE))
    complaints = [f"exported, but not in exports.txt: {name}" for name in sorted(found - listed)]
    complaints += [f"in exports.txt, but not exported: {name}" for name in sorted(listed - found)]
    complaints += [f"in hakmem.h, but not in exports.txt: {name}" for name in sorted(promised - listed)]
    if not promised:
        complaints.append("hakmem.h declares nothing")
    return complaints


def main(arguments):
    if len(arguments) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    library, listed, header = arguments
    try:
        complaints = compare_exports(library, set(read(listed).split()), read(header))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"exports.py: {error}", file=sys.stderr)
        return 1
    print("\n".join(complaints) if complaints else "exports: as listed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
