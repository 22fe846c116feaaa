/* A block is freed, others of its size are taken and freed, then it is freed again. OTHERS counts them. */
#include "crime.h"

enum { OTHERS_MAX = 5000 };

int main(void) {
  static void *others[OTHERS_MAX];
  size_t count = crime_number("OTHERS");
  CHECK(count <= OTHERS_MAX);
  void *block = take(BLOCK_BYTES);
  take_many(others, count, BLOCK_BYTES);
  announce(block);
  give(block);
  give_many(others, count);
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  return 0;
}
