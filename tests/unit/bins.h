/* A thread cache that belongs to a test: hak_heap points to it, so the fast paths use it. */
#ifndef HAK_TEST_BINS_H
#define HAK_TEST_BINS_H

#include "check.h"
#include "depot.h"
#include "fast.h"
#include "slab.h"

/* `heap` is zeroed memory, the first time. It is found where all heaps are looked through. */
static inline void bins_open(hak_heap_t *heap) {
  hak_slab_init();
  if (heap->key == 0) {
    heap->key = atomic_load(&hak_key);
    heap->next = hak_heaps_all;
    hak_heaps_all = heap;
  }
  hak_cache_open(heap);
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

/* The blocks of a bin, the newest first; returns how many. */
static inline uint32_t bins_blocks(const hak_heap_t *heap, uint32_t cls, hak_free_block_t **blocks, uint32_t most) {
  hak_free_block_t **slots = hak_magazine_slots(&heap->info[cls].magazine);
  uint32_t count = bins_empty(heap, cls) ? 0 : hak_bin_blocks(heap, cls);
  for (uint32_t i = 0; i < count && i < most; i++) {
    blocks[i] = i == 0 ? heap->bin[cls].head : slots[count - i];
  }
  return count;
}

/* Each is marked, and there once. */
static inline uint32_t bins_length(const hak_heap_t *heap, uint32_t cls) {
  enum { MOST = 1 << 12 };
  static hak_free_block_t *blocks[MOST];
  uint32_t count = bins_blocks(heap, cls, blocks, MOST);
  for (uint32_t i = 0; i < count && i < MOST; i++) {
    CHECK(hak_is_marked_free(blocks[i]) && (i == 0 || blocks[i] != blocks[i - 1]));
  }
  return count;
}

/* How many more it takes before it asks. */
static inline size_t bins_room(const hak_heap_t *heap, uint32_t cls) {
  return (size_t)(heap->bin[cls].end - atomic_load(&heap->bin[cls].top));
}

/* The thread's sums are those of its adaptive classes, of runs one each; what a class has from the quota is part of its
 * capacity. */
static inline void bins_capacities_add_up(const hak_heap_t *heap) {
  size_t all = 0, quota = 0;
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    const hak_bin_info_t *info = &heap->info[cls];
    uint32_t counted = hak_class_is_run(cls) && hak_bin_capacity(info) > 1 ? 1 : hak_bin_capacity(info);
    size_t bytes = info->adaptive ? (size_t)counted * hak_class_sizes[cls] : 0;
    CHECK(hak_bin_blocks(heap, cls) + bins_room(heap, cls) <= info->magazine.size && info->quota_bytes <= bytes);
    all += bytes;
    quota += info->quota_bytes;
  }
  CHECK(all == heap->capacity_bytes && quota == heap->quota_bytes);
}

/* Return everything that is cached anywhere. */
static inline void bins_return(hak_heap_t *first, hak_heap_t *second) {
  hak_cache_flush(first, "test");
  hak_cache_flush(second, "test");
  hak_depot_flush(false);
}

/* Take what the bin holds, and keep it: it is empty, and the caller's blocks come to lie on top of nothing. */
static inline void bins_drain(hak_heap_t *heap, uint32_t cls) {
  while (!bins_empty(heap, cls)) {
    (void)bins_alloc(heap, hak_class_sizes[cls]);
  }
}

#endif
