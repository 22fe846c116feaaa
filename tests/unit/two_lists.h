/* Two thread caches of one test, and the blocks that pass between them. */
#ifndef HAK_TEST_TWO_LISTS_H
#define HAK_TEST_TWO_LISTS_H

#include <string.h>

#include "lists.h"

static hak_heap_t mine, other;
static void *blocks[6000];

static inline void open_both(void) {
  lists_open(&mine, 1);
  lists_open(&other, 2);
}

static inline void alloc_many(hak_heap_t *heap, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = lists_alloc(heap, bytes);
    memset(blocks[i], 'x', bytes);
  }
}

static inline void free_many(hak_heap_t *heap, size_t count) {
  for (size_t i = 0; i < count; i++) {
    lists_free(heap, blocks[i]);
  }
}

#endif
