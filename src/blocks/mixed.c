/* Mixed slabs: pages that the first blocks of all classes share. slab.c and cache.c stand above. */
#include "mixed.h"

#include "pages/pages.h"

enum {
  PAGE_BYTES = 1 << HAK_PAGE_SHIFT,
  PAGES = HAK_MIXED_PAGES,
  ALL_PAGES = (1 << PAGES) - 1,
  PAGE_STEPS = PAGE_BYTES / HAK_BLOCK_MIN,
  PAGE_WORDS = PAGE_STEPS / 64, /* of hak_slab_t.bits */
  EDGE_STEPS = 4,               /* how far a check looks beside a block */
};

hak_lock_t hak_mixed_lock = HAK_LOCK_INIT;
static struct {
  hak_mixed_t *first, *last;
} slabs;
static void *dropped; /* descriptors without a slab */

static uint32_t step_of(const void *address) {
  return hak_slab_offset(address) >> HAK_BLOCK_SHIFT;
}

static uint32_t class_of(const hak_mixed_t *mixed, uint32_t step) {
  return atomic_load_explicit(&mixed->cls[step], memory_order_relaxed);
}

static void set_class(hak_mixed_t *mixed, uint32_t step, uint32_t cls) {
  atomic_store_explicit(&mixed->cls[step], (uint8_t)cls, memory_order_relaxed);
}

static void link_locked(hak_mixed_t *mixed, bool first) {
  mixed->prev = first ? NULL : slabs.last;
  mixed->next = first ? slabs.first : NULL;
  *(mixed->prev ? &mixed->prev->next : &slabs.first) = mixed;
  *(mixed->next ? &mixed->next->prev : &slabs.last) = mixed;
}

static void unlink_locked(hak_mixed_t *mixed) {
  *(mixed->prev ? &mixed->prev->next : &slabs.first) = mixed->next;
  *(mixed->next ? &mixed->next->prev : &slabs.last) = mixed->prev;
}

/* Slabs with an empty page come first. */
static void relink_locked(hak_mixed_t *mixed) {
  unlink_locked(mixed);
  link_locked(mixed, mixed->empty != 0);
}

static hak_mixed_t *with_empty_locked(void) {
  return slabs.first && slabs.first->empty ? slabs.first : NULL;
}

/* Add a slab. False: no memory. */
static bool make_slab(void) {
  bool zeroed;
  hak_mixed_t *mixed = hak_meta_take(&dropped, sizeof *mixed);
  char *base = mixed ? hak_arena_take(HAK_SLAB_SLICES, HAK_SLAB_SLICES, &zeroed) : NULL;
  if (!base) {
    if (mixed) {
      hak_meta_drop(&dropped, mixed);
    }
    return false;
  }
  hak_slab_t *slab = hak_pagemap_slab(base);
  mixed->base = base;
  mixed->empty = ALL_PAGES;
  mixed->zeroed = zeroed ? ALL_PAGES : 0;
  __atomic_store_n(&slab->mixed, mixed, __ATOMIC_RELEASE);
  slab->block_bytes = HAK_BLOCK_MIN;
  slab->inverse = hak_class_inverses[HAK_CLASS_16];
  slab->blocks = HAK_BLOCKS_MAX;
  slab->slices = HAK_SLAB_SLICES;
  slab->base = base;
  slab->discarded = slab->zeroed = slab->unsealed = slab->guarded = slab->fenced = false;
  atomic_store_explicit(&slab->data, false, memory_order_relaxed);
  atomic_store_explicit(&slab->bump, HAK_BLOCKS_MAX, memory_order_relaxed);
  for (uint32_t w = 0; w < HAK_BITS_WORDS; w++) {
    atomic_store_explicit(&slab->bits[w], 0, memory_order_relaxed);
  }
  atomic_store_explicit(&slab->control, HAK_SLAB_CURRENT, memory_order_relaxed);
  atomic_store_explicit(&slab->cls, HAK_CLASS_MIXED, memory_order_release);
  hak_pagemap_set_class(base, HAK_SLAB_SLICES, HAK_CLASS_MIXED);
  hak_lock(&hak_mixed_lock);
  link_locked(mixed, true);
  hak_unlock(&hak_mixed_lock);
  return true;
}

/* All pages are empty: take the slab out. */
static void remove_locked(hak_mixed_t *mixed) {
  hak_slab_t *slab = hak_pagemap_slab(mixed->base);
  unlink_locked(mixed);
  hak_pagemap_set_class(mixed->base, HAK_SLAB_SLICES, HAK_CLASS_NONE);
  atomic_store_explicit(&slab->control, 0, memory_order_relaxed);
  atomic_store_explicit(&slab->cls, HAK_CLASS_NONE, memory_order_relaxed);
}

