/* A thread cache that belongs to a test: hak_heap points to it, so the fast paths use it. */
#ifndef HAK_TEST_LISTS_H
#define HAK_TEST_LISTS_H

#include "check.h"
#include "fast.h"
#include "transfer.h"

/* `heap` is zeroed memory. */
static inline void lists_open(hak_heap_t *heap, uintptr_t number) {
  hak_slab_init();
  heap->key = (uintptr_t)0xabcd << 48 | number;
  hak_cache_open(heap);
}

static inline void *lists_alloc(hak_heap_t *heap, size_t bytes) {
  hak_heap = heap;
  void *block = hak_fast_alloc(bytes);
  CHECK(block != NULL);
  return block;
}

static inline void lists_free(hak_heap_t *heap, void *block) {
  hak_heap = heap;
  hak_fast_free(block);
}

static inline int32_t lists_capacity(hak_heap_t *heap, uint32_t cls) {
  return hak_bin_capacity(&heap->info[cls]);
}

/* Blocks in the list, counted. */
static inline int32_t lists_length(hak_heap_t *heap, uint32_t cls) {
  int32_t blocks = 0;
  for (hak_free_block_t *block = heap->bin[cls].head; block != HAK_LIST_END; block = block->link) {
    blocks++;
  }
  return blocks;
}

/* The budgets are what the adaptive classes' capacities come to: those up to 4 KiB, and those above. */
static inline void lists_budgets_add_up(hak_heap_t *heap) {
  size_t small = 0, large = 0;
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(lists_capacity(heap, cls) >= 0);
    if (heap->info[cls].adaptive) {
      *(hak_class_sizes[cls] <= 4096 ? &small : &large) += (size_t)lists_capacity(heap, cls) * hak_class_sizes[cls];
    }
  }
  CHECK(small == heap->budget_bytes && large == heap->large_budget_bytes);
}

/* Return everything that is cached anywhere. */
static inline void lists_return(hak_heap_t *first, hak_heap_t *second) {
  hak_cache_flush(first, "test");
  hak_cache_flush(second, "test");
  hak_transfer_flush();
}

/* Take what the list holds, and keep it: the list is empty and the caller's blocks are on top of nothing. */
static inline void lists_drain(hak_heap_t *heap, uint32_t cls) {
  while (heap->bin[cls].head != HAK_LIST_END) {
    (void)lists_alloc(heap, hak_class_sizes[cls]);
  }
}

#endif
