/* A block is freed twice, then only frees follow: no malloc of its size, so it must be noticed when the blocks
 * return to their slabs. */
#include "crime.h"

#ifndef OTHERS
#define OTHERS 4000
#endif

int main(void) {
  static void *others[OTHERS];
  void *block = take(BLOCK_BYTES);
  for (size_t i = 0; i < OTHERS; i++) {
    others[i] = take(BLOCK_BYTES);
  }
  announce(block);
  give(block);
  hak_free(hide_pointer(block));
  for (size_t i = 0; i < OTHERS; i++) {
    give(others[i]);
  }
  flush_thread_cache();
  return 0;
}
