/* Slices of chunks: find, take and give back. Slabs and runs stand above; whole chunks (extent.c) and purging
 * (release.c) stand below. */
#include "arena_internal.h"
#include "options.h"
#include "os.h"

enum { PROBES = 16, DIRTY_PROBES = 4 }; /* chunks to probe before the next list */

hak_arena_t hak_arena = {.lock = HAK_LOCK_INIT};

void hak_arena_count_used_locked(size_t slices, bool up) {
  size_t used = atomic_load_explicit(&hak_arena.used_slices, memory_order_relaxed);
  used = up ? used + slices : used - slices;
  if (up) {
    hak_limit_unreserve_locked(slices);
  }
  atomic_store_explicit(&hak_arena.used_slices, used, memory_order_relaxed);
  hak_retain_use_locked(used);
}

static void relist_run(hak_chunk_t *chunk, uint32_t run) {
  hak_chunk_lists_t *lists = &hak_arena.lists[chunk->for_slabs];
  if (chunk->run == run) {
    return;
  }
  if (chunk->run) {
    *(chunk->prev ? &chunk->prev->next : &lists->runs[chunk->run]) = chunk->next;
    if (chunk->next) {
      chunk->next->prev = chunk->prev;
    }
    if (!lists->runs[chunk->run]) {
      lists->runs_listed &= ~((hak_mask_t)1 << chunk->run);
    }
  }
  chunk->run = (uint8_t)run;
  if (run) {
    chunk->prev = NULL;
    chunk->next = lists->runs[run];
    if (chunk->next) {
      chunk->next->prev = chunk;
    }
    lists->runs[run] = chunk;
    lists->runs_listed |= (hak_mask_t)1 << run;
  }
}

