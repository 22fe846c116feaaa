/* Statistics and checks of the arena. This file visits and counts, but changes nothing. */
#include "arena.h"
#include "chunks.h"

/* Whether the address lies inside a block of a mixed slab. Where none is, one may have been freed. */
static bool is_in_mixed_block(const char *address) {
  bool in = false;
  uint32_t cls = HAK_CLASS_NONE;
  const char *page = address - (uintptr_t)address % (1 << HAK_PAGE_SHIFT);
  for (const char *at = address - (uintptr_t)address % HAK_BLOCK_MIN; at >= page && !cls; at -= HAK_BLOCK_MIN) {
    cls = hak_pagemap_class_in_mixed(at);
    in = cls != HAK_CLASS_NONE && (size_t)(address - at) < hak_class_sizes[cls];
  }
  return in;
}

hak_misuse_t hak_arena_why(const void *address) {
  hak_misuse_t why = HAK_MISUSE_INVALID;
  hak_lock(&hak_arena.lock);
  const hak_chunk_t *chunk = hak_pagemap_chunk(address);
  if (chunk) {
    hak_mask_t slice = (hak_mask_t)1 << (hak_pagemap_slice(address) & (HAK_CHUNK_SLICES - 1));
    bool freed = chunk->state == HAK_CHUNK_FREE || chunk->state == HAK_CHUNK_GONE || (chunk->free & slice);
    bool ours = chunk->state != HAK_CHUNK_SLICED || (chunk->present & slice);
    bool touched = chunk->state != HAK_CHUNK_SLICED || ((chunk->dirty | chunk->purged) & slice);
    freed |= hak_pagemap_slice_class(address) == HAK_CLASS_MIXED && (uintptr_t)address % HAK_BLOCK_MIN == 0 &&
             !is_in_mixed_block(address);
    why = !ours || !touched ? HAK_MISUSE_INVALID : freed ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_NOT_START;
  }
  hak_unlock(&hak_arena.lock);
  return why;
}

hak_arena_totals_t hak_arena_totals(void) {
  hak_lock(&hak_arena.lock);
  hak_arena_totals_t totals = {.used_slices = hak_arena.used_slices,
                               .dirty_slices = hak_arena.dirty_slices,
                               .target_slices = hak_retain_target_locked(),
                               .apart_slices = hak_arena.apart_slices,
                               .mapped_slices = hak_arena.mapped_slices,
                               .mapped_ever = hak_arena.mapped_ever,
                               .unmapped_ever = hak_arena.unmapped_ever,
                               .peak_slices = hak_arena.peak_slices};
  hak_unlock(&hak_arena.lock);
  return totals;
}

void hak_arena_each_slab(void (*visit)(hak_slab_t *slab, void *context), void *context) {
  hak_lock(&hak_arena.lock);
  for (hak_chunk_t *chunk = NULL; (chunk = hak_pagemap_next_sliced(chunk));) {
    for (size_t i = 0; i < HAK_CHUNK_SLABS; i++) {
      visit(&chunk->slabs->slab[i], context);
    }
  }
  hak_unlock(&hak_arena.lock);
}

static size_t check_chunk(const hak_chunk_t *chunk) {
  HAK_VERIFY((chunk->free & ~chunk->present) == 0 && (chunk->free & chunk->purging) == 0);
  HAK_VERIFY(chunk->run >= hak_mask_longest(chunk->free));
  HAK_VERIFY(chunk->dirty_run >= hak_mask_longest(chunk->free & chunk->dirty));
  HAK_VERIFY(chunk->free_slices == hak_mask_count(chunk->free));
  HAK_VERIFY((chunk->free & hak_mask_of(0, chunk->tail)) == 0);
  HAK_VERIFY((chunk->zeros & ~(chunk->free | chunk->purging)) == 0);
  HAK_VERIFY((chunk->dirty_list != 0) == ((chunk->free & chunk->dirty) != 0));
  for (size_t i = 0; i < HAK_CHUNK_SLICES; i++) {
    HAK_VERIFY(!(chunk->free >> i & 1) ||
               hak_pagemap_slice_class(chunk->base + (i << HAK_SLICE_SHIFT)) == HAK_CLASS_NONE);
  }
  return hak_mask_count(chunk->free & chunk->dirty);
}

void hak_arena_check(void) {
  size_t dirty = 0;
  hak_lock(&hak_arena.lock);
  for (hak_chunk_t *chunk = NULL; (chunk = hak_pagemap_next_sliced(chunk));) {
    dirty += check_chunk(chunk);
  }
  for (size_t i = 0; i < HAK_EXTENT_LISTS; i++) {
    HAK_VERIFY((hak_placement.extents[1][i] != NULL) == (hak_placement.extents_listed[1] >> i & 1));
    for (hak_chunk_t *first = hak_placement.extents[1][i]; first; first = first->next) {
      HAK_VERIFY(first->state == HAK_CHUNK_FREE && first->mate->mate == first && first->mate->chunks == first->chunks);
      dirty += first->chunks * HAK_CHUNK_SLICES;
    }
  }
  HAK_VERIFY(dirty == hak_arena.dirty_slices);
  const hak_retention_t *state = &hak_arena.retention;
  HAK_VERIFY(hak_arena.used_slices + dirty == state->fetched - state->purged);
  hak_unlock(&hak_arena.lock);
}
