"""hak record PID: a program that waits for input is recorded, whatever earlier calls left on its stack."""

import os
import socket
import subprocess

import pytest

REMAINS = """
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static void earlier(void *address) {
  void *volatile remains[1024];
  for (int i = 0; i < 1024; i++) {
    remains[i] = address;
  }
}
__attribute__((noinline)) static int later(void) {
  volatile char frame[1024];
  return read(0, (char *)&frame[1023], 1);
}
int main(void) {
  puts("going");
  fflush(stdout);
  earlier((char *)malloc + 8);
  while (later() == 1) {
    puts("read");
    fflush(stdout);
  }
  return 0;
}
"""


@pytest.mark.parametrize("from_", ["pipe", "socket", "terminal"])
def test_one_that_waits_for_others_is_recorded_whatever_remains_on_its_stack(compile_once, common, path, from_):
    """Addresses in malloc fill the stack as if they remained of earlier calls."""
    from hakmem_lab.trace import attach

    source = common("remains") / "remains.c"
    source.write_text(REMAINS, encoding="utf-8")
    program = compile_once(common("remains") / "remains", ["cc", "-w", "-O1", "-fno-builtin", source])
    make = {"pipe": os.pipe, "socket": lambda: [end.detach() for end in socket.socketpair()], "terminal": os.openpty}
    ends = make[from_]()
    theirs, ours = ends if from_ == "pipe" else reversed(ends)
    try:
        with subprocess.Popen([program], stdin=theirs, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout.readline() == "going\n"
            for _ in range(2):
                assert attach.process(waiting.pid, path, 0.1).complete
            os.write(ours, b"\n")
            assert waiting.stdout.readline() == "read\n"
            waiting.kill()
    finally:
        for end in (theirs, ours):
            os.close(end)
