"""Compile every program and library of the laboratory into a folder: natives.py FOLDER MACHINE.

Runs in a copy of hakmem_lab; the first `cc` of PATH compiles for MACHINE. The names are what hakmem_lab looks for.
"""

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

from hakmem_lab import trace
from hakmem_lab.system import counting, follower, launcher

folder, machine = Path(sys.argv[1]), sys.argv[2]
os.uname = lambda: SimpleNamespace(machine=machine)  # the names tell machines apart by it
folder.mkdir(parents=True, exist_ok=True)
own = (launcher.helper_path, follower.helper_path, counting.library)
for make in (*own, trace.recorder, trace.collector, trace.replayer, trace.reader):
    shutil.copy2(make(), folder)
