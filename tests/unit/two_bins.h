/* Two thread caches of one test, and the blocks that pass between them. */
#ifndef HAK_TEST_TWO_BINS_H
#define HAK_TEST_TWO_BINS_H

#include <string.h>

#include "bins.h"

static hak_heap_t mine, other;
static void *blocks[6000];

static inline void open_both(void) {
  bins_open(&mine);
  bins_open(&other);
}

static inline void alloc_many(hak_heap_t *heap, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = bins_alloc(heap, bytes);
    memset(blocks[i], 'x', bytes);
  }
}

static inline void free_many(hak_heap_t *heap, size_t count) {
  for (size_t i = 0; i < count; i++) {
    bins_free(heap, blocks[i]);
  }
}

#endif
