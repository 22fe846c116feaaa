/* Mapping memory: address hints, huge pages, and mappings of less than a chunk. extent.c and arena.c call it. */
#include "arena_internal.h"
#include "options.h"
#include "os.h"

enum { SCATTER_CHUNKS = 1024 }; /* random range of the first chunk, below the kernel's choice */

/* Mapped slices, or used ones, below which there are no huge pages. They would make a small program large and gain
 * little: their waste costs more than the page faults they save. */
enum { HUGE_PAGES_AVOIDED_BELOW = 32 << 20 >> HAK_SLICE_SHIFT, HUGE_PAGES_FROM = 128 << 20 >> HAK_SLICE_SHIFT };
#define MEDIUM_PAGES_FROM ((size_t)8 << 20 >> HAK_SLICE_SHIFT)
enum { MEDIUM_PAGE_MAX = 128 << 10, FILLED_CHUNKS = 64 /* each may take a call */ };
#define FRONT_FROM ((size_t)16 << 20 >> HAK_SLICE_SHIFT) /* one huge page is a small part of this */
/* Fault-latency budget. A clock tick is 1 to 10 ms, so the time of a fault is known only on average. */
enum { PRICE_MS = 2, DEBT_MAX_MS = 14, FIRST_PAUSE = 8, LAST_PAUSE = 512 };
enum { MEDIUM_PART_BYTES = HAK_CHUNK_BYTES - HAK_SLAB_BYTES }; /* part of a chunk in which no 2 MiB page fits */

static void count_mapped_locked(size_t slices) {
  hak_arena.mapped_slices += slices;
  hak_arena.mapped_ever += slices;
}

/* Choose a random place below the address where the kernel would put the first chunk. */
static void choose_first_place(void) {
  uint64_t random = hak_os_random();
  char *near = hak_os_map_aligned(NULL, HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  if (near) {
    hak_os_unmap_unused(near, HAK_CHUNK_BYTES);
    hak_lock(&hak_arena.lock);
    hak_arena.wish = near - ((random % SCATTER_CHUNKS) << HAK_CHUNK_SHIFT);
    hak_arena.first_slice = (uint32_t)(random >> 32) % HAK_CHUNK_SLICES;
    hak_unlock(&hak_arena.lock);
  }
}

void hak_arena_try_medium(void) {
  size_t fault = 0;
  char *part = hak_os_map(NULL, MEDIUM_PART_BYTES);
  if (part && hak_os_set_huge(part, MEDIUM_PART_BYTES, true)) {
    fault = hak_os_fault_bytes(part, MEDIUM_PART_BYTES);
  }
  if (part) {
    hak_os_unmap_unused(part, MEDIUM_PART_BYTES);
  }
  hak_arena.medium = fault > hak_os_page_bytes() && fault <= MEDIUM_PAGE_MAX;
}

/* Leave a slab at one end of each chunk without advice, so that no 2 MiB page fits, by a fault or by khugepaged. That
 * slab adjoins the one of a neighbour chunk, which saves mappings. */
static bool prefer_medium(char *base) {
  char *from = base + ((uintptr_t)base >> HAK_CHUNK_SHIFT & 1 ? HAK_SLAB_BYTES : 0);
  return hak_arena.medium && hak_os_set_huge(from, MEDIUM_PART_BYTES, true);
}

/* Map unmapped places again, so that a program in a steady state stays within its address range. They are only hints:
 * the kernel decides whether they are still free. */
void hak_place_remember_locked(char *base, size_t bytes) {
  hak_place_t *least = hak_arena.places;
  for (hak_place_t *place = hak_arena.places; place < hak_arena.places + HAK_PLACES; place++) {
    if (place->bytes && (place->base + place->bytes == base || base + bytes == place->base)) {
      base = place->base < base ? place->base : base;
      bytes += place->bytes;
      place->bytes = 0;
    }
    least = place->bytes < least->bytes ? place : least;
  }
  size_t lost = bytes < least->bytes ? bytes : least->bytes;
  hak_arena.lost_bytes += lost;
  if (lost < bytes) {
    *least = (hak_place_t){base, bytes};
  }
}

/* Returns the end part of the smallest place that fits. NULL: there is none. */
static char *recall_locked(size_t bytes, size_t align) {
  hak_place_t *best = NULL;
  char *found = NULL;
  for (hak_place_t *place = hak_arena.places; place < hak_arena.places + HAK_PLACES; place++) {
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
      hak_place_remember_locked(behind, (size_t)(end - behind));
    }
  }
  return found;
}

/* Choose the address hint. *recalled: it is a place that was unmapped earlier. NULL: the kernel may reuse forgotten
 * addresses. */
