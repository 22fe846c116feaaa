/* free(a), free(b), free(a), and who gets the blocks next writes nothing: the words of a free block are still there. */
#include "crime.h"

enum { BLOCKS = 5000 };

int main(void) {
  void *a = take(BLOCK_BYTES);
  void *b = take(BLOCK_BYTES);
  announce(a);
  give(a);
  give(b);
  hak_free(hide_pointer(a));
  for (int i = 0; i < BLOCKS; i++) {
    void *block = hak_malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    registered(block);
  }
  return 0;
}
