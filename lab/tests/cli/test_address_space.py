"""In too small an address space, hak ends with one line. Otherwise NumPy would try forever to start threads."""

import subprocess
import sys

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.judge import NEEDED_BYTES, check_address_space


@pytest.mark.parametrize("kib", [200_000, 300_000])
def test_the_limit_is_said_and_where_to_set_it(kib):
    command = f"ulimit -v {kib}; exec {sys.executable} -m hakmem_lab ab --control glibc --treatment glibc -- true"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=600, check=False)
    (line,) = found.stderr.splitlines()
    assert found.returncode == 2
    assert line.startswith("hak: ") and f"ulimit -v {kib}" in line and "inside the command" in line


def test_no_limit_and_a_wide_one_are_enough():
    check_address_space(-1)
    check_address_space(NEEDED_BYTES)
    with pytest.raises(LabError, match="too small"):
        check_address_space(NEEDED_BYTES - 1)