/* `list`: 0 for none, else its number + 1. */
static void relist_dirty(hak_chunk_t *chunk, uint32_t list) {
  hak_chunk_lists_t *lists = &hak_arena.lists[chunk->for_slabs];
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

/* Not inlined, to keep the callers' stack frames small. */
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

void hak_arena_unlist_locked(hak_chunk_t *chunk) {
  relist_run(chunk, 0);
  relist_dirty(chunk, 0);
  hak_arena.dirty_slices -= hak_mask_count(chunk->free & chunk->dirty);
}

/* All of the chunk is free: make it an extent, dirty as a whole. Not inlined, to keep the callers' stack frames
 * small. */
HAK_NOINLINE static void unslice_locked(hak_chunk_t *chunk) {
  size_t dirty = hak_mask_count(chunk->dirty);
  hak_arena_unlist_locked(chunk);
  hak_retain_fetch_locked(dirty > 0 ? HAK_CHUNK_SLICES - dirty : 0, 0);
  hak_extent_t extent = {chunk->base, 1, dirty > 0};
  hak_set_chunk(chunk->base, 1, &hak_chunk_gone); /* once joined with both neighbours, it is no end of an extent */
  hak_chunk_spare_locked(chunk);
  hak_extent_put_locked(extent);
}

void hak_arena_settle_locked(hak_chunk_t *chunk) {
  if (chunk->free == HAK_MASK_ALL && chunk->transit == 0) {
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
static void take_locked(hak_chunk_t *chunk, size_t first, size_t slices, bool *zeroed) {
  hak_mask_t mask = hak_mask_of(first, slices), dirty = chunk->dirty & mask;
  size_t resident = dirty == mask ? slices : hak_mask_count(dirty);
  *zeroed &= dirty == 0;
  hak_arena.dirty_slices -= resident;
  hak_retain_fetch_locked(slices - resident, slices);
  hak_arena_count_used_locked(slices, true);
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
static void give_locked(hak_chunk_t *chunk, size_t first, size_t slices) {
  hak_arena_count_used_locked(slices, false);
  hak_arena.dirty_slices += slices;
  chunk->free |= hak_mask_of(first, slices);
  chunk->tail = (uint8_t)(first < chunk->tail ? first : chunk->tail);
  if (chunk->free == HAK_MASK_ALL) {
    hak_arena_settle_locked(chunk);
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

typedef struct place {
  hak_chunk_t *chunk;
  uint32_t first;
} place_t;

/* Threads fill chunks upwards from a start that is random in each process. Long runs start at the bottom, since few fit
 * in a chunk. */
static uint32_t choose(hak_mask_t starts, size_t slices) {
  enum { LONG = HAK_CHUNK_SLICES / 8 };
  hak_mask_t above = slices < LONG ? starts >> hak_arena.first_slice << hak_arena.first_slice : 0;
  return hak_mask_lowest(above ? above : starts);
}

/* Prefer slices that are resident already, and among them those of the fullest chunks, so that other chunks become
 * empty. */
static place_t find_dirty(const hak_chunk_lists_t *in, size_t slices, hak_mask_t aligned) {
  for (uint32_t lists = in->dirty_listed & ~0U << dirty_list_of(slices); lists; lists &= lists - 1) {
    int probes = DIRTY_PROBES;
    hak_chunk_t *chunk = in->dirty[__builtin_ctz(lists)].first;
    for (; chunk && probes > 0; chunk = chunk->next_dirty, probes--) {
      if (chunk->dirty_run >= slices) {
        hak_mask_t starts = hak_mask_starts(chunk->free & chunk->dirty, slices);
        if (starts & aligned) {
          return (place_t){chunk, choose(starts & aligned, slices)};
        }
        if (!starts) {
          chunk->dirty_run = (uint8_t)(slices - 1);
        }
      }
    }
  }
  return (place_t){NULL, 0};
}

/* Take the shortest run that fits. A run may be long enough and still have no aligned place. */
static place_t find_free(const hak_chunk_lists_t *in, size_t slices, hak_mask_t aligned) {
  hak_mask_t lists = in->runs_listed & ~hak_mask_of(0, slices < HAK_CHUNK_SLICES ? slices : HAK_CHUNK_SLICES - 1);
  while (lists) {
    int probes = PROBES;
    for (hak_chunk_t *chunk = in->runs[hak_mask_lowest(lists)], *next; chunk && probes > 0; chunk = next, probes--) {
      next = chunk->next;
      hak_mask_t starts = hak_mask_starts(chunk->free, slices);
      if (starts & aligned) {
        return (place_t){chunk, choose(starts & aligned, slices)};
      }
      if (!starts) {
        relist_run(chunk, longest_row(chunk->free));
      }
    }
    lists &= lists - 1;
  }
  return (place_t){NULL, 0};
}

/* Use clean slices in chunks of the other kind only when memory is short. */
static place_t find_locked(size_t slices, size_t align, bool slab, bool need) {
  hak_chunk_lists_t *own = &hak_arena.lists[slab], *other = &hak_arena.lists[!slab];
  hak_mask_t aligned = hak_mask_aligned(align);
  place_t place = find_dirty(own, slices, aligned);
  place = place.chunk || !hak_arena.medium ? place : find_dirty(other, slices, aligned);
  place = place.chunk ? place : find_free(own, slices, aligned);
  return place.chunk || !need ? place : find_free(other, slices, aligned);
}

/* Slice a new chunk for the request; this takes descriptors. */
static place_t find_chunk_locked(size_t slices, size_t align, bool slab) {
  place_t place = {hak_extent_slice_locked(), 0};
  if (place.chunk) {
    place.chunk->for_slabs = slab;
    place.first = choose(hak_mask_starts(HAK_MASK_ALL, slices) & hak_mask_aligned(align), slices);
  }
  return place;
}

/* Only slabs ask for this length with this alignment. */
static bool is_slab(size_t slices, size_t align) {
  return slices == HAK_SLAB_SLICES && align == HAK_SLAB_SLICES;
}

/* Also begins huge blocks, which are counted elsewhere. */
static void begin_run_locked(void *base, uint32_t cls) {
  hak_arena.runs[cls] += hak_class_is_run(cls);
  hak_set_class(base, 1, cls);
}

static bool end_run_locked(void *base, uint32_t cls) {
  bool is = hak_class_at(base) == cls;
  if (HAK_LIKELY(is)) {
    hak_arena.runs[cls] -= hak_class_is_run(cls);
    hak_set_class(base, 1, HAK_CLASS_NONE);
  }
  return is;
}

/* Take free slices without mapping more. They become a run if `cls` is a class. */
static void *take_now(size_t slices, size_t align, uint32_t cls, bool need, bool *zeroed) {
  void *base = NULL;
  bool stocked = hak_arena_lock_stocked();
  if (!stocked) {
    hak_lock(&hak_arena.lock);
  }
  bool slab = hak_arena.medium && is_slab(slices, align);
  place_t place = find_locked(slices, align, slab, need);
  if (!place.chunk && stocked) {
    place = find_chunk_locked(slices, align, slab);
  }
  if (place.chunk) {
    base = place.chunk->base + ((size_t)place.first << HAK_SLICE_SHIFT);
    if (slices > HAK_CHUNK_SLICES / 2 && place.first == 0) {
      place.chunk->tail = (uint8_t)slices;
    }
    take_locked(place.chunk, place.first, slices, zeroed);
    if (cls != HAK_CLASS_NONE) {
      begin_run_locked(base, cls);
    }
  }
  hak_unlock(&hak_arena.lock);
  return base;
}

static void *take(size_t slices, size_t align, uint32_t cls, bool *zeroed) {
  void *base = NULL;
  size_t least = align <= HAK_SLAB_SLICES || align < slices ? slices : align; /* mapped if no chunk can be */
  *zeroed = true;
  if (!hak_limit_reserve(slices)) {
    return NULL;
  }
  for (bool need = false; !base; need = true) {
    do {
      base = take_now(slices, align, cls, need, zeroed);
    } while (!base && hak_extent_grow(1, HAK_CHUNK_BYTES, least, is_slab(slices, align)));
    if (!base && !need) {
      hak_arena_purge(0); /* descriptors, or another range, may need this memory */
    } else if (!base && (slices <= HAK_CHUNK_SLICES / 2 || !hak_unmap_rest(least))) {
      break; /* keep the remaining clean slices of chunks for smaller requests */
    }
  }
  if (!base) {
    hak_limit_unreserve(slices);
  }
  hak_release_after_take(false);
  return base;
}

void *hak_arena_take(size_t slices, size_t align, bool *zeroed) {
  return take(slices, align, HAK_CLASS_NONE, zeroed);
}

static size_t slices_of_run(uint32_t cls) {
  return hak_class_sizes[cls] >> HAK_SLICE_SHIFT;
}

void *hak_arena_take_run(uint32_t cls, size_t align, bool *zeroed) {
  return take(slices_of_run(cls), align, cls, zeroed);
}

static uint32_t slice_in_chunk(const void *address) {
  return (uint32_t)(hak_slice_of(address) & (HAK_CHUNK_SLICES - 1));
}

/* True: a purging step is due. */
static bool put_locked(void *base, size_t slices) {
  hak_chunk_t *chunk = hak_chunk_at(base);
  uint32_t first = slice_in_chunk(base);
  HAK_ASSERT(chunk->state == HAK_CHUNK_SLICED && (chunk->free & hak_mask_of(first, slices)) == 0);
  give_locked(chunk, first, slices);
  return hak_release_due_locked();
}

bool hak_arena_put(void *base, size_t slices) {
  hak_lock(&hak_arena.lock);
  bool due = put_locked(base, slices);
  hak_unlock(&hak_arena.lock);
  return due;
}

bool hak_arena_give_run(void *base, uint32_t cls) {
  hak_lock(&hak_arena.lock);
  bool is = end_run_locked(base, cls), due = is && put_locked(base, slices_of_run(cls));
  hak_unlock(&hak_arena.lock);
  if (due) {
    hak_release_after_give(slices_of_run(cls));
  }
  return is;
}

void hak_arena_turn_run(void *base, uint32_t cls, uint32_t other) {
  hak_lock(&hak_arena.lock);
  end_run_locked(base, cls);
  begin_run_locked(base, other);
  hak_unlock(&hak_arena.lock);
}

size_t hak_arena_runs(uint32_t cls) {
  return hak_lock_read(&hak_arena.lock, &hak_arena.runs[cls]);
}

void hak_arena_give(void *base, size_t slices) {
  if (hak_arena_put(base, slices)) {
    hak_release_after_give(slices);
  }
}

bool hak_arena_extend(void *base, size_t slices, size_t more) {
  bool zeroed = true;
  hak_chunk_t *chunk = hak_chunk_at(base);
  size_t first = slice_in_chunk(base) + slices;
  if (first + more > HAK_CHUNK_SLICES || !hak_limit_reserve(more)) {
    return false;
  }
  hak_mask_t mask = hak_mask_of(first, more);
  hak_lock(&hak_arena.lock);
  bool ok = (chunk->free & mask) == mask;
  if (ok) {
    take_locked(chunk, first, more, &zeroed);
  } else {
    hak_limit_unreserve_locked(more);
  }
  hak_unlock(&hak_arena.lock);
  return ok;
}

size_t hak_arena_used_slices(void) {
  return atomic_load_explicit(&hak_arena.used_slices, memory_order_relaxed);
}
