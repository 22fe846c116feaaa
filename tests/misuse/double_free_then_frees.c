/* A block is freed twice, and no malloc of its size follows, only frees. It must be noticed when the blocks return to
 * their slabs. */
#include "crime.h"

enum { OTHERS_MAX = 4000 };

int main(void) {
  static void *others[OTHERS_MAX];
  size_t count = crime_number_or("OTHERS", OTHERS_MAX);
  CHECK(count <= OTHERS_MAX);
  void *block = take(BLOCK_BYTES);
  take_many(others, count, BLOCK_BYTES);
  announce(block);
  give(block);
  hak_free(hide_pointer(block));
  give_many(others, count);
  flush_thread_cache();
  return 0;
}
