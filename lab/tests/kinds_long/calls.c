// calls N: makes exactly N calls of getppid and N / 10 of getuid, besides those that every process makes.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 100;
  for (long i = 0; i < n; i++) {
    syscall(SYS_getppid);
    if (i % 10 == 0)
      syscall(SYS_getuid);
  }
  return 0;
}
