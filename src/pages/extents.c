/* Extents: free chunks beside each other. They join when they are listed, and split when they are taken. */
#include "chunks.h"

static uint32_t list_of(size_t chunks) {
  return 63 - (uint32_t)__builtin_clzll(chunks);
}

static size_t *count_of(hak_extent_t extent) {
  return extent.dirty ? &hak_arena.dirty_slices : &hak_arena.clean_extent_slices;
}

hak_extent_t hak_extent_cut_locked(hak_chunk_t *first) {
  hak_chunk_t *last = first->mate;
  hak_extent_t extent = {first->base, first->chunks, first->dirty != 0, first->zeros};
  uint32_t list = list_of(extent.chunks);
  hak_chunk_t **head = &hak_placement.extents[extent.dirty][list];
  HAK_LIST_REMOVE(*head, first, next, prev);
  if (!*head) {
    hak_placement.extents_listed[extent.dirty] &= ~(1U << list);
  }
  *count_of(extent) -= extent.chunks * HAK_CHUNK_SLICES;
  hak_pagemap_set_chunk(first->base, 1, &hak_chunk_gone);
  hak_pagemap_set_chunk(last->base, 1, &hak_chunk_gone);
  if (last != first) {
    hak_chunk_spare_locked(last);
  }
  hak_chunk_spare_locked(first);
  return extent;
}

/* Absorb the extent that ends or begins at `there`, if it is of the same kind. */
static void join_locked(hak_extent_t *extent, const char *there) {
  hak_chunk_t *chunk = hak_pagemap_chunk(there);
  if (chunk && chunk->state == HAK_CHUNK_FREE && (chunk->dirty != 0) == extent->dirty) {
    hak_extent_t other = hak_extent_cut_locked(chunk->base < chunk->mate->base ? chunk : chunk->mate);
    extent->base = other.base < extent->base ? other.base : extent->base;
    extent->chunks += other.chunks;
  }
}

void hak_extent_put_locked(hak_extent_t extent) {
  if (extent.chunks == 0) {
    return;
  }
  join_locked(&extent, extent.base - HAK_CHUNK_BYTES);
  join_locked(&extent, extent.base + (extent.chunks << HAK_CHUNK_SHIFT));
  hak_chunk_t *first = hak_chunk_new_locked(extent.base, HAK_CHUNK_FREE), *last = first;
  if (extent.chunks > 1) {
    last = hak_chunk_new_locked(extent.base + ((extent.chunks - 1) << HAK_CHUNK_SHIFT), HAK_CHUNK_FREE);
  }
  first->mate = last;
  last->mate = first;
  first->chunks = last->chunks = extent.chunks;
  first->free = last->free = HAK_MASK_ALL;
  first->zeros = extent.chunks == 1 ? extent.zeros : 0;
  first->dirty = last->dirty = extent.dirty ? HAK_MASK_ALL : 0;
  hak_pagemap_set_chunk(first->base, 1, first);
  hak_pagemap_set_chunk(last->base, 1, last);
  uint32_t list = list_of(extent.chunks);
  HAK_LIST_PUSH(hak_placement.extents[extent.dirty][list], first, next, prev);
  hak_placement.extents_listed[extent.dirty] |= 1U << list;
  *count_of(extent) += extent.chunks * HAK_CHUNK_SLICES;
  atomic_store_explicit(&hak_arena.low_memory, false, memory_order_relaxed);
}

hak_chunk_t *hak_extent_behind(const hak_chunk_t *first, size_t tail) {
  hak_chunk_t *behind = hak_pagemap_chunk(first->base + (first->chunks << HAK_CHUNK_SHIFT));
  hak_mask_t mask = hak_mask_of(0, tail);
  bool has = behind && behind->state == HAK_CHUNK_SLICED && !behind->for_slabs && (behind->free & mask) == mask;
  return has ? behind : NULL;
}

/* Number of chunks to skip in the extent before an aligned range of `chunks` fits; SIZE_MAX: none fits. With a tail,
 * the range ends at the extent's end, so that the tail lies in the chunk behind. */
static size_t offset_in(const hak_chunk_t *first, size_t chunks, size_t tail, size_t align) {
  if (tail > 0) {
    return chunks <= first->chunks && hak_extent_behind(first, tail) ? first->chunks - chunks : SIZE_MAX;
  }
  size_t skip = (-(uintptr_t)first->base & (align - 1)) >> HAK_CHUNK_SHIFT;
  return skip + chunks <= first->chunks ? skip : SIZE_MAX;
}

/* Extents in the list of this size may be too short. Those in the lists of larger sizes are long enough, but alignment
 * or the tail may still rule one out. */
hak_chunk_t *hak_extent_find_locked(bool dirty, size_t chunks, size_t tail, size_t align, size_t *offset) {
  enum { PROBES = 16 };
  uint32_t lists =
      list_of(chunks) < HAK_EXTENT_LISTS ? hak_placement.extents_listed[dirty] & ~0U << list_of(chunks) : 0;
  for (; lists; lists &= lists - 1) {
    int probes = PROBES;
    hak_chunk_t *first = hak_placement.extents[dirty][__builtin_ctz(lists)], *best = NULL;
    for (; first && probes > 0; first = first->next, probes--) {
      size_t skip = offset_in(first, chunks, tail, align);
      if (skip != SIZE_MAX && (!best || first->chunks < best->chunks)) {
        best = first;
        *offset = skip;
      }
    }
    if (best) {
      return best;
    }
  }
  return NULL;
}

hak_extent_t hak_extent_take_locked(hak_chunk_t *first, size_t offset, size_t chunks) {
  hak_extent_t all = hak_extent_cut_locked(first), before = all, part = all, behind = all;
  before.chunks = offset;
  part.base += offset << HAK_CHUNK_SHIFT;
  part.chunks = chunks;
  behind.base = part.base + (chunks << HAK_CHUNK_SHIFT);
  behind.chunks = all.chunks - offset - chunks;
  hak_extent_put_locked(before);
  hak_extent_put_locked(behind);
  return part;
}

hak_chunk_t *hak_extent_slice_locked(hak_extent_t extent) {
  hak_chunk_t *chunk = hak_chunk_new_locked(extent.base, HAK_CHUNK_SLICED);
  chunk->free = HAK_MASK_ALL;
  chunk->free_slices = HAK_CHUNK_SLICES;
  chunk->dirty_run = extent.dirty ? HAK_CHUNK_SLICES : 0;
  chunk->dirty = extent.dirty ? HAK_MASK_ALL : 0;
  chunk->zeros = extent.zeros;
  hak_arena.dirty_slices += extent.dirty ? HAK_CHUNK_SLICES : 0;
  hak_pagemap_set_chunk(chunk->base, 1, chunk);
  return chunk;
}

hak_chunk_t *hak_extent_slice_any_locked(bool for_slabs) {
  size_t offset;
  hak_chunk_t *first = hak_extent_find_locked(true, 1, 0, HAK_CHUNK_BYTES, &offset);
  first = first ? first : hak_extent_find_locked(false, 1, 0, HAK_CHUNK_BYTES, &offset);
  hak_chunk_t *chunk = first ? hak_extent_slice_locked(hak_extent_take_locked(first, offset, 1)) : NULL;
  if (chunk) {
    chunk->for_slabs = for_slabs;
  }
  return chunk;
}
