/* free of a pointer OFFSET bytes into a block that was freed before. */
#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  give(block);
  announce(block + OFFSET);
  hak_free(hide_pointer(block + OFFSET));
  drain(BLOCK_BYTES);
  return 0;
}
