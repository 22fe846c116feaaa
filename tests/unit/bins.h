/* A thread cache that belongs to a test: hak_heap points to it, so the fast paths use it. */
#ifndef HAK_TEST_BINS_H
#define HAK_TEST_BINS_H

#include "blocks/slab.h"
#include "check.h"
#include "malloc/fast.h"
#include "threads/depot.h"

enum {
  BINS_UNEARNED_BYTES = 128 << 10,
  BINS_UNEARNED_BLOCK = 32 << 10
}; /* bytes of capacity that a thread gets before it shows a need */

/* At the first call, `heap` is zeroed memory. It joins the list of all heaps. */
static inline void bins_open(hak_heap_t *heap) {
  hak_freed_start();
  if (heap->key == 0) {
    heap->key = atomic_load(&hak_key);
    heap->next = hak_heaps_all;
    hak_heaps_all = heap;
  }
  hak_cache_open(heap);
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) { /* no class is young: its blocks come from slabs of its own */
    hak_bin_touch(heap, cls);
    heap->info[cls].mixed_bytes = HAK_SLAB_BYTES;
  }
}

static inline void *bins_alloc(hak_heap_t *heap, size_t bytes) {
  hak_heap = heap;
  void *block = hak_fast_alloc(bytes);
  CHECK(block != NULL);
  return block;
}

static inline void bins_free(hak_heap_t *heap, void *block) {
  hak_heap = heap;
  hak_fast_free(block);
}

static inline uint32_t bins_capacity(const hak_heap_t *heap, uint32_t cls) {
  return hak_bin_capacity(&heap->info[cls]);
}

static inline bool bins_empty(const hak_heap_t *heap, uint32_t cls) {
  bool none = heap->bin[cls].head == HAK_NO_BLOCK;
  CHECK(none == (hak_bin_blocks(heap, cls) == 0));
  return none;
}

/* Writes the blocks of a bin, the newest first; returns their number. */
static inline uint32_t bins_blocks(const hak_heap_t *heap, uint32_t cls, hak_free_block_t **blocks, uint32_t most) {
  hak_free_block_t **slots = hak_magazine_slots(&heap->info[cls].magazine);
  uint32_t count = bins_empty(heap, cls) ? 0 : hak_bin_blocks(heap, cls);
  for (uint32_t i = 0; i < count && i < most; i++) {
    blocks[i] = i == 0 ? heap->bin[cls].head : slots[count - i];
  }
  return count;
}

/* The number of blocks in a bin. Checks that each is marked, and occurs once. */
static inline uint32_t bins_length(const hak_heap_t *heap, uint32_t cls) {
  enum { MOST = 1 << 12 };
  static hak_free_block_t *blocks[MOST];
  uint32_t count = bins_blocks(heap, cls, blocks, MOST);
  for (uint32_t i = 0; i < count && i < MOST; i++) {
    CHECK(hak_is_marked_free(blocks[i]) && (i == 0 || blocks[i] != blocks[i - 1]));
  }
  return count;
}

/* The number of blocks that the bin still takes before the slow path. */
static inline size_t bins_room(const hak_heap_t *heap, uint32_t cls) {
  return (size_t)(heap->bin[cls].end - atomic_load(&heap->bin[cls].top));
}

/* Checks that the budgets equal the sums of the adaptive classes' capacities, up to 4 KiB and above. */
static inline void bins_budgets_add_up(const hak_heap_t *heap) {
  size_t small = 0, large = 0, slow_start = 0;
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(hak_bin_blocks(heap, cls) + bins_room(heap, cls) <= heap->info[cls].magazine.size);
    slow_start += heap->info[cls].slow_start_bytes;
    if (!heap->info[cls].fixed) {
      *(hak_class_sizes[cls] <= 4096 ? &small : &large) += (size_t)bins_capacity(heap, cls) * hak_class_sizes[cls];
    }
  }
  CHECK(small == heap->budget_bytes && large == heap->large_budget_bytes);
  CHECK(slow_start == heap->slow_start_bytes && slow_start <= BINS_UNEARNED_BYTES);
}

/* Return all cached blocks, in both heaps and in the depot. */
static inline void bins_return(hak_heap_t *first, hak_heap_t *second) {
  hak_cache_flush(first, "test");
  hak_cache_flush(second, "test");
  hak_depot_flush(false);
}

/* Take all blocks of the bin, and keep them, so that the caller's blocks lie in an empty bin. */
static inline void bins_drain(hak_heap_t *heap, uint32_t cls) {
  while (!bins_empty(heap, cls)) {
    (void)bins_alloc(heap, hak_class_sizes[cls]);
  }
}

#endif
