/* A block is freed twice, then only frees follow: no malloc of its size, so it must be noticed when the blocks
 * return to their slabs. */
#include "crime.h"

#ifndef OTHERS
#define OTHERS 4000
#endif

int main(void) {
  static void *others[OTHERS];
  void *block = take(BLOCK_BYTES);
  take_many(others, OTHERS, BLOCK_BYTES);
  announce(block);
  give(block);
  hak_free(hide_pointer(block));
  give_many(others, OTHERS);
  flush_thread_cache();
  return 0;
}
