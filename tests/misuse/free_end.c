/* free of the first byte after a block that has no live block behind it: it may be the start of a block that was
 * never handed out, which shows when it returns to its slab. */
#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  char *end = block + hak_malloc_usable_size(block);
  announce(end);
  hak_free(hide_pointer(end));
  flush_thread_cache();
  return 0;
}
