/* Blocks went back to their slab long ago; one of them is freed again. */
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
