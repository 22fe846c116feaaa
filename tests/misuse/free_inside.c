/* free of a pointer OFFSET bytes into a live block. */
#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  take(BLOCK_BYTES);
  announce(block + OFFSET);
  hak_free(hide_pointer(block + OFFSET));
  drain(BLOCK_BYTES);
  return 0;
}
