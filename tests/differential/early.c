/* A library to preload beside an allocator. Its constructor registers fork handlers that allocate, before or after the
 * allocator registers its own. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 8 };

static void use_the_heap(void) {
  static const size_t sizes[BLOCKS] = {24, 200, 3000, 20000, 60000, 300000, 1200000, 5000000};
  char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(sizes[i]);
    if (blocks[i] != NULL) {
      memset(blocks[i], i, 24);
    }
  }
  for (int i = 0; i < BLOCKS; i++) {
    free(blocks[i]);
  }
}

__attribute__((constructor)) static void begin(void) {
  use_the_heap();
  pthread_atfork(use_the_heap, use_the_heap, use_the_heap);
}