static char *choose_place(size_t bytes, size_t align, bool *recalled) {
  hak_lock(&hak_arena.lock);
  if (!hak_arena.wish) {
    hak_unlock(&hak_arena.lock);
    choose_first_place();
    hak_lock(&hak_arena.lock);
  }
  char *place = recall_locked(bytes, align), *wish = hak_arena.lost_bytes < bytes ? hak_arena.wish : NULL;
  hak_unlock(&hak_arena.lock);
  size_t below = bytes + (((uintptr_t)wish - bytes) & (align - 1));
  *recalled = place != NULL;
  return place || (uintptr_t)wish <= below ? place : wish - below;
}

/* Record the outcome of a mapping at `base`, which may differ from the hint. NULL: the mapping failed. */
static void settle_place(char *base, size_t bytes, const char *place, bool recalled) {
  hak_lock(&hak_arena.lock);
  if (recalled && base != place) {
    hak_arena.lost_bytes += bytes; /* another mapping is there */
  } else if (!place) {
    hak_arena.lost_bytes -= bytes < hak_arena.lost_bytes ? bytes : hak_arena.lost_bytes;
  } else if (!recalled && base) {
    hak_arena.wish = base;
  }
  hak_unlock(&hak_arena.lock);
}

static char *map(size_t bytes, size_t align, bool for_slabs) {
  bool recalled;
  char *place = choose_place(bytes, align, &recalled), *base = hak_os_map_aligned(place, bytes, align);
  settle_place(base, bytes, place, recalled);
  if (!base) {
    return NULL;
  }
  size_t mapped = hak_lock_read(&hak_arena.lock, &hak_arena.mapped_slices), used = hak_arena_used_slices();
  bool medium = for_slabs && mapped >= MEDIUM_PAGES_FROM && mapped < HAK_SPLIT_BELOW;
  if (medium && hak_option(HAK_OPTION_HUGE_PAGES) == HAK_OPTION_AUTO && prefer_medium(base)) {
    return base;
  }
  if (mapped + (bytes >> HAK_SLICE_SHIFT) <= HUGE_PAGES_AVOIDED_BELOW) { /* all: the kernel moves no mixed range */
    hak_os_decline_huge(base, bytes);
  } else if (hak_option(HAK_OPTION_HUGE_PAGES) == HAK_HUGE_PAGES_DENSE && used >= HUGE_PAGES_FROM) {
    hak_os_set_huge(base, bytes, true);
  }
  return base;
}

/* Huge pages where the program is sure to fill them: at the front of a large heap, while they stay within the latency
 * budget. */

static bool begins_chunk_locked(const hak_chunk_t *chunk, const char *base, size_t slices) {
  size_t first = (size_t)(base - chunk->base) >> HAK_SLICE_SHIFT;
  return chunk->present == HAK_MASK_ALL && !(chunk->dirty & ~hak_mask_of(first, slices)) && !hak_arena.locked;
}

/* Not inlined, to keep the callers' stack frames small. */
HAK_NOINLINE static bool may_be_huge(const char *base, size_t slices) {
  size_t used = hak_arena_used_slices();
  if (used < FRONT_FROM || hak_arena.medium || hak_option(HAK_OPTION_HUGE_PAGES) != HAK_OPTION_AUTO ||
      hak_os_huge_mode() == HAK_OS_HUGE_NEVER || hak_os_is_filtered()) {
    return false;
  }
  hak_lock(&hak_arena.lock);
  bool begins = hak_arena.mapped_slices < HAK_SPLIT_BELOW && begins_chunk_locked(hak_chunk_at(base), base, slices);
  bool waits = begins && hak_arena.huge_left > 0;
  hak_arena.huge_left -= waits;
  hak_unlock(&hak_arena.lock);
  return begins && !waits;
}

/* Charge the time of a huge page to the budget. Small pages would have taken about a millisecond; another program's
 * turn may account for a little more. */
HAK_NOINLINE static void count_price(uint64_t took_ms) {
  hak_lock(&hak_arena.lock);
  uint64_t debt = hak_arena.huge_debt_ms + took_ms;
  uint32_t pause = hak_arena.huge_pause;
  debt = debt > PRICE_MS ? debt - PRICE_MS : 0;
  if (debt > DEBT_MAX_MS) {
    pause = pause == 0 ? FIRST_PAUSE : pause < LAST_PAUSE ? 2 * pause : pause;
    hak_arena.huge_left = pause;
    debt = DEBT_MAX_MS;
  }
  hak_arena.huge_pause = debt > 0 ? pause : 0;
  hak_arena.huge_debt_ms = debt;
  hak_unlock(&hak_arena.lock);
}

/* The advice holds for this chunk and this moment only. Otherwise khugepaged would later form huge pages, and make
 * purged memory resident again. */
