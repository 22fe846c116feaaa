/* The same block is freed twice in a row. */
#include "crime.h"

int main(void) {
  void *block = take(BLOCK_BYTES);
  announce(block);
  give(block);
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  return 0;
}
