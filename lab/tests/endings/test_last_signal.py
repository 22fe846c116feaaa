"""A signal that comes when all is said."""

import subprocess
import sys

# On its way out the interpreter takes handlers away, which lets the next signal kill it, and leaves what is ignored.
INTERRUPTED = """
import atexit, signal, sys
from hakmem_lab.cli import main
from hakmem_lab.system import signals

def interrupted(words):
    raise signals.Interrupt(signal.SIGTERM)

main._run = interrupted
atexit.register(lambda: print(*(signal.getsignal(number).name for number in signals.NUMBERS)))
sys.argv = ["hak"]
main.main()
"""


def test_it_does_not_change_how_the_process_ended():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, "hak: interrupted\n")
    assert done.stdout == "SIG_IGN SIG_IGN SIG_IGN\n"
