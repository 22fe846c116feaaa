/* A block is overrun by a byte into one that was never handed out. */
#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES), *behind = block + hak_malloc_usable_size(block);
  announce(behind);
  *(char *)hide_pointer(behind) = 'x';
  drain(BLOCK_BYTES);
  return 0;
}
