/* Extents of free chunks, and the huge blocks that are made of them. arena.c and huge.c stand above; grow.c maps
 * more. */
#include "arena_internal.h"
#include "meta.h"

enum { STOCK = 8 }; /* descriptors that one change of the lists may need at most */

/* Descriptors */

static bool is_stocked_locked(void) {
  return hak_arena.spare_chunks_count >= STOCK && hak_arena.spare_slabs_count >= 1;
}

static void add_spare_slabs_locked(hak_slabs_t *slabs) {
  slabs->next_spare = hak_arena.spare_slabs;
  hak_arena.spare_slabs = slabs;
  hak_arena.spare_slabs_count++;
}

void hak_chunk_spare_locked(hak_chunk_t *chunk) {
  if (chunk->slabs) {
    add_spare_slabs_locked(chunk->slabs);
  }
  *chunk = (hak_chunk_t){.state = HAK_CHUNK_SPARE, .next = hak_arena.spare_chunks};
  hak_arena.spare_chunks = chunk;
  hak_arena.spare_chunks_count++;
}

hak_chunk_t *hak_chunk_hold_locked(size_t count) {
  hak_chunk_t *held = NULL;
  for (; count > 0; count--) {
    hak_chunk_t *chunk = hak_arena.spare_chunks;
    hak_arena.spare_chunks = chunk->next;
    hak_arena.spare_chunks_count--;
    chunk->next = held;
    held = chunk;
  }
  return held;
}

static bool stock(void) {
  bool chunks = false;
  for (void *fresh = NULL;;) {
    hak_lock(&hak_arena.lock);
    if (fresh && chunks) {
      add_spare_slabs_locked(fresh);
    } else if (fresh) {
      hak_chunk_spare_locked(fresh);
    }
    bool enough = is_stocked_locked();
    chunks = hak_arena.spare_chunks_count >= STOCK;
    hak_unlock(&hak_arena.lock);
    fresh = enough ? NULL : hak_meta_alloc(chunks ? sizeof(hak_slabs_t) : sizeof(hak_chunk_t));
    if (!fresh) {
      return enough;
    }
  }
}

