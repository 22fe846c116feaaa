/* Slices and chunks for tests of the arena. */
#ifndef HAK_TEST_SLICES_H
#define HAK_TEST_SLICES_H

#include <string.h>

#include "check.h"
#include "child.h"
#include "pages/purge.h"
#include "pattern.h"
#include "system/os.h"

enum { CHUNK = HAK_CHUNK_SLICES };

/* From here on, each new chunk lies below the last one, and slices are taken from the first one up; normally both are
 * random. Other mappings lie above. All lie in one leaf, so that no other table takes memory that a test counts. */
static inline void slices_begin_here(void) {
  const size_t bytes = (size_t)128 * HAK_CHUNK_BYTES, leaf = (size_t)1 << HAK_LEAF_SHIFT;
  char *place = hak_os_map_aligned(NULL, bytes, HAK_CHUNK_BYTES);
  CHECK(place != NULL && hak_os_unmap(place, bytes));
  size_t into = (uintptr_t)place % leaf;
  place -= into + bytes > leaf ? into + bytes - leaf : 0;
  hak_mapping.hint = place + bytes / 2;
}

static inline char *slice_of(char *base, size_t slices) {
  return base + (slices << HAK_SLICE_SHIFT);
}

static inline char *chunk_of(char *base, size_t chunks) {
  return base + (chunks << HAK_CHUNK_SHIFT);
}

static inline size_t slice_number(const char *address) {
  return hak_pagemap_slice(address) % HAK_CHUNK_SLICES;
}

/* Takes slices and writes to them, so that they are really dirty. */
static inline char *slices_take_aligned(size_t slices, size_t align, bool *zeroed) {
  char *base = hak_arena_take(slices, align, zeroed);
  if (base) {
    CHECK((uintptr_t)base % (align << HAK_SLICE_SHIFT) == 0 && slice_number(base) + slices <= HAK_CHUNK_SLICES);
    CHECK(!*zeroed || all_zero(base, slices << HAK_SLICE_SHIFT));
    memset(base, 1, slices << HAK_SLICE_SHIFT);
  }
  return base;
}

static inline char *slices_take(size_t slices) {
  bool zeroed;
  return slices_take_aligned(slices, 1, &zeroed);
}

static inline char *chunks_take_aligned(size_t chunks, size_t tail, size_t align, bool *zeroed) {
  char *base = hak_huge_chunks_take(chunks, tail, align, false, zeroed);
  if (base) {
    size_t slices = chunks * HAK_CHUNK_SLICES + tail;
    CHECK((uintptr_t)base % HAK_CHUNK_BYTES == 0 && (uintptr_t)base % align == 0);
    CHECK(hak_pagemap_chunk(base)->state == HAK_CHUNK_HUGE);
    CHECK(!*zeroed || all_zero(base, slices << HAK_SLICE_SHIFT));
    memset(base, 1, slices << HAK_SLICE_SHIFT);
  }
  return base;
}

static inline char *chunks_take(size_t chunks, size_t tail) {
  bool zeroed;
  return chunks_take_aligned(chunks, tail, 1, &zeroed);
}

static inline void chunks_give(char *base, size_t tail) {
  if (tail > 0) {
    hak_arena_give(chunk_of(base, hak_pagemap_chunk(base)->chunks), tail);
  }
  hak_huge_chunks_give(base);
}

static inline size_t dirty_slices(void) {
  hak_arena_check();
  return hak_arena_totals().dirty_slices;
}

/* The number of free extents of one kind, and the number of their chunks. */
static inline size_t extents_listed(bool dirty, size_t *chunks) {
  size_t extents = 0;
  *chunks = 0;
  for (size_t list = 0; list < HAK_EXTENT_LISTS; list++) {
    const hak_chunk_t *before = NULL;
    for (const hak_chunk_t *first = hak_placement.extents[dirty][list]; first; before = first, first = first->next) {
      CHECK(first->state == HAK_CHUNK_FREE && first->prev == before && (first->dirty != 0) == dirty);
      CHECK(first->chunks >> list == 1 && hak_pagemap_chunk(first->base) == first);
      CHECK(hak_pagemap_chunk(first->mate->base) == first->mate && first->mate->mate == first);
      CHECK(first->mate->base == first->base + ((first->chunks - 1) << HAK_CHUNK_SHIFT));
      extents++;
      *chunks += first->chunks;
    }
  }
  return extents;
}

static inline bool is_only_extent(bool dirty, const char *base, size_t chunks) {
  size_t all;
  const hak_chunk_t *first = hak_pagemap_chunk(base);
  return extents_listed(dirty, &all) == 1 && all == chunks && first && first->state == HAK_CHUNK_FREE &&
         first->base == base && first->chunks == chunks;
}

/* While nothing is being purged: checks that mapped = used + free, and the counts of each kind of free memory. */
static inline void slices_add_up(void) {
  size_t clean_chunks, dirty_chunks, free = 0, dirty = 0;
  hak_arena_check();
  extents_listed(false, &clean_chunks);
  extents_listed(true, &dirty_chunks);
  for (hak_chunk_t *chunk = NULL; (chunk = hak_pagemap_next_sliced(chunk));) {
    CHECK(chunk->purging == 0 && (chunk->free & ~chunk->present) == 0);
    free += hak_mask_count(chunk->free);
    dirty += hak_mask_count(chunk->free & chunk->dirty);
  }
  hak_arena_totals_t totals = hak_arena_totals();
  CHECK(totals.used_slices == hak_retain_used_slices() && hak_arena.reserved_slices == 0);
  CHECK(totals.mapped_slices == totals.used_slices + free + (clean_chunks + dirty_chunks) * HAK_CHUNK_SLICES);
  CHECK(totals.dirty_slices == dirty + dirty_chunks * HAK_CHUNK_SLICES);
  CHECK(totals.mapped_ever - totals.unmapped_ever == totals.mapped_slices);
  CHECK(hak_purging.chunks == NULL);
}

/* Forks in the middle of an operation of the caller or of another thread on the arena. The child runs act() and must
 * exit with status 0. */
static inline void slices_fork(void (*act)(void)) {
  CHECK(hak_lock_before_fork(&hak_arena.lock));
  child_succeeds(act);
  hak_lock_after_fork(&hak_arena.lock, false);
}

/* The first actions of such a child. */
static inline void slices_in_child(void) {
  hak_lock_passes = true;
  hak_purge_fork_child();
  hak_lock_passes = false;
  hak_lock_after_fork(&hak_arena.lock, true);
  slices_add_up();
}

#endif
