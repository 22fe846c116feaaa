"""A signal that arrives after hak has printed its last line."""

import subprocess
import sys

# At exit the interpreter removes handlers, so that a second signal would kill it, but it leaves signals ignored.
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
