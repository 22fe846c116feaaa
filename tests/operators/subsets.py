"""A program that replaces any subset of the forms of operator new and delete (C++11 to C++20) runs with the library as
without it: the same of its forms are called, in the same order.

usage: subsets.py [--preload LIBRARY] [--forms LIBRARY] [--load | --plugin] [--most N] PROGRAM
       subsets.py --link COMPILER OBJCOPY ARCHIVE FORMS.o OBJECT... [--most N] PROGRAM

PROGRAM has the forms, or the shared library of --forms, which it is linked with or loads (--load, or, where it is a C
program, --plugin: there the preloaded library's own forms come before the plugin's, so that only the end is compared).
Those that a subset has not are renamed in the dynamic symbol table: nothing is compiled or linked for a subset. Not so
with --link, where they are made local, and the program is linked anew with the archive; it is compared with PROGRAM.
"""

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile

NEW = ["m", "mRKSt9nothrow_t", "mSt11align_val_t", "mSt11align_val_tRKSt9nothrow_t"]
DELETE = ["", "RKSt9nothrow_t", "m", "St11align_val_t", "St11align_val_tRKSt9nothrow_t", "mSt11align_val_t"]
ALL = [f"_Zn{kind}{form}" for kind in "wa" for form in NEW] + [f"_Zd{kind}Pv{form}" for kind in "la" for form in DELETE]
# Those that the others are made of.
ROOTS = ["_Znwm", "_ZdlPv", "_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t"]
ARRAYS = ["_Znam", "_ZdaPv", "_ZnamSt11align_val_t", "_ZdaPvSt11align_val_t"]
SEED = 20


def powerset(names):
    return [set(subset) for count in range(len(names) + 1) for subset in itertools.combinations(names, count)]


def all_cases(most):
    """(subset, pooled): every subset of the roots, each form alone, each absent, subsets by chance; a pool needs all roots."""
    chance = random.Random(SEED)
    cases = [(subset, False) for subset in powerset(ROOTS)]
    cases += [({name}, False) for name in ALL] + [(set(ALL) - {name}, False) for name in ALL]
    cases += [(set(ROOTS) | subset, True) for subset in powerset(ARRAYS)]
    cases += [(set(ROOTS) | {name}, True) for name in ALL if name not in ROOTS]
    cases += [({name for name in ALL if chance.random() < 0.5}, False) for _ in range(20)]
    cases += [(set(ROOTS) | {name for name in ALL if chance.random() < 0.5}, True) for _ in range(20)]
    if most and most < len(cases):
        cases = cases[:: -(-len(cases) // most)] + [(set(ROOTS[:2]), False), (set(ROOTS), True)]
    return cases


def hide(source, target, subset):
    with open(source, "rb") as file:
        image = file.read()
    for name in ALL:
        text = b"\0" + name.encode() + b"\0"
        if text not in image:
            raise SystemExit(f"{source} does not define {name}")
        if name not in subset:
            image = image.replace(text, b"\0X" + text[2:])
    with open(target, "wb") as file:
        file.write(image)
    os.chmod(target, 0o755)


def run(command, pooled, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "POOL")}
    environment.update({name: value for name, value in variables.items() if value})
    environment.update({"POOL": "1"} if pooled else {})
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def link(options, subset, target):
    compiler, objcopy, archive, forms, *objects = options.link
    subset_forms = target + ".o"
    hidden = [f"--localize-symbol={name}" for name in ALL if name not in subset]
    subprocess.run([objcopy, *hidden, forms, subset_forms], check=True)
    subprocess.run([compiler, subset_forms, *objects, archive, "-pthread", "-ldl", "-o", target], check=True)


def outcomes(options, subset, pooled, folder):
    """(without the library, with it)"""
    source = options.forms or options.program
    changed = os.path.join(folder, os.path.basename(source))
    hide(source, changed, subset)
    command = [options.program, changed] if options.load or options.plugin else [options.program]
    command = command if options.forms else [changed]
    path = folder if options.forms else None
    expected = run(command, pooled, LD_LIBRARY_PATH=path)
    if options.link:
        link(options, subset, changed + ".embedded")
        return expected, run([changed + ".embedded"], pooled)
    return expected, run(command, pooled, LD_LIBRARY_PATH=path, LD_PRELOAD=options.preload)


def difference(expected, got):
    if expected[0] != got[0]:
        return f"ends with {got[0]} instead of {expected[0]}: {got[2].strip()}"
    pairs = zip(expected[1].splitlines(), got[1].splitlines())
    return next((f"calls\n  {ours}\ninstead of\n  {theirs}" for theirs, ours in pairs if theirs != ours), "stops early")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("--preload", "--forms"):
        parser.add_argument(name)
    for name in ("--load", "--plugin"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--link", nargs="+")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("program")
    options = parser.parse_args()
    cases = all_cases(options.most)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for subset, pooled in cases:
            expected, got = outcomes(options, subset, pooled, folder)
            if expected[0] != 0:
                raise SystemExit(f"{sorted(subset)}: even without the library: {expected[0]} {expected[2]}")
            if got[0] != 0 or (got[1] != expected[1] and not options.plugin):
                failed += 1
                print(f"{' '.join(sorted(subset))}{' (pooled)' if pooled else ''}: {difference(expected, got)}")
    print(f"{len(cases)} subsets, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