/* If all blocks of the page are back and nobody fills it, the page is empty. Unlocks. Returns the slices that went to
 * the arena. */
static size_t settle_and_unlock(hak_mixed_t *mixed, uint32_t page) {
  hak_slab_t *slab = hak_pagemap_slab(mixed->base);
  char *gone = NULL;
  if (!mixed->page[page].owned && mixed->page[page].free == mixed->page[page].blocks) {
    for (uint32_t i = 0; i < PAGE_STEPS; i++) {
      set_class(mixed, page * PAGE_STEPS + i, HAK_CLASS_NONE);
    }
    for (uint32_t w = 0; w < PAGE_WORDS; w++) {
      atomic_store_explicit(&slab->bits[page * PAGE_WORDS + w], 0, memory_order_relaxed);
    }
    mixed->empty |= 1U << page;
    relink_locked(mixed);
    if (mixed->empty == ALL_PAGES) {
      gone = mixed->base;
      remove_locked(mixed);
    }
  }
  hak_unlock(&hak_mixed_lock);
  if (!gone) {
    return 0;
  }
  hak_meta_drop(&dropped, mixed);
  return hak_arena_put(gone, HAK_SLAB_SLICES) ? HAK_SLAB_SLICES : 0;
}

void hak_mixed_leave(hak_mixed_place_t *place) {
  if (!place->end) {
    return;
  }
  const char *last = place->end - HAK_BLOCK_MIN;
  hak_mixed_t *mixed = hak_pagemap_slab(last)->mixed;
  uint32_t page = step_of(last) / PAGE_STEPS, blocks = place->blocks;
  *place = (hak_mixed_place_t){NULL, NULL, 0, false};
  hak_lock(&hak_mixed_lock);
  mixed->page[page].owned = false;
  mixed->page[page].blocks = (uint16_t)blocks;
  size_t slices = settle_and_unlock(mixed, page);
  if (slices > 0) {
    hak_purge_after_free(slices);
  }
}

static bool take_page(hak_mixed_place_t *place) {
  hak_lock(&hak_mixed_lock);
  hak_mixed_t *mixed = with_empty_locked();
  while (!mixed) {
    hak_unlock(&hak_mixed_lock);
    if (!make_slab()) {
      return false;
    }
    hak_lock(&hak_mixed_lock);
    mixed = with_empty_locked();
  }
  uint32_t page = (uint32_t)__builtin_ctz(mixed->empty), bit = 1U << page;
  mixed->page[page].owned = true;
  mixed->page[page].free = mixed->page[page].blocks = 0;
  bool zeroed = mixed->zeroed & bit;
  mixed->page[page].fresh = zeroed;
  mixed->zeroed &= ~bit;
  mixed->empty &= ~bit;
  relink_locked(mixed);
  hak_unlock(&hak_mixed_lock);
  char *base = mixed->base + (size_t)page * PAGE_BYTES;
  *place =
      (hak_mixed_place_t){base + HAK_BLOCK_MIN, base + PAGE_BYTES, 0, zeroed}; /* writes before a block are found */
  return true;
}

/* Each block is aligned as in a slab of its class, for requests with an alignment. NULL: the page has no room. */
static char *find_room(const hak_mixed_place_t *place, size_t bytes) {
  size_t align = bytes & -bytes, left = (size_t)(place->end - place->at), gap = -(uintptr_t)place->at & (align - 1);
  return gap + bytes <= left ? place->at + gap : NULL;
}

hak_free_block_t *hak_mixed_take(hak_mixed_place_t *place, uint32_t cls) {
  size_t bytes = hak_class_sizes[cls];
  char *at = place->end ? find_room(place, bytes) : NULL;
  if (!at) {
    hak_mixed_leave(place);
    if (!take_page(place)) {
      return NULL;
    }
    at = find_room(place, bytes);
  }
  place->at = at + bytes;
  place->blocks++;
  hak_fork_fence(); /* a fork between the two may lose the block */
  set_class(hak_pagemap_slab(at)->mixed, step_of(at), cls);
  hak_free_block_t *block = (hak_free_block_t *)(void *)at;
  block->untouched = 0; /* written first, so that the page fault is a write fault */
  atomic_signal_fence(memory_order_seq_cst);
  if (HAK_UNLIKELY(place->zeroed && block->tag != 0)) {
    hak_misuse_met("malloc", HAK_MISUSE_CORRUPTED, block);
  }
  hak_mark_free(block);
  return block;
}

