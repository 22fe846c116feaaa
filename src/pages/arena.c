/* Slices for slabs, runs and huge blocks: take, give back, extend. */
#include "purge.h"

static size_t runs[HAK_CLASS_COUNT - HAK_RUN_FIRST]; /* runs in use, by class; lock: the arena's */

/* Only slabs ask for this length with this alignment. */
static bool is_slab(size_t slices, size_t align) {
  return slices == HAK_SLAB_SLICES && align == HAK_SLAB_SLICES;
}

/* Set the class of a run, and count the run. Huge blocks begin here, too, but are counted elsewhere. */
static void begin_run_locked(void *base, uint32_t cls) {
  if (hak_class_is_run(cls)) {
    runs[cls - HAK_RUN_FIRST]++;
  }
  hak_pagemap_set_class(base, 1, cls);
}

static bool end_run_locked(void *base, uint32_t cls) {
  bool is = hak_pagemap_slice_class(base) == cls;
  if (HAK_LIKELY(is) && hak_class_is_run(cls)) {
    runs[cls - HAK_RUN_FIRST]--;
  }
  if (HAK_LIKELY(is)) {
    hak_pagemap_set_class(base, 1, HAK_CLASS_NONE);
  }
  return is;
}

/* Take free slices without mapping more. They become a run if `cls` is a class. */
static void *take_now(size_t slices, size_t align, uint32_t cls, bool need, bool *zeroed) {
  void *base = NULL;
  bool stocked = hak_chunk_lock_stocked();
  if (!stocked) {
    hak_lock(&hak_arena.lock);
  }
  bool slabs = hak_arena.mthp && is_slab(slices, align);
  hak_place_t place = hak_chunk_find_locked(slices, align, slabs, need);
  hak_chunk_t *fresh = !place.chunk && stocked ? hak_extent_slice_any_locked(slabs) : NULL;
  if (fresh) {
    place = hak_chunk_place_in(fresh, slices, align);
  }
  if (place.chunk) {
    base = place.chunk->base + ((size_t)place.first << HAK_SLICE_SHIFT);
    if (slices > HAK_CHUNK_SLICES / 2 && place.first == 0) {
      place.chunk->tail = (uint8_t)slices;
    }
    hak_chunk_take_locked(place.chunk, place.first, slices, zeroed);
    if (cls != HAK_CLASS_NONE) {
      begin_run_locked(base, cls);
    }
  }
  hak_unlock(&hak_arena.lock);
  return base;
}

static void *take(size_t slices, size_t align, uint32_t cls, bool *zeroed) {
  void *base = NULL;
  /* Slices to map if the system has no memory for a whole chunk. */
  size_t least = align <= HAK_SLAB_SLICES || align < slices ? slices : align;
  *zeroed = true;
  if (!hak_grow_reserve(slices)) {
    return NULL;
  }
  for (bool need = false; !base; need = true) {
    do {
      base = take_now(slices, align, cls, need, zeroed);
    } while (!base && hak_grow(1, HAK_CHUNK_BYTES, least, is_slab(slices, align)));
    if (!base && !need) {
      hak_purge_all(0); /* descriptors, or another range, may need this memory */
    } else if (!base && (slices <= HAK_CHUNK_SLICES / 2 || !hak_unmap_clean(least))) {
      break; /* keep the remaining clean slices of chunks for smaller requests */
    }
  }
  if (!base) {
    hak_grow_unreserve(slices);
  }
  if (HAK_UNLIKELY(hak_retain_is_locked())) {
    hak_purge_after_free(0); /* of a new mapping, the part that exceeds the request */
  }
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
  return (uint32_t)(hak_pagemap_slice(address) & (HAK_CHUNK_SLICES - 1));
}

/* True: a purging step is due. */
static bool put_locked(void *base, size_t slices) {
  hak_chunk_t *chunk = hak_pagemap_chunk(base);
  uint32_t first = slice_in_chunk(base);
  HAK_ASSERT(chunk->state == HAK_CHUNK_SLICED && (chunk->free & hak_mask_of(first, slices)) == 0);
  hak_chunk_give_locked(chunk, first, slices);
  return hak_retain_surplus_locked() > 0;
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
    hak_purge_after_free(slices_of_run(cls));
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
  return hak_lock_read(&hak_arena.lock, &runs[cls - HAK_RUN_FIRST]);
}

void hak_arena_give(void *base, size_t slices) {
  if (hak_arena_put(base, slices)) {
    hak_purge_after_free(slices);
  }
}

bool hak_arena_extend(void *base, size_t slices, size_t more) {
  bool zeroed = true;
  hak_chunk_t *chunk = hak_pagemap_chunk(base);
  size_t first = slice_in_chunk(base) + slices;
  if (first + more > HAK_CHUNK_SLICES || !hak_grow_reserve(more)) {
    return false;
  }
  hak_mask_t mask = hak_mask_of(first, more);
  hak_lock(&hak_arena.lock);
  bool ok = (chunk->free & mask) == mask;
  if (ok) {
    hak_chunk_take_locked(chunk, first, more, &zeroed);
  } else {
    hak_retain_unreserve_locked(more);
  }
  hak_unlock(&hak_arena.lock);
  return ok;
}
