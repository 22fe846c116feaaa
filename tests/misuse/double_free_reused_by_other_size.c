/* The block's memory was given back. It serves blocks of another size when the block is freed again. */
#include <stdint.h>

#include "crime.h"

enum { BLOCKS = 8000, OTHERS = 2000 };

int main(void) {
  static void *blocks[BLOCKS], *others[OTHERS];
  take_many(blocks, BLOCKS, BLOCK_BYTES);
  give_many(blocks, BLOCKS);
  flush_thread_cache();
  take_many(others, OTHERS, OTHER_BYTES);
  void *block = NULL; /* lies inside one of the others */
  for (size_t i = 0; i < BLOCKS; i++) {
    for (size_t j = 0; j < OTHERS; j += 16) {
      uintptr_t offset = (uintptr_t)blocks[i] - (uintptr_t)others[j];
      if (offset > 0 && offset < OTHER_BYTES) {
        block = blocks[i];
      }
    }
  }
  CHECK(block != NULL);
  announce(block);
  hak_free(hide_pointer(block));
  flush_thread_cache();
  drain(BLOCK_BYTES);
  return 0;
}
