/* The block is back in its slab; it is freed again, and the program ends. */
#include "crime.h"

int main(void) {
  void *block = take(BLOCK_BYTES);
  take(BLOCK_BYTES); /* so that the slab stays */
  announce(block);
  give(block);
  flush_thread_cache();
  hak_free(hide_pointer(block));
  return 0;
}
