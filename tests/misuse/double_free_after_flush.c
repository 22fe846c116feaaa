/* A block is freed again long after it went back to its slab. */
#include "crime.h"

enum { OTHERS = 4000 };

int main(void) {
  static void *others[OTHERS];
  take_many(others, OTHERS, BLOCK_BYTES);
  void *block = others[OTHERS / 2];
  announce(block);
  give_many(others, OTHERS);
  flush_thread_cache();
  hak_free(hide_pointer(block));
  flush_thread_cache();
  drain(BLOCK_BYTES);
  return 0;
}
