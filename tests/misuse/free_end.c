/* free of the first byte after a block that has no live block behind it. */
#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  char *end = block + hak_malloc_usable_size(block);
  announce(end);
  hak_free(hide_pointer(end));
  drain(BLOCK_BYTES);
  return 0;
}
