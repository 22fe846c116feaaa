/* Prints the addresses of the first blocks of some sizes; address_randomness.py compares many runs. */
#include "trap.h"

#include <unistd.h>

int main(void) {
  void *first = hak_malloc(16), *small = hak_malloc(200), *mid = hak_malloc(100 << 10), *huge = hak_malloc(8 << 20);
  char line[128];
  int length = snprintf(line, sizeof line, "%p %p %p %p\n", first, small, mid, huge);
  CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
  return 0;
}
