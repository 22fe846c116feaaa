/* Unmaps free clean memory when address space is low. The arena calls this when mapping fails. */
#include "mapping.h"

enum { LEAST_PART = 64 }; /* below this part of the mapped memory, a walk over all chunks does not pay */

hak_mask_t hak_unmap_whole_pages(hak_mask_t mask) {
  size_t slices = hak_os_page_bytes() >> HAK_SLICE_SHIFT;
  hak_mask_t whole = slices > 1 ? 0 : mask;
  if (slices > 1) {
    for (hak_mask_t starts = hak_mask_starts(mask, slices) & hak_mask_aligned(slices); starts; starts &= starts - 1) {
      whole |= hak_mask_of(hak_mask_lowest(starts), slices);
    }
  }
  return whole;
}

void hak_unmap_forget_locked(hak_chunk_t *chunk, hak_mask_t mask) {
  size_t count = hak_mask_count(mask);
  chunk->present &= ~mask;
  chunk->purging &= ~mask;
  chunk->free &= ~mask;
  chunk->dirty &= ~mask;
  chunk->zeros &= ~mask;
  chunk->purged &= ~mask;
  hak_arena.mapped_slices -= count;
  hak_arena.unmapped_ever += count;
}

/* False: some slices could not be unmapped, and are free again. */
static bool unmap(char *base, hak_mask_t mask) {
  bool all = true;
  for (uint32_t slices, first; mask; mask &= ~hak_mask_of(first, slices)) {
    first = hak_mask_row(mask, &slices);
    char *row = base + ((size_t)first << HAK_SLICE_SHIFT);
    size_t bytes = (size_t)slices << HAK_SLICE_SHIFT;
    bool done = hak_os_unmap(row, bytes);
    all &= done;
    if (!done && hak_os_discard(row, bytes)) {
      hak_mapping_list_slices(row, slices);
    }
  }
  return all;
}

bool hak_unmap_and_unlock(hak_chunk_t *chunk, hak_mask_t mask) {
  char *base = chunk->base;
  if (chunk->present == 0) { /* no slice of the chunk is left */
    hak_pagemap_set_chunk(base, 1, &hak_chunk_gone);
    hak_chunk_spare_locked(chunk);
    atomic_store_explicit(&hak_mapping.part_end, base, memory_order_relaxed);
  }
  hak_unlock(&hak_arena.lock);
  return unmap(base, mask);
}

size_t hak_unmap_clean_locked(void) {
  return hak_arena.mapped_slices - hak_arena.clean_extent_slices - hak_arena.dirty_slices - hak_arena.used_slices;
}

HAK_NOINLINE bool hak_unmap_clean(size_t least) {
  hak_chunk_t last = {.base = NULL}, *chunk = NULL;
  bool any = false, all = true;
  hak_lock(&hak_arena.lock);
  size_t clean = hak_unmap_clean_locked(), mapped = hak_arena.mapped_slices;
  bool enough = clean >= least && clean > mapped / LEAST_PART && mapped < HAK_SPLIT_BELOW;
  for (; enough && all && (chunk = hak_pagemap_next_sliced(chunk)); chunk = &last) {
    hak_mask_t mask = hak_unmap_whole_pages(chunk->free & ~chunk->dirty);
    last.base = chunk->base;
    if (mask) {
      hak_unmap_forget_locked(chunk, mask);
      hak_chunk_list_locked(chunk);
      all = hak_unmap_and_unlock(chunk, mask);
      any |= all;
      hak_lock(&hak_arena.lock);
    }
  }
  hak_unlock(&hak_arena.lock);
  return any;
}
