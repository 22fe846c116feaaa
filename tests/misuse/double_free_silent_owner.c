/* free(a), free(b), free(a). The next owners of the blocks write nothing, so the words of a free block remain. */
#include "crime.h"

enum { BLOCKS = 5000 };

int main(void) {
  free_aba(BLOCK_BYTES);
  for (int i = 0; i < BLOCKS; i++) {
    void *block = hak_malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    registered(block);
  }
  return 0;
}
