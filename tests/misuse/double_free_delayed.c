/* A block is freed, others of its size are taken and freed, then it is freed again. OTHERS counts them. */
#include "crime.h"

int main(void) {
  static void *others[OTHERS];
  void *block = take(BLOCK_BYTES);
  take_many(others, OTHERS, BLOCK_BYTES);
  announce(block);
  give(block);
  give_many(others, OTHERS);
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  return 0;
}
