/* realloc of a block that was freed. With FLUSHED, it is back in its slab before the call. */
#include "crime.h"

int main(void) {
  void *block = take(BLOCK_BYTES);
  announce(block);
  if (crime_number("FLUSHED")) {
    take(BLOCK_BYTES); /* so that the slab stays */
  }
  give(block);
  if (crime_number("FLUSHED")) {
    flush_thread_cache();
  }
  void *moved = hak_realloc(hide_pointer(block), NEW_BYTES);
  CHECK(moved != NULL);
  registered(moved);
  drain(BLOCK_BYTES);
  return 0;
}