bool hak_arena_lock_stocked(void) {
  for (;;) {
    hak_lock(&hak_arena.lock);
    if (is_stocked_locked()) {
      return true;
    }
    hak_unlock(&hak_arena.lock);
    if (!stock()) {
      return false;
    }
  }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the descriptor keeps it */
hak_chunk_t *hak_chunk_new_locked(char *base, hak_chunk_state_t state) {
  hak_chunk_t *chunk = hak_chunk_hold_locked(1);
  *chunk = (hak_chunk_t){.base = base, .state = (uint8_t)state, .present = HAK_MASK_ALL};
  if (state == HAK_CHUNK_SLICED) {
    chunk->slabs = hak_arena.spare_slabs;
    hak_arena.spare_slabs = chunk->slabs->next_spare;
    hak_arena.spare_slabs_count--;
  }
  return chunk;
}

/* Extents */

static uint32_t list_of(size_t chunks) {
  return 63 - (uint32_t)__builtin_clzll(chunks);
}

static size_t *count_of(hak_extent_t extent) {
  return extent.dirty ? &hak_arena.dirty_slices : &hak_arena.clean_extent_slices;
}

hak_extent_t hak_extent_cut_locked(hak_chunk_t *first) {
  hak_chunk_t *last = first->mate;
  hak_extent_t extent = {first->base, first->chunks, first->dirty != 0};
  uint32_t list = list_of(extent.chunks);
  hak_chunk_t **head = &hak_arena.extents[extent.dirty][list];
  *(first->prev ? &first->prev->next : head) = first->next;
  if (first->next) {
    first->next->prev = first->prev;
  }
  if (!*head) {
    hak_arena.extents_listed[extent.dirty] &= ~(1U << list);
  }
  *count_of(extent) -= extent.chunks * HAK_CHUNK_SLICES;
  hak_set_chunk(first->base, 1, &hak_chunk_gone);
  hak_set_chunk(last->base, 1, &hak_chunk_gone);
  if (last != first) {
    hak_chunk_spare_locked(last);
  }
  hak_chunk_spare_locked(first);
  return extent;
}

/* Absorb the extent that ends or begins there, if it is of the same kind. */
static void join_locked(hak_extent_t *extent, const char *there) {
  hak_chunk_t *chunk = hak_chunk_at(there);
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
  first->dirty = last->dirty = extent.dirty ? HAK_MASK_ALL : 0;
  hak_set_chunk(first->base, 1, first);
  hak_set_chunk(last->base, 1, last);
  uint32_t list = list_of(extent.chunks);
  first->next = hak_arena.extents[extent.dirty][list];
  if (first->next) {
    first->next->prev = first;
  }
  hak_arena.extents[extent.dirty][list] = first;
  hak_arena.extents_listed[extent.dirty] |= 1U << list;
  *count_of(extent) += extent.chunks * HAK_CHUNK_SLICES;
  atomic_store_explicit(&hak_arena.tight, false, memory_order_relaxed);
}

/* The chunk directly behind an extent, if it is sliced and its first `tail` slices are free. */
static hak_chunk_t *shared_behind(const hak_chunk_t *first, size_t tail) {
  hak_chunk_t *behind = hak_chunk_at(first->base + (first->chunks << HAK_CHUNK_SHIFT));
  hak_mask_t mask = hak_mask_of(0, tail);
  bool has = behind && behind->state == HAK_CHUNK_SLICED && !behind->for_slabs && (behind->free & mask) == mask;
  return has ? behind : NULL;
}

/* Number of chunks to skip in the extent before an aligned range of `chunks` fits; SIZE_MAX: none fits. With a tail,
 * the range ends at the extent's end, so that the tail lies in the chunk behind. */
static size_t offset_in(const hak_chunk_t *first, size_t chunks, size_t tail, size_t align) {
  if (tail > 0) {
    return chunks <= first->chunks && shared_behind(first, tail) ? first->chunks - chunks : SIZE_MAX;
  }
  size_t skip = (-(uintptr_t)first->base & (align - 1)) >> HAK_CHUNK_SHIFT;
  return skip + chunks <= first->chunks ? skip : SIZE_MAX;
}

/* Extents in the list of this size may be too short. Those in the lists above are long enough, but alignment or the
 * tail may still rule one out. */
static hak_chunk_t *find_extent(bool dirty, size_t chunks, size_t tail, size_t align, size_t *offset) {
  enum { PROBES = 16 };
  uint32_t lists = list_of(chunks) < HAK_EXTENT_LISTS ? hak_arena.extents_listed[dirty] & ~0U << list_of(chunks) : 0;
  for (; lists; lists &= lists - 1) {
    int probes = PROBES;
    hak_chunk_t *first = hak_arena.extents[dirty][__builtin_ctz(lists)], *best = NULL;
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

/* Take a part of an extent out, and put the remainder back into the lists. */
static hak_extent_t take_part_locked(hak_chunk_t *first, size_t offset, size_t chunks) {
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

/* Make the chunk SLICED, with every slice free, in no list. */
static hak_chunk_t *slice_locked(hak_extent_t extent) {
  hak_chunk_t *chunk = hak_chunk_new_locked(extent.base, HAK_CHUNK_SLICED);
  chunk->free = HAK_MASK_ALL;
  chunk->free_slices = HAK_CHUNK_SLICES;
  chunk->dirty_run = extent.dirty ? HAK_CHUNK_SLICES : 0;
  chunk->dirty = extent.dirty ? HAK_MASK_ALL : 0;
  hak_arena.dirty_slices += extent.dirty ? HAK_CHUNK_SLICES : 0;
  hak_set_chunk(chunk->base, 1, chunk);
  return chunk;
}

hak_chunk_t *hak_extent_slice_locked(void) {
  size_t offset;
  hak_chunk_t *first = find_extent(true, 1, 0, HAK_CHUNK_BYTES, &offset);
  first = first ? first : find_extent(false, 1, 0, HAK_CHUNK_BYTES, &offset);
  return first ? slice_locked(take_part_locked(first, offset, 1)) : NULL;
}

/* Huge blocks */

/* Give a huge block the first `tail` slices of a chunk. */
static void take_tail_locked(hak_chunk_t *chunk, size_t tail) {
  hak_mask_t mask = hak_mask_of(0, tail);
  size_t resident = hak_mask_count(chunk->dirty & mask);
  hak_arena.dirty_slices -= resident;
  hak_retain_fetch_locked(tail - resident, tail);
  chunk->free &= ~mask;
  chunk->dirty |= mask;
  chunk->purged &= ~mask;
  chunk->tail = (uint8_t)tail;
  hak_arena_settle_locked(chunk);
}

/* A growing block gets a clean mapping of its own, which the kernel can lengthen. Up to this many chunks it may use
 * kept extents instead. These may be several mappings, so the first growth copies the block. */
enum { PATCHED_CHUNKS = 8 };

/* Prefer resident chunks, above all those with room for the tail directly behind. A block of another length may then
 * reuse a freed range that other blocks adjoin. Not inlined, to keep the callers' stack frames small. */
HAK_NOINLINE static char *take_chunks_locked(size_t chunks, size_t tail, size_t align, bool grows, bool *zeroed) {
  size_t offset, all = chunks + (tail > 0);
  bool alone = grows && chunks > PATCHED_CHUNKS && !hak_arena.locked, beside = tail > 0 && align == HAK_CHUNK_BYTES;
  hak_chunk_t *first = beside ? find_extent(true, chunks, tail, align, &offset) : NULL, *last = NULL;
  if (first) {
    last = shared_behind(first, tail);
    all = chunks;
  } else if (!alone) {
    first = find_extent(true, all, 0, align, &offset);
  }
  first = first ? first : find_extent(false, all, 0, align, &offset);
  if (!first) {
    return NULL;
  }
  hak_extent_t extent = take_part_locked(first, offset, all);
  hak_chunk_t *huge = hak_chunk_new_locked(extent.base, HAK_CHUNK_HUGE);
  huge->chunks = chunks;
  huge->mate = hak_chunk_new_locked(extent.base, HAK_CHUNK_SPARE);
  hak_set_chunk(extent.base, 1, huge);
  hak_retain_fetch_locked(extent.dirty ? 0 : chunks * HAK_CHUNK_SLICES, alone ? 0 : all * HAK_CHUNK_SLICES);
  *zeroed = !extent.dirty;
  if (tail > 0) {
    char *end = extent.base + (chunks << HAK_CHUNK_SHIFT);
    take_tail_locked(last ? last : slice_locked((hak_extent_t){end, 1, extent.dirty}), tail);
  }
  hak_arena_count_used_locked(chunks * HAK_CHUNK_SLICES + tail, true);
  return extent.base;
}

void *hak_arena_take_chunks(size_t chunks, size_t tail, size_t align, bool grows, bool *zeroed) {
  bool purged = false;
  size_t all = chunks + (tail > 0);
  align = align > HAK_CHUNK_BYTES ? align : HAK_CHUNK_BYTES;
  if (!hak_limit_reserve(chunks * HAK_CHUNK_SLICES + tail)) {
    return NULL;
  }
  for (;;) {
    char *base = NULL;
    bool stocked = hak_arena_lock_stocked();
    if (stocked) {
      base = take_chunks_locked(chunks, tail, align, grows, zeroed);
      hak_unlock(&hak_arena.lock);
    }
    if (base) {
      hak_set_chunk(base + HAK_CHUNK_BYTES, chunks - 1, hak_chunk_at(base));
      hak_release_after_take(grows);
      return base;
    }
    if (stocked && hak_extent_grow(all, align, 0, grows)) {
      continue;
    }
    if ((purged || !hak_arena_purge(0)) && !hak_unmap_rest(all * HAK_CHUNK_SLICES)) {
      hak_limit_unreserve(chunks * HAK_CHUNK_SLICES + tail);
      return NULL;
    }
    purged = true;
  }
}

/* A program may never write parts of a huge block, and these keep pages of its earlier users. The arena does not know
 * which. So it purges one freed huge block in this many, however little free memory there is. */
enum { USES = 256 };

void hak_arena_give_chunks(void *base) {
  hak_chunk_t *huge = hak_chunk_at(base), *departed = NULL;
  size_t chunks = huge->chunks;
  hak_set_chunk(base, chunks, &hak_chunk_gone);
  hak_lock(&hak_arena.lock);
  hak_chunk_spare_locked(huge->mate);
  hak_chunk_spare_locked(huge);
  hak_arena_count_used_locked(chunks * HAK_CHUNK_SLICES, false);
  hak_extent_t extent = {base, chunks, true};
  uint32_t forks = hak_arena.forks;
  if (++hak_arena.given_blocks % USES == 0) {
    departed = hak_release_depart_locked(extent, 0);
  } else {
    hak_extent_put_locked(extent);
  }
  bool due = hak_release_due_locked();
  hak_unlock(&hak_arena.lock);
  if (departed) {
    hak_release_finish(departed, forks);
  }
  if (due) {
    hak_release_after_give(chunks * HAK_CHUNK_SLICES);
  }
}

bool hak_extent_join(hak_chunk_t *huge, size_t more) {
  if (huge->chunks + more > PATCHED_CHUNKS || !hak_arena_lock_stocked()) {
    return false;
  }
  char *end = huge->base + (huge->chunks << HAK_CHUNK_SHIFT);
  hak_chunk_t *behind = hak_chunk_at(end);
  bool free = behind && behind->state == HAK_CHUNK_FREE && behind->chunks >= more;
  if (free) {
    hak_extent_t part = take_part_locked(behind, 0, more);
    hak_retain_fetch_locked(part.dirty ? 0 : more * HAK_CHUNK_SLICES, more * HAK_CHUNK_SLICES);
    huge->chunks += more;
    hak_set_chunk(end, more, huge);
    hak_arena_count_used_locked(more * HAK_CHUNK_SLICES, true);
  }
  hak_unlock(&hak_arena.lock);
  return free;
}

bool hak_arena_shrink_chunks(void *base, size_t keep, size_t tail) {
  hak_chunk_t *huge = hak_chunk_at(base);
  size_t chunks = huge->chunks, given = (chunks - keep) * HAK_CHUNK_SLICES - tail;
  char *end = (char *)base + (keep << HAK_CHUNK_SHIFT);
  if (!hak_arena_lock_stocked()) {
    return false;
  }
  huge->chunks = keep;
  hak_arena_count_used_locked(given, false);
  hak_set_chunk(end, chunks - keep, &hak_chunk_gone);
  if (tail) {
    take_tail_locked(slice_locked((hak_extent_t){end, 1, true}), tail);
    end += HAK_CHUNK_BYTES;
  }
  if (keep == 0) {
    hak_chunk_at(base)->huge_bytes = huge->huge_bytes;
    hak_chunk_spare_locked(huge->mate);
    hak_chunk_spare_locked(huge);
  }
  hak_extent_put_locked((hak_extent_t){end, chunks - keep - (tail > 0), true});
  hak_unlock(&hak_arena.lock);
  hak_release_after_give(given);
  return true;
}
