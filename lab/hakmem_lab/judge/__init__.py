"""Analyses of what was measured, verdicts, and their wording.

In a small address space NumPy tries forever to start its threads and ignores signals, so the limit is checked first.
"""

import resource

from hakmem_lab.errors import LabError

NEEDED_BYTES = 512 << 20


def check_address_space(limit: int) -> None:
    """Raises LabError if the limit is too small for the libraries of the laboratory."""
    if 0 <= limit < NEEDED_BYTES:
        raise LabError(
            f"an address space of {limit >> 20} MiB (ulimit -v) is too small for the laboratory, which takes "
            f"{NEEDED_BYTES >> 20} MiB; set the limit inside the command: sh -c 'ulimit -v {limit >> 10}; exec PROGRAM'"
        )


check_address_space(resource.getrlimit(resource.RLIMIT_AS)[0])
