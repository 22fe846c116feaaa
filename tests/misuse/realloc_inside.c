/* realloc of a pointer OFFSET bytes into a live block. */
#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  announce(block + OFFSET);
  hide_pointer(hak_realloc(hide_pointer(block + OFFSET), BLOCK_BYTES + 1));
  drain(BLOCK_BYTES);
  return 0;
}
