/* Low address space: unmap free clean memory. arena.c and extent.c call this when mapping fails. */
#include "arena_internal.h"
#include "os.h"

enum { LEAST_PART = 64 }; /* part of the mapped memory below which a walk over every chunk does not pay */

/* Take the slices out of the masks before they are unmapped, so that the child of a fork does not use them either. */
static void forget_locked(hak_chunk_t *chunk, hak_mask_t mask) {
  size_t count = hak_mask_count(mask);
  chunk->present &= ~mask;
  chunk->transit &= ~mask;
  chunk->free &= ~mask;
  chunk->dirty &= ~mask;
  chunk->purged &= ~mask;
  hak_arena.mapped_slices -= count;
  hak_arena.unmapped_ever += count;
}

/* Drop the chunk if none of it is left. */
static void end_locked(hak_chunk_t *chunk) {
  char *base = chunk->base;
  if (chunk->present == 0) {
    hak_set_chunk(base, 1, &hak_chunk_gone);
    hak_chunk_spare_locked(chunk);
    atomic_store_explicit(&hak_arena.little_end, base, memory_order_relaxed);
  }
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
      hak_arena_add_slices(row, slices);
    }
  }
  return all;
}

size_t hak_unmap_transit_and_unlock(hak_chunk_t *chunk) {
  hak_mask_t mask = hak_release_whole_pages(chunk->transit);
  char *base = chunk->base;
  forget_locked(chunk, mask);
  hak_release_out_of_transit_locked(chunk, 0);
  end_locked(chunk);
  hak_unlock(&hak_arena.lock);
  unmap(base, mask);
  return hak_mask_count(mask);
}

size_t hak_unmap_rest_locked(void) {
  return hak_arena.mapped_slices - hak_arena.clean_extent_slices - hak_arena.dirty_slices - hak_arena.used_slices;
}

/* Not inlined, to keep the callers' stack frames small. */
HAK_NOINLINE bool hak_unmap_rest(size_t least) {
  hak_chunk_t last = {.base = NULL}, *chunk = NULL;
  bool any = false, all = true;
  hak_lock(&hak_arena.lock);
  size_t rest = hak_unmap_rest_locked(), mapped = hak_arena.mapped_slices;
  bool enough = rest >= least && rest > mapped / LEAST_PART && mapped < HAK_SPLIT_BELOW;
  for (; enough && all && (chunk = hak_pagemap_next_sliced(chunk)); chunk = &last) {
    hak_mask_t mask = hak_release_whole_pages(chunk->free & ~chunk->dirty);
    last.base = chunk->base;
    if (mask) {
      forget_locked(chunk, mask);
      hak_arena_settle_locked(chunk);
      end_locked(chunk);
      hak_unlock(&hak_arena.lock);
      all = unmap(last.base, mask);
      any |= all;
      hak_lock(&hak_arena.lock);
    }
  }
  hak_unlock(&hak_arena.lock);
  return any;
}
