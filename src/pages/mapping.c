/* Maps memory at addresses that were used before, else below all others, and lists slices of it. */
#include "mapping.h"

enum { SCATTER_CHUNKS = 1024 }; /* the first chunk lies at random within this range below the kernel's choice */

hak_address_space_t hak_mapping;

void hak_mapping_count_locked(size_t slices) {
  hak_arena.mapped_slices += slices;
  hak_arena.mapped_ever += slices;
}

extern const bool hak_never_unloaded __attribute__((weak));

/* Where the kernel would put a chunk. The shared library itself lies near that place, among the kernel's mappings. */
static char *kernels_place(void) {
  if (&hak_never_unloaded) {
    return (char *)((uintptr_t)&hak_mapping &
                    ~(uintptr_t)(HAK_CHUNK_BYTES - 1)); /* NOLINT(performance-no-int-to-ptr) */
  }
  char *near = hak_os_map_aligned(NULL, HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  if (near) {
    hak_os_unmap_unused(near, HAK_CHUNK_BYTES);
  }
  return near;
}

/* Choose a random place below the address where the kernel would put the first chunk. */
static void choose_first_place(void) {
  uint64_t random = hak_os_random();
  char *near = kernels_place();
  if (near) {
    hak_lock(&hak_arena.lock);
    hak_mapping.hint = near - ((random % SCATTER_CHUNKS) << HAK_CHUNK_SHIFT);
    if (hak_arena.mapped_ever == 0) { /* another thread may be here, too */
      hak_placement.first_slice = (uint32_t)(random >> 32) % HAK_CHUNK_SLICES;
      hak_first_slab = (hak_placement.first_slice + HAK_SLAB_SLICES - 1) / HAK_SLAB_SLICES;
    }
    hak_unlock(&hak_arena.lock);
  }
}

/* Map unmapped places again, so that a program in a steady state stays within its address range. They are only hints:
 * the kernel decides whether they are still free. */
void hak_mapping_remember_locked(char *base, size_t bytes) {
  hak_range_t *least = hak_mapping.unmapped;
  for (hak_range_t *place = hak_mapping.unmapped; place < hak_mapping.unmapped + HAK_UNMAPPED_RANGES; place++) {
    if (place->bytes && (place->base + place->bytes == base || base + bytes == place->base)) {
      base = place->base < base ? place->base : base;
      bytes += place->bytes;
      place->bytes = 0;
    }
    least = place->bytes < least->bytes ? place : least;
  }
  size_t lost = bytes < least->bytes ? bytes : least->bytes;
  hak_mapping.lost_bytes += lost;
  if (lost < bytes) {
    *least = (hak_range_t){base, bytes};
  }
}

/* Returns the end part of the smallest place that fits. NULL: there is none. */
static char *recall_locked(size_t bytes, size_t align) {
  hak_range_t *best = NULL;
  char *found = NULL;
  for (hak_range_t *place = hak_mapping.unmapped; place < hak_mapping.unmapped + HAK_UNMAPPED_RANGES; place++) {
    if (place->bytes >= bytes && (!best || place->bytes < best->bytes)) {
      size_t offset = place->bytes - bytes, over = ((uintptr_t)place->base + offset) & (align - 1);
      if (offset >= over) {
        best = place;
        found = place->base + offset - over;
      }
    }
  }
  if (best) {
    char *end = best->base + best->bytes, *behind = found + bytes;
    best->bytes = (size_t)(found - best->base);
    if (behind < end) {
      hak_mapping_remember_locked(behind, (size_t)(end - behind));
    }
  }
  return found;
}

/* Choose the address hint. *recalled: it is a place that was unmapped earlier. NULL: the kernel may reuse forgotten
 * addresses. */
HAK_NOINLINE static char *choose_place(size_t bytes, size_t align, bool *recalled) {
  hak_lock(&hak_arena.lock);
  if (!hak_mapping.hint) {
    hak_unlock(&hak_arena.lock);
    choose_first_place();
    hak_lock(&hak_arena.lock);
  }
  char *place = recall_locked(bytes, align), *hint = hak_mapping.lost_bytes < bytes ? hak_mapping.hint : NULL;
  hak_unlock(&hak_arena.lock);
  size_t below = bytes + (((uintptr_t)hint - bytes) & (align - 1));
  *recalled = place != NULL;
  return place || (uintptr_t)hint <= below ? place : hint - below;
}

/* Record the outcome of a mapping at `base`, which may differ from the hint. NULL: the mapping failed. */
HAK_NOINLINE static void record_place(char *base, size_t bytes, const char *place, bool recalled) {
  hak_lock(&hak_arena.lock);
  if (recalled && base != place) {
    hak_mapping.lost_bytes += bytes; /* another mapping is there */
  } else if (!place) {
    hak_mapping.lost_bytes -= bytes < hak_mapping.lost_bytes ? bytes : hak_mapping.lost_bytes;
  } else if (!recalled && base) {
    hak_mapping.hint = base;
  }
  hak_unlock(&hak_arena.lock);
}

char *hak_mapping_new(size_t bytes, size_t align, bool for_slabs) {
  bool recalled;
  char *place = choose_place(bytes, align, &recalled), *base = hak_os_map_aligned(place, bytes, align);
  record_place(base, bytes, place, recalled);
  if (base) {
    hak_huge_pages_advise(base, bytes, for_slabs);
  }
  return base;
}

bool hak_mapping_lock(char *base, size_t bytes) {
  bool ok = base && hak_pagemap_cover(base, bytes) && hak_chunk_lock_stocked();
  if (base && !ok) {
    hak_os_unmap_unused(base, bytes);
  }
  return ok;
}

/* Add slices of one chunk, which may have other slices already. */
static void put_slices_locked(char *base, size_t slices) {
  char *chunk_base = base - ((uintptr_t)base & (HAK_CHUNK_BYTES - 1));
  hak_chunk_t *chunk = hak_pagemap_chunk(base);
  if (!chunk || chunk->state != HAK_CHUNK_SLICED) {
    chunk = hak_chunk_new_locked(chunk_base, HAK_CHUNK_SLICED);
    chunk->present = 0;
    hak_pagemap_set_chunk(chunk_base, 1, chunk);
  }
  hak_mask_t mask = hak_mask_of((size_t)(base - chunk_base) >> HAK_SLICE_SHIFT, slices);
  chunk->present |= mask;
  chunk->free |= mask;
  hak_chunk_list_locked(chunk);
}

bool hak_mapping_list_slices(char *base, size_t slices) {
  if (!hak_mapping_lock(base, slices << HAK_SLICE_SHIFT)) {
    return false;
  }
  hak_mapping_count_locked(slices);
  put_slices_locked(base, slices);
  hak_unlock(&hak_arena.lock);
  return true;
}

/* The system has no memory for a whole chunk, under a limit or because all mapped memory is locked. Map only what is
 * needed, within one chunk. Prefer the place above the last such range, since each further chunk costs descriptors. */
bool hak_mapping_slices(size_t slices) {
  size_t page = hak_os_page_bytes(), bytes = page > HAK_SLICE_BYTES ? page : HAK_SLICE_BYTES;
  while (bytes < slices << HAK_SLICE_SHIFT) {
    bytes *= 2;
  }
  size_t align = bytes > HAK_SLAB_BYTES ? bytes : HAK_SLAB_BYTES;
  char *end = atomic_load_explicit(&hak_mapping.part_end, memory_order_relaxed);
  char *hint = end ? end + (-(uintptr_t)end & (align - 1)) : hak_os_find_gap(HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  char *base = hak_os_map_aligned(hint, bytes, align);
  if (!hak_mapping_list_slices(base, bytes >> HAK_SLICE_SHIFT)) {
    return false;
  }
  atomic_store_explicit(&hak_mapping.part_end, base + bytes, memory_order_relaxed);
  return true;
}

bool hak_mapping_is_low(void) {
  return atomic_load_explicit(&hak_arena.low_memory, memory_order_relaxed);
}