size_t hak_mixed_put(hak_slab_t *slab, const void *block, uint32_t cls, const char *function) {
  uint32_t step = step_of(block);
  uint64_t bit = 1ULL << step % 64;
  hak_lock(&hak_mixed_lock);
  hak_mixed_t *mixed = slab->mixed;
  bool live = atomic_load_explicit(&slab->cls, memory_order_relaxed) == HAK_CLASS_MIXED && class_of(mixed, step) == cls;
  uint64_t before = live ? atomic_fetch_or_explicit(&slab->bits[step / 64], bit, memory_order_relaxed) : bit;
  if (HAK_UNLIKELY(before & bit)) {
    hak_unlock(&hak_mixed_lock);
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  mixed->page[step / PAGE_STEPS].free++;
  return settle_and_unlock(mixed, step / PAGE_STEPS);
}

uint32_t hak_mixed_take_back(uint32_t cls, hak_free_block_t **blocks, uint32_t want) {
  uint32_t count = 0;
  hak_lock(&hak_mixed_lock);
  for (hak_mixed_t *mixed = slabs.first; mixed && count < want; mixed = mixed->next) {
    hak_slab_t *slab = hak_pagemap_slab(mixed->base);
    for (uint32_t i = 0; i < HAK_BLOCKS_MAX && count < want; i++) {
      uint64_t bit = 1ULL << i % 64;
      if (class_of(mixed, i) == cls && (atomic_load_explicit(&slab->bits[i / 64], memory_order_relaxed) & bit)) {
        atomic_fetch_and_explicit(&slab->bits[i / 64], ~bit, memory_order_relaxed);
        mixed->page[i / PAGE_STEPS].free--;
        blocks[count++] = (hak_free_block_t *)(void *)(mixed->base + (size_t)i * HAK_BLOCK_MIN);
      }
    }
  }
  hak_unlock(&hak_mixed_lock);
  return count;
}

/* Whether the steps from `from` up to the next block, but at most EDGE_STEPS, are zeros. */
static bool are_zeros(const hak_mixed_t *mixed, uint32_t from, uint32_t end) {
  const char *at = mixed->base + (size_t)from * HAK_BLOCK_MIN;
  uint32_t steps = 0;
  while (steps < EDGE_STEPS && from + steps < end && class_of(mixed, from + steps) == HAK_CLASS_NONE) {
    steps++;
  }
  return hak_is_zero(at, (size_t)steps * HAK_BLOCK_MIN);
}

/* A page that was used before is not looked at. */
bool hak_mixed_find_damage(const void *block, uint32_t cls, hak_misuse_t *reason) {
  const hak_mixed_t *mixed = hak_pagemap_slab(block)->mixed;
  uint32_t step = step_of(block), first = step / PAGE_STEPS * PAGE_STEPS, behind = first;
  if (!mixed->page[step / PAGE_STEPS].fresh) {
    return false;
  }
  for (uint32_t i = first; i < step; i++) { /* the end of the block before */
    uint32_t at = class_of(mixed, i);
    behind = at != HAK_CLASS_NONE ? i + hak_class_sizes[at] / HAK_BLOCK_MIN : behind;
  }
  behind = step - behind > EDGE_STEPS ? step - EDGE_STEPS : behind;
  *reason = HAK_MISUSE_UNDERFLOW;
  if (!are_zeros(mixed, behind, step)) {
    return true;
  }
  *reason = HAK_MISUSE_OVERFLOW;
  return !are_zeros(mixed, step + hak_class_sizes[cls] / HAK_BLOCK_MIN, first + PAGE_STEPS);
}

void hak_mixed_check(const hak_slab_t *slab) {
  const hak_mixed_t *mixed = slab->mixed;
  HAK_VERIFY(hak_pagemap_slice_class(slab->base) == HAK_CLASS_MIXED && mixed->base == slab->base);
  for (uint32_t page = 0; page < PAGES; page++) {
    uint32_t blocks = 0, free = 0, end = page * PAGE_STEPS;
    for (uint32_t i = end; i < (page + 1) * PAGE_STEPS; i++) {
      uint32_t cls = class_of(mixed, i);
      bool is_free = atomic_load(&slab->bits[i / 64]) >> i % 64 & 1;
      HAK_VERIFY(cls == HAK_CLASS_NONE ? !is_free : i >= end && cls < HAK_RUN_FIRST);
      end = cls != HAK_CLASS_NONE ? i + hak_class_sizes[cls] / HAK_BLOCK_MIN : end;
      blocks += cls != HAK_CLASS_NONE;
      free += is_free;
    }
    HAK_VERIFY(end <= (page + 1) * PAGE_STEPS && free == (mixed->empty >> page & 1 ? 0 : mixed->page[page].free));
    /* a fork may have lost some */
    HAK_VERIFY(mixed->page[page].owned || blocks <= (mixed->empty >> page & 1 ? 0 : mixed->page[page].blocks));
  }
}