HAK_NOINLINE void hak_arena_fill(void *base, size_t slices, size_t every) {
  if (slices > 0 && every <= hak_os_page_bytes() && may_be_huge(base, slices)) {
    char *chunk_base = (char *)base - ((uintptr_t)base & (HAK_CHUNK_BYTES - 1));
    uint64_t before = hak_os_now_ms();
    bool huge = hak_os_set_huge(chunk_base, HAK_CHUNK_BYTES, true);
    if (huge) {
      *(volatile char *)base = 0;
    }
    hak_os_set_huge(chunk_base, HAK_CHUNK_BYTES, false); /* the failed call may have advised a part */
    if (huge) {
      count_price(hak_os_now_ms() - before);
    }
  }
}

/* Take the lock, with all that adding the range needs. False: the range was unmapped again, or was never mapped
 * (NULL). */
static bool lock_to_add(char *base, size_t bytes) {
  bool ok = base && hak_pagemap_cover(base, bytes) && hak_arena_lock_stocked();
  if (base && !ok) {
    hak_os_unmap_unused(base, bytes);
  }
  return ok;
}

/* Add slices of one chunk, which may have other slices already. */
static void put_slices_locked(char *base, size_t slices) {
  char *chunk_base = base - ((uintptr_t)base & (HAK_CHUNK_BYTES - 1));
  hak_chunk_t *chunk = hak_chunk_at(base);
  if (!chunk || chunk->state != HAK_CHUNK_SLICED) {
    chunk = hak_chunk_new_locked(chunk_base, HAK_CHUNK_SLICED);
    chunk->present = 0;
    hak_set_chunk(chunk_base, 1, chunk);
  }
  hak_mask_t mask = hak_mask_of((size_t)(base - chunk_base) >> HAK_SLICE_SHIFT, slices);
  chunk->present |= mask;
  chunk->free |= mask;
  hak_arena_settle_locked(chunk);
}

bool hak_arena_add_slices(char *base, size_t slices) {
  if (!lock_to_add(base, slices << HAK_SLICE_SHIFT)) {
    return false;
  }
  count_mapped_locked(slices);
  put_slices_locked(base, slices);
  hak_unlock(&hak_arena.lock);
  return true;
}

/* The system has no memory for a whole chunk, under a limit or because all mapped memory is locked. Map only what is
 * needed, within one chunk. Prefer the place above the last such range, since each further chunk costs descriptors. */
static bool grow_by_slices(size_t slices) {
  size_t page = hak_os_page_bytes(), bytes = page > HAK_SLICE_BYTES ? page : HAK_SLICE_BYTES;
  while (bytes < slices << HAK_SLICE_SHIFT) {
    bytes *= 2;
  }
  size_t align = bytes > HAK_SLAB_BYTES ? bytes : HAK_SLAB_BYTES;
  char *end = atomic_load_explicit(&hak_arena.little_end, memory_order_relaxed);
  char *wish = end ? end + (-(uintptr_t)end & (align - 1)) : hak_os_find_gap(HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  char *base = hak_os_map_aligned(wish, bytes, align);
  if (!hak_arena_add_slices(base, bytes >> HAK_SLICE_SHIFT)) {
    return false;
  }
  atomic_store_explicit(&hak_arena.little_end, base + bytes, memory_order_relaxed);
  return true;
}

bool hak_arena_is_tight(void) {
  return atomic_load_explicit(&hak_arena.tight, memory_order_relaxed);
}

bool hak_extent_grow(size_t chunks, size_t align, size_t slices, bool special) {
  size_t bytes = chunks << HAK_CHUNK_SHIFT;
  char *base = map(bytes, align, special && slices > 0);
  size_t filled = 0;
  bool locked = base && hak_os_is_locked(base + bytes - hak_os_page_bytes());
  bool fills = base && slices == 0 && !special && !locked && chunks <= FILLED_CHUNKS &&
               !hak_os_is_filtered() && /* a filter may kill for MREMAP_FIXED */
               hak_lock_read(&hak_arena.lock, &hak_arena.mapped_slices) < HAK_SPLIT_BELOW;
  if (fills && !hak_release_into(base, chunks, &filled)) {
    return false;
  }
  bool ok = lock_to_add(base, bytes);
  if (slices > 0) {
    atomic_store_explicit(&hak_arena.tight, !ok, memory_order_relaxed);
  }
  if (!ok) {
    return slices > 0 && grow_by_slices(slices);
  }
  hak_arena.locked = locked;
  count_mapped_locked(chunks * HAK_CHUNK_SLICES);
  size_t fresh = locked ? chunks : filled > 0 ? chunks - filled : 0; /* the extent is dirty as a whole */
  hak_retain_fetch_locked(filled * HAK_CHUNK_SLICES, 0);
  hak_retain_fetch_locked(fresh * HAK_CHUNK_SLICES, locked ? 0 : chunks * HAK_CHUNK_SLICES);
  hak_extent_put_locked((hak_extent_t){base, chunks, locked || filled > 0});
  hak_unlock(&hak_arena.lock);
  return true;
}
