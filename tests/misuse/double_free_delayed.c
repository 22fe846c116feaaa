/* A block is freed, others of its size are taken and freed, then it is freed again. OTHERS counts them. */
#include "crime.h"

int main(void) {
  static void *others[OTHERS];
  void *block = take(BLOCK_BYTES);
  for (size_t i = 0; i < OTHERS; i++) {
    others[i] = take(BLOCK_BYTES);
  }
  announce(block);
  give(block);
  for (size_t i = 0; i < OTHERS; i++) {
    give(others[i]);
  }
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  return 0;
}
