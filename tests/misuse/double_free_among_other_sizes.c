/* Between the two frees the program works with blocks of other sizes. */
#include "crime.h"

int main(void) {
  void *block = take(BLOCK_BYTES);
  announce(block);
  give(block);
  for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 / 2 + 1) {
    if (bytes >= BLOCK_BYTES / 2 && bytes <= BLOCK_BYTES * 2) {
      continue;
    }
    give(take(bytes));
  }
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  return 0;
}
