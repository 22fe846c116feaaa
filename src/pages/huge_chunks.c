/* The whole chunks of huge blocks: take, give, shrink, and unite with the chunk of the tail. */
#include "purge.h"

/* Give a huge block the first `tail` slices of a chunk. */
static void take_tail_locked(hak_chunk_t *chunk, size_t tail) {
  hak_mask_t mask = hak_mask_of(0, tail);
  size_t resident = hak_mask_count(chunk->dirty & mask);
  hak_arena.dirty_slices -= resident;
  hak_retain_fetch_locked(tail - resident, tail);
  chunk->free &= ~mask;
  chunk->dirty |= mask;
  chunk->zeros &= ~mask;
  chunk->purged &= ~mask;
  chunk->tail = (uint8_t)tail;
  hak_chunk_list_locked(chunk);
}

/* Prefer resident chunks, above all those with room for the tail directly behind. A block of another length may then
 * reuse a freed range that other blocks adjoin. */
HAK_NOINLINE static char *take_chunks_locked(size_t chunks, size_t tail, size_t align, bool grows, bool *zeroed) {
  size_t offset, all = chunks + (tail > 0);
  bool alone = grows && chunks > HAK_PATCHED_CHUNKS && !hak_arena.locked, beside = tail > 0 && align == HAK_CHUNK_BYTES;
  hak_chunk_t *first = beside ? hak_extent_find_locked(true, chunks, tail, align, &offset) : NULL, *last = NULL;
  if (first) {
    last = hak_extent_behind(first, tail);
    all = chunks;
  } else if (!alone) {
    first = hak_extent_find_locked(true, all, 0, align, &offset);
  }
  first = first ? first : hak_extent_find_locked(false, all, 0, align, &offset);
  if (!first) {
    return NULL;
  }
  hak_extent_t extent = hak_extent_take_locked(first, offset, all);
  hak_chunk_t *huge = hak_chunk_new_locked(extent.base, HAK_CHUNK_HUGE);
  huge->chunks = chunks;
  huge->mate = hak_chunk_new_locked(extent.base, HAK_CHUNK_SPARE);
  hak_pagemap_set_chunk(extent.base, 1, huge);
  hak_retain_fetch_locked(extent.dirty ? 0 : chunks * HAK_CHUNK_SLICES, alone ? 0 : all * HAK_CHUNK_SLICES);
  *zeroed = !extent.dirty;
  if (tail > 0) {
    char *end = extent.base + (chunks << HAK_CHUNK_SHIFT);
    take_tail_locked(last ? last : hak_extent_slice_locked((hak_extent_t){end, 1, extent.dirty, 0}), tail);
  }
  hak_retain_count_used_locked(chunks * HAK_CHUNK_SLICES + tail, true);
  return extent.base;
}

void *hak_huge_chunks_take(size_t chunks, size_t tail, size_t align, bool grows, bool *zeroed) {
  bool purged = false;
  size_t all = chunks + (tail > 0);
  align = align > HAK_CHUNK_BYTES ? align : HAK_CHUNK_BYTES;
  if (!hak_grow_reserve(chunks * HAK_CHUNK_SLICES + tail)) {
    return NULL;
  }
  for (;;) {
    char *base = NULL;
    bool stocked = hak_chunk_lock_stocked();
    if (stocked) {
      base = take_chunks_locked(chunks, tail, align, grows, zeroed);
      hak_unlock(&hak_arena.lock);
    }
    if (base) {
      hak_pagemap_set_chunk(base + HAK_CHUNK_BYTES, chunks - 1, hak_pagemap_chunk(base));
      if (HAK_UNLIKELY(grows || hak_retain_is_locked())) { /* a growing block cannot use the surplus */
        hak_purge_after_free(0);
      }
      return base;
    }
    if (stocked && hak_grow(all, align, 0, grows)) {
      continue;
    }
    if ((purged || !hak_purge_all(0)) && !hak_unmap_clean(all * HAK_CHUNK_SLICES)) {
      hak_grow_unreserve(chunks * HAK_CHUNK_SLICES + tail);
      return NULL;
    }
    purged = true;
  }
}

/* A program may leave parts of a huge block unwritten. Such parts keep pages that earlier blocks made resident, and the
 * arena does not know which. So it purges one freed huge block in this many, however little free memory there is. */
