"""hak record PID of a process that calls exec: the recording ends there, and hak's last line says so."""

import os
import signal
import subprocess
import threading
from pathlib import Path

SOURCE = """
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int over;
static void end(int number) { over = 1; }
int main(int count, char **words) {
  if (count == 1) signal(SIGUSR1, end), puts("going"), fflush(stdout);
  while (!over) free(malloc(100)), poll(NULL, 0, 1);
  execl("/proc/self/exe", "becomes", "again", NULL);
}
"""


def test_what_follows_an_exec_of_the_same_file_is_named_as_not_recorded(path, tmp_path, until):
    from hakmem_lab.trace import attach, collector, reader, recorder
    from hakmem_lab.trace.contents import counts, left_out

    for built in (collector, reader, recorder):  # so that nothing must be compiled while the process waits
        built()

    def become(pid: int) -> None:
        until(lambda: "memfd:hak-record" in Path(f"/proc/{pid}/maps").read_text())
        os.kill(pid, signal.SIGUSR1)

    words = ["cc", "-w", "-fno-builtin", "-o", tmp_path / "becomes", "-x", "c", "-"]
    subprocess.run(words, input=SOURCE, text=True, check=True)
    with subprocess.Popen([tmp_path / "becomes"], stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout.readline() == "going\n"
            threading.Thread(target=become, args=(program.pid,)).start()
            found = attach.process(program.pid, path, 30)
            assert program.poll() is None
        finally:
            program.kill()
    assert found.end["recorded_s"] < 25
    said = f"{tmp_path}/becomes was not recorded (1 process, recorded until it became this by exec)"
    assert found.headline().endswith(f"complete until its exec; {said}")
    assert left_out(counts(path)["end"]) == [said]
