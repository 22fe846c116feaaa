/* A block is freed twice. Then blocks of similar sizes are allocated and freed in turn, as in a busy program. */
#include "crime.h"

enum { ROUNDS = 50000, KEPT = 500 };

int main(void) {
  static void *kept[KEPT];
  void *block = take(BLOCK_BYTES);
  void *neighbour = take(BLOCK_BYTES);
  announce(block);
  give(block);
  give(neighbour);
  hak_free(hide_pointer(block));
  for (size_t i = 0; i < ROUNDS; i++) {
    if (kept[i % KEPT] != NULL) {
      give(kept[i % KEPT]);
    }
    kept[i % KEPT] = take(i % 5 == 0 ? BLOCK_BYTES * 2 : BLOCK_BYTES);
  }
  drain(BLOCK_BYTES);
  return 0;
}
