/* Duty: the two paths of nearly every call: pop a block, push a block. The paths are inlined into each entry point;
 * slow.c handles the other cases. Data: the calling thread's heap; no lock, no atomic read-modify-write. Layers below:
 * heap. */
#pragma once

#include "regions/regions.h"

HAK_COLD void *hak_slow_alloc(size_t bytes);
HAK_COLD void hak_slow_free(void *block);
/* The same, but they also serve small blocks of the hardened profile. `align`: a power of two from HAK_BLOCK_MIN on.
 * Above it, and without the profile: for blocks that need a run or more. */
HAK_NOINLINE void *hak_slow_alloc_any(size_t bytes, size_t align);
HAK_NOINLINE void hak_slow_free_any(void *block);
/* For HAK_SMALL_MAX < bytes. */
HAK_NOINLINE void *hak_slow_alloc_large(size_t bytes);
/* As malloc. *zeroed: all of the block reads as zeros. */
void *hak_slow_alloc_zeroed(size_t bytes, bool *zeroed);
/* Like hak_slow_alloc_zeroed, in a region, for any size and alignment. */
void *hak_slow_alloc_in(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, const char *function);
/* A request found no memory: get some. *step begins at 0 and counts the ways that were tried. False: no way is left.
 */
bool hak_slow_make_room(size_t bytes, size_t align, uint32_t *step);
/* Before a large block grows, which may happen in place: ask the program if that would pass the soft limit of the
 * process. Then set hak_limit_soft_met to false. */
bool hak_slow_may_grow(size_t usable, size_t bytes);
/* Sets errno to ENOMEM and returns NULL. */
void *hak_slow_no_memory(void);

/* The bin or batch that lies `words` words behind the first one. */
HAK_INLINE hak_bin_t *hak_fast_bin_behind(void *first, size_t words) {
  return (hak_bin_t *)(void *)((uintptr_t *)first + words);
}

/* Pop a block from the heap's bin or batch; bytes <= HAK_SMALL_MAX. NULL: use the slow path. */
HAK_INLINE void *hak_fast_alloc_from(hak_heap_t *heap, size_t bytes) {
  return hak_bin_pop(heap, hak_fast_bin_behind(heap->batch, hak_small_code(bytes)));
}

HAK_INLINE void *hak_fast_alloc(size_t bytes) {
  if (HAK_UNLIKELY(bytes > HAK_SMALL_MAX)) {
    return hak_slow_alloc_large(bytes);
  }
  void *block = hak_fast_alloc_from(hak_heap, bytes);
  return HAK_LIKELY(block != NULL) ? block : hak_slow_alloc(bytes);
}

/* False: nothing was done; use the slow path. */
HAK_INLINE bool hak_fast_free_into(hak_heap_t *heap, void *pointer) {
  hak_free_block_t *block = pointer;
  uintptr_t leaf = hak_pagemap_leaf(block);
  if (HAK_UNLIKELY(leaf == 0)) { /* includes NULL */
    return false;
  }
  size_t code = atomic_load_explicit(hak_pagemap_code(leaf, block), memory_order_relaxed);
  hak_bin_t *bin = hak_fast_bin_behind(heap->bin, code);
  return HAK_LIKELY(hak_is_block_start(block, bin->inverse, bin->limit) && hak_bin_push(heap, bin, block));
}

HAK_INLINE void hak_fast_free(void *pointer) {
  if (HAK_UNLIKELY(!hak_fast_free_into(hak_heap, pointer))) {
    hak_slow_free(pointer);
  }
}
