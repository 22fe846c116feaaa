/* Chooses huge pages where the program is sure to fill them: at the front of a large heap, while they stay within the
 * latency budget. For chunks of slabs, it chooses mTHP of 16 to 128 KiB. */
#include "mapping.h"

enum { MTHP_PART_BYTES = HAK_CHUNK_BYTES - HAK_SLAB_BYTES }; /* too little for a 2 MiB page */

/* Lock: the arena's. After slow huge pages, the next `pause` chunks get none; `left` of these chunks are still to
 * come. */
static struct {
  uint32_t pause, left;
  uint64_t over_ms; /* processor time that huge pages took beyond the budget */
} budget;

static _Atomic bool mthp_tried;

void hak_huge_pages_try_mthp(void) {
  size_t fault = 0;
  atomic_store_explicit(&mthp_tried, true, memory_order_relaxed);
  char *part = hak_os_map(NULL, MTHP_PART_BYTES);
  if (part && hak_os_set_huge(part, MTHP_PART_BYTES, true)) {
    fault = hak_os_fault_bytes(part, MTHP_PART_BYTES);
  }
  if (part) {
    hak_os_unmap_unused(part, MTHP_PART_BYTES);
  }
  hak_arena.mthp = fault > hak_os_page_bytes() && fault <= HAK_MTHP_MAX;
}

/* Leave a slab at one end of each chunk without advice, so that no 2 MiB page fits, by a fault or by khugepaged. That
 * slab adjoins the one of a neighbour chunk, which saves mappings. */
static bool prefer_mthp(char *base) {
  char *from = base + ((uintptr_t)base >> HAK_CHUNK_SHIFT & 1 ? HAK_SLAB_BYTES : 0);
  if (!atomic_exchange_explicit(&mthp_tried, true, memory_order_relaxed) && hak_os_offers_mthp()) {
    hak_huge_pages_try_mthp();
  }
  return hak_arena.mthp && hak_os_set_huge(from, MTHP_PART_BYTES, true);
}

void hak_huge_pages_advise(char *base, size_t bytes, bool for_slabs) {
  size_t mapped = hak_lock_read(&hak_arena.lock, &hak_arena.mapped_slices), used = hak_retain_used_slices();
  int64_t option = hak_option(HAK_OPTION_HUGE_PAGES);
  bool mthp = for_slabs && mapped >= HAK_MTHP_FROM && mapped < HAK_SPLIT_BELOW && option == HAK_OPTION_AUTO;
  if (mthp && prefer_mthp(base)) {
    return;
  }
  if (mapped + (bytes >> HAK_SLICE_SHIFT) <= HAK_HUGE_AVOIDED_BELOW) { /* all: no mixed range can be moved */
    if (mapped == 0 && bytes == HAK_CHUNK_BYTES) { /* one call costs less than reading the system's mode, and most heaps
                                                      need no second chunk */
      hak_os_set_huge(base, bytes, false);
    } else {
      hak_os_decline_huge(base, bytes);
    }
  } else if (option == HAK_HUGE_PAGES_DENSE && used >= HAK_HUGE_DENSE_FROM) {
    hak_os_set_huge(base, bytes, true);
  }
}

static bool begins_chunk_locked(const hak_chunk_t *chunk, const char *base, size_t slices) {
  size_t first = (size_t)(base - chunk->base) >> HAK_SLICE_SHIFT;
  return chunk->present == HAK_MASK_ALL && !(chunk->dirty & ~hak_mask_of(first, slices)) && !hak_arena.locked;
}

HAK_NOINLINE static bool may_be_huge(const char *base, size_t slices) {
  size_t used = hak_retain_used_slices();
  if (used < HAK_FRONT_FROM || hak_arena.mthp || hak_option(HAK_OPTION_HUGE_PAGES) != HAK_OPTION_AUTO ||
      hak_os_huge_mode() == HAK_OS_HUGE_NEVER || hak_os_is_filtered()) {
    return false;
  }
  hak_lock(&hak_arena.lock);
  bool begins = hak_arena.mapped_slices < HAK_SPLIT_BELOW && begins_chunk_locked(hak_pagemap_chunk(base), base, slices);
  bool waits = begins && budget.left > 0;
  budget.left -= waits;
  hak_unlock(&hak_arena.lock);
  return begins && !waits;
}

/* Charge the processor time of a huge page to the budget. Time in which other programs ran says nothing about huge
 * pages. */
HAK_NOINLINE static void charge(uint64_t took_ms) {
  hak_lock(&hak_arena.lock);
  uint64_t over = budget.over_ms + took_ms;
  uint32_t pause = budget.pause;
  over = over > HAK_FAULT_MS ? over - HAK_FAULT_MS : 0;
  if (over > HAK_FAULT_OVER_MS) {
    pause = pause == 0 ? HAK_FAULT_PAUSE_FIRST : pause < HAK_FAULT_PAUSE_LAST ? 2 * pause : pause;
    budget.left = pause;
    over = HAK_FAULT_OVER_MS;
  }
  budget.pause = over > 0 ? pause : 0;
  budget.over_ms = over;
  hak_unlock(&hak_arena.lock);
}

/* The advice holds for this chunk and this moment only. Otherwise khugepaged would later form huge pages, and make
 * purged memory resident again. */
HAK_NOINLINE void hak_huge_pages_fill(void *base, size_t slices, size_t every) {
  if (slices > 0 && every <= hak_os_page_bytes() && may_be_huge(base, slices)) {
    char *chunk_base = (char *)base - ((uintptr_t)base & (HAK_CHUNK_BYTES - 1));
    uint64_t before = hak_os_busy_ms();
    bool huge = hak_os_set_huge(chunk_base, HAK_CHUNK_BYTES, true);
    if (huge) {
      *(volatile char *)base = 0;
    }
    hak_os_set_huge(chunk_base, HAK_CHUNK_BYTES, false); /* the failed call may have advised a part */
    if (huge) {
      charge(hak_os_busy_ms() - before);
    }
  }
}