size_t hak_huge_freed;

void hak_huge_chunks_give(void *base) {
  hak_chunk_t *huge = hak_pagemap_chunk(base), *held = NULL;
  size_t chunks = huge->chunks;
  hak_pagemap_set_chunk(base, chunks, &hak_chunk_gone);
  hak_lock(&hak_arena.lock);
  hak_chunk_spare_locked(huge->mate);
  hak_chunk_spare_locked(huge);
  hak_retain_count_used_locked(chunks * HAK_CHUNK_SLICES, false);
  hak_extent_t extent = {base, chunks, true, 0};
  uint32_t forks = hak_purging.forks;
  if (++hak_huge_freed % HAK_FREED_PER_PURGE == 0) {
    held = hak_purge_begin_locked(extent, 0);
  } else {
    hak_extent_put_locked(extent);
  }
  bool due = hak_retain_surplus_locked() > 0;
  hak_unlock(&hak_arena.lock);
  if (held) {
    hak_purge_finish(held, forks);
  }
  if (due) {
    hak_purge_after_free(chunks * HAK_CHUNK_SLICES);
  }
}

bool hak_huge_chunks_shrink(void *base, size_t keep, size_t tail) {
  hak_chunk_t *huge = hak_pagemap_chunk(base);
  size_t chunks = huge->chunks, given = (chunks - keep) * HAK_CHUNK_SLICES - tail;
  char *end = (char *)base + (keep << HAK_CHUNK_SHIFT);
  if (!hak_chunk_lock_stocked()) {
    return false;
  }
  huge->chunks = keep;
  hak_retain_count_used_locked(given, false);
  hak_pagemap_set_chunk(end, chunks - keep, &hak_chunk_gone);
  if (tail) {
    take_tail_locked(hak_extent_slice_locked((hak_extent_t){end, 1, true, 0}), tail);
    end += HAK_CHUNK_BYTES;
  }
  if (keep == 0) {
    hak_pagemap_chunk(base)->huge_bytes = huge->huge_bytes;
    hak_chunk_spare_locked(huge->mate);
    hak_chunk_spare_locked(huge);
  }
  hak_extent_put_locked((hak_extent_t){end, chunks - keep - (tail > 0), true, 0});
  hak_unlock(&hak_arena.lock);
  hak_purge_after_free(given);
  return true;
}

/* Make the descriptor that the block needs for its first whole chunk. */
static hak_chunk_t *first_whole_locked(const hak_chunk_t *sliced) {
  hak_chunk_t *huge = hak_chunk_new_locked(sliced->base, HAK_CHUNK_HUGE);
  huge->mate = hak_chunk_new_locked(sliced->base, HAK_CHUNK_SPARE);
  huge->huge_bytes = sliced->huge_bytes;
  huge->chunks = 0;
  return huge;
}

bool hak_huge_chunks_unite_tail(void *base, size_t chunks, size_t tail) {
  size_t more = HAK_CHUNK_SLICES - tail;
  char *end = (char *)base + (chunks << HAK_CHUNK_SHIFT);
  if (!hak_grow_reserve(more)) {
    return false;
  }
  if (!hak_chunk_lock_stocked()) {
    hak_grow_unreserve(more);
    return false;
  }
  hak_chunk_t *sliced = hak_pagemap_chunk(end);
  bool free = (sliced->free | hak_mask_of(0, tail)) == HAK_MASK_ALL;
  if (free) {
    hak_chunk_unlist_locked(sliced);
    hak_retain_fetch_locked(hak_mask_count(sliced->free & ~sliced->dirty), more);
    hak_chunk_t *huge = chunks > 0 ? hak_pagemap_chunk(base) : first_whole_locked(sliced);
    huge->chunks++;
    hak_pagemap_set_chunk(end, 1, huge);
    hak_chunk_spare_locked(sliced);
    hak_retain_count_used_locked(more, true);
  } else {
    hak_retain_unreserve_locked(more);
  }
  hak_unlock(&hak_arena.lock);
  return free;
}

void hak_huge_chunks_discard_behind(void *block, size_t bytes, size_t usable) {
  size_t from = hak_round_up(bytes, hak_os_page_bytes());
  if (from < usable && !atomic_load_explicit(&hak_arena.locked, memory_order_relaxed)) {
    hak_os_discard((char *)block + from, usable - from);
  }
}
