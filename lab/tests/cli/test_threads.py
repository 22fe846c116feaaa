"""hak's own computations use one thread, but the measured program gets the caller's variables unchanged."""

import os
import subprocess
import sys

COUNT = """
import os, sys
from hakmem_lab.cli.main import main
try:
    main()
except SystemExit:
    import numpy.linalg, scipy.linalg
print(len(os.listdir("/proc/self/task")), file=sys.stderr)
"""


def test_linear_algebra_starts_no_threads():
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    words = [sys.executable, "-c", COUNT, "--version"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == "1\n"


def test_the_program_has_the_callers_variable(hak):
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | {
        "OPENBLAS_NUM_THREADS": "7"
    }
    words = ("run", "--allocator", "glibc", "--", "sh", "-c", "echo $OPENBLAS_NUM_THREADS,$OMP_NUM_THREADS")
    shown = hak(*words, env=env)
    assert shown.out == "7,\n"
