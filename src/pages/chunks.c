/* Placement of slices in SLICED chunks: the lists, the search, and the changes to a chunk when slices come and go. */
#include "chunks.h"

enum { PROBES = 16, DIRTY_PROBES = 4 }; /* chunks to probe before the next list */

hak_placement_t hak_placement;

static void relist_run(hak_chunk_t *chunk, uint32_t run) {
  hak_chunk_lists_t *lists = &hak_placement.lists[chunk->for_slabs];
  if (chunk->run == run) {
    return;
  }
  if (chunk->run) {
    HAK_LIST_REMOVE(lists->runs[chunk->run], chunk, next, prev);
    if (!lists->runs[chunk->run]) {
      lists->runs_listed &= ~((hak_mask_t)1 << chunk->run);
    }
  }
  chunk->run = (uint8_t)run;
  if (run) {
    HAK_LIST_PUSH(lists->runs[run], chunk, next, prev);
    lists->runs_listed |= (hak_mask_t)1 << run;
  }
}

/* `list`: 0 for none, else its number + 1. */
static void relist_dirty(hak_chunk_t *chunk, uint32_t list) {
  hak_chunk_lists_t *lists = &hak_placement.lists[chunk->for_slabs];
  if (chunk->dirty_list == list) {
    return;
  }
  if (chunk->dirty_list) {
    uint32_t was = chunk->dirty_list - 1U;
    *(chunk->prev_dirty ? &chunk->prev_dirty->next_dirty : &lists->dirty[was].first) = chunk->next_dirty;
    *(chunk->next_dirty ? &chunk->next_dirty->prev_dirty : &lists->dirty[was].last) = chunk->prev_dirty;
    lists->dirty_listed &= ~((uint32_t)!lists->dirty[was].first << was);
  }
  chunk->dirty_list = (uint8_t)list;
  if (list) {
    chunk->prev_dirty = NULL;
    chunk->next_dirty = lists->dirty[list - 1].first;
    *(chunk->next_dirty ? &chunk->next_dirty->prev_dirty : &lists->dirty[list - 1].last) = chunk;
    lists->dirty[list - 1].first = chunk;
    lists->dirty_listed |= 1U << (list - 1);
  }
}

HAK_NOINLINE static uint32_t longest_row(hak_mask_t mask) {
  return hak_mask_longest(mask);
}

static uint32_t dirty_list_of(size_t free_slices) {
  return (uint32_t)free_slices * HAK_DIRTY_LISTS / (HAK_CHUNK_SLICES + 1);
}

/* The tail of a huge block counts as free. Slices beside it then fill this chunk late, so it can become whole when the
 * block is freed. */
static void list_dirty(hak_chunk_t *chunk) {
  uint32_t list = dirty_list_of((size_t)chunk->free_slices + chunk->tail);
  relist_dirty(chunk, chunk->free & chunk->dirty ? list + 1 : 0);
}

void hak_chunk_unlist_locked(hak_chunk_t *chunk) {
  relist_run(chunk, 0);
  relist_dirty(chunk, 0);
  hak_arena.dirty_slices -= hak_mask_count(chunk->free & chunk->dirty);
}

/* All of the chunk is free: make it an extent, dirty as a whole. */
HAK_NOINLINE static void unslice_locked(hak_chunk_t *chunk) {
  size_t dirty = hak_mask_count(chunk->dirty);
  hak_chunk_unlist_locked(chunk);
  hak_retain_fetch_locked(dirty > 0 ? HAK_CHUNK_SLICES - dirty : 0, 0);
  hak_extent_t extent = {chunk->base, 1, dirty > 0, ~chunk->dirty | chunk->zeros};
  hak_pagemap_set_chunk(chunk->base, 1,
                        &hak_chunk_gone); /* once joined with both neighbours, it is no end of an extent */
  hak_chunk_spare_locked(chunk);
  hak_extent_put_locked(extent);
}

void hak_chunk_list_locked(hak_chunk_t *chunk) {
  if (chunk->free == HAK_MASK_ALL && chunk->purging == 0) {
    unslice_locked(chunk);
    return;
  }
  hak_mask_t dirty = chunk->free & chunk->dirty;
  chunk->free_slices = (uint8_t)hak_mask_count(chunk->free);
  chunk->dirty_run = (uint8_t)longest_row(dirty);
  relist_run(chunk, longest_row(chunk->free));
  list_dirty(chunk);
}

