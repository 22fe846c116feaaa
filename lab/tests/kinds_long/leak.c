// leak KIB_PER_SECOND SECONDS: leaks a tenth of KIB_PER_SECOND ten times a second, and prints a line once a second.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  size_t bytes = (size_t)atoi(argv[1]) * 1024 / 10;
  int ticks = atoi(argv[2]) * 10;
  for (int i = 1; argc == 3 && i <= ticks; i++) {
    if (bytes > 0)
      memset(malloc(bytes), 1, bytes);
    usleep(100000);
    printf("done %d phase %s\n", i * 100, i / 10 % 2 ? "odd" : "even");
    fflush(stdout);
  }
  return 0;
}