/* The chunk may stay in the list of a longer run than it has left; a later search corrects that. */
void hak_chunk_take_locked(hak_chunk_t *chunk, size_t first, size_t slices, bool *zeroed) {
  hak_mask_t mask = hak_mask_of(first, slices), dirty = chunk->dirty & mask;
  size_t resident = dirty == mask ? slices : hak_mask_count(dirty);
  *zeroed &= (dirty & ~chunk->zeros) == 0;
  chunk->zeros &= ~mask;
  hak_arena.dirty_slices -= resident;
  hak_retain_fetch_locked(slices - resident, slices);
  hak_retain_count_used_locked(slices, true);
  chunk->free &= ~mask;
  chunk->free_slices = (uint8_t)(chunk->free_slices - slices);
  chunk->dirty |= mask;
  chunk->purged &= ~mask;
  if (chunk->free == 0) {
    relist_run(chunk, 0);
  } else if (chunk->run == 0) { /* the chunk was all free before */
    relist_run(chunk, longest_row(chunk->free));
  }
  list_dirty(chunk);
}

/* A give can lengthen only the run that it is part of. */
void hak_chunk_give_locked(hak_chunk_t *chunk, size_t first, size_t slices) {
  hak_retain_count_used_locked(slices, false);
  hak_arena.dirty_slices += slices;
  chunk->free |= hak_mask_of(first, slices);
  chunk->tail = (uint8_t)(first < chunk->tail ? first : chunk->tail);
  if (chunk->free == HAK_MASK_ALL) {
    hak_chunk_list_locked(chunk);
    return;
  }
  chunk->free_slices = (uint8_t)(chunk->free_slices + slices);
  uint32_t run = hak_mask_row_around(chunk->free, first);
  uint32_t dirty_run = hak_mask_row_around(chunk->free & chunk->dirty, first);
  chunk->dirty_run = (uint8_t)(chunk->dirty_run > dirty_run ? chunk->dirty_run : dirty_run);
  if (run > chunk->run) {
    relist_run(chunk, run);
  }
  if (chunk->prev_dirty) {
    relist_dirty(chunk, 0); /* so that it goes to the front */
  }
  list_dirty(chunk);
}

/* Threads fill chunks upwards from a start that is random in each process. Long runs start at the bottom, since few fit
 * in a chunk. */
static uint32_t choose(hak_mask_t starts, size_t slices) {
  enum { LONG = HAK_CHUNK_SLICES / 8 };
  hak_mask_t above = slices < LONG ? starts >> hak_placement.first_slice << hak_placement.first_slice : 0;
  return hak_mask_lowest(above ? above : starts);
}

/* Prefer slices that are resident already, and among them those of the fullest chunks, so that other chunks become
 * empty. */
static hak_place_t find_dirty(const hak_chunk_lists_t *in, size_t slices, hak_mask_t aligned) {
  for (uint32_t lists = in->dirty_listed & ~0U << dirty_list_of(slices); lists; lists &= lists - 1) {
    int probes = DIRTY_PROBES;
    hak_chunk_t *chunk = in->dirty[__builtin_ctz(lists)].first;
    for (; chunk && probes > 0; chunk = chunk->next_dirty, probes--) {
      if (chunk->dirty_run >= slices) {
        hak_mask_t starts = hak_mask_starts(chunk->free & chunk->dirty, slices);
        if (starts & aligned) {
          return (hak_place_t){chunk, choose(starts & aligned, slices)};
        }
        if (!starts) {
          chunk->dirty_run = (uint8_t)(slices - 1);
        }
      }
    }
  }
  return (hak_place_t){NULL, 0};
}

/* Take the shortest run that fits. A run may be long enough and still have no aligned place. */
static hak_place_t find_free(const hak_chunk_lists_t *in, size_t slices, hak_mask_t aligned) {
  hak_mask_t lists = in->runs_listed & ~hak_mask_of(0, slices < HAK_CHUNK_SLICES ? slices : HAK_CHUNK_SLICES - 1);
  while (lists) {
    int probes = PROBES;
    for (hak_chunk_t *chunk = in->runs[hak_mask_lowest(lists)], *next; chunk && probes > 0; chunk = next, probes--) {
      next = chunk->next;
      hak_mask_t starts = hak_mask_starts(chunk->free, slices);
      if (starts & aligned) {
        return (hak_place_t){chunk, choose(starts & aligned, slices)};
      }
      if (!starts) {
        relist_run(chunk, longest_row(chunk->free));
      }
    }
    lists &= lists - 1;
  }
  return (hak_place_t){NULL, 0};
}

hak_place_t hak_chunk_find_locked(size_t slices, size_t align, bool for_slabs, bool any) {
  hak_chunk_lists_t *own = &hak_placement.lists[for_slabs], *other = &hak_placement.lists[!for_slabs];
  hak_mask_t aligned = hak_mask_aligned(align);
  hak_place_t place = find_dirty(own, slices, aligned);
  place = place.chunk || !hak_arena.mthp ? place : find_dirty(other, slices, aligned);
  place = place.chunk ? place : find_free(own, slices, aligned);
  return place.chunk || !any ? place : find_free(other, slices, aligned);
}

hak_place_t hak_chunk_place_in(hak_chunk_t *chunk, size_t slices, size_t align) {
  return (hak_place_t){chunk, choose(hak_mask_starts(HAK_MASK_ALL, slices) & hak_mask_aligned(align), slices)};
}
