/* The paths of the hardened profile. slow.c, resize.c and api.c stand above; quarantine.c and mapped.c below. */
#include "hardened.h"

#include "framed.h"
#include "mapped.h"
#include "quarantine.h"

#include <errno.h>
#include <string.h>

enum {
  EXIT_BYTES_MAX = 64 << 20, /* of slabs, checked at exit */
};

static bool is_small(uint32_t cls) {
  return cls - 1 < HAK_RUN_FIRST - 1;
}

/* The block before it may lie in a page that the program protected. */
static bool begins_page(const void *block) {
  return (uintptr_t)block % hak_os_page_bytes() == 0;
}

/* A block before a live one has a seal, unless its page was discarded. */
HAK_INLINE bool has_whole_seal(const char *before, size_t size, const void *block) {
  return hak_seal_is_whole(before, size) &&
         (HAK_LIKELY(hak_seal_load(before, size) != 0) || hak_pagemap_slab(block)->discarded);
}

HAK_INLINE void check_neighbour(const void *block, size_t size, const char *function) {
  bool whole = hak_slab_offset(block) == 0 || (HAK_UNLIKELY(hak_page_attributes_any()) && begins_page(block)) ||
               has_whole_seal((const char *)block - size, size, block);
  if (HAK_UNLIKELY(!whole && !hak_pagemap_slab(block)->unsealed)) {
    hak_misuse_met(function, HAK_MISUSE_NEIGHBOUR, block);
  }
}

/* Report a block without the seal of a live block. Returns if it was handed out before the profile was in force. */
HAK_COLD static void explain(const void *block, uint32_t cls, const char *function) {
  if (hak_seal_is_freed(block, hak_class_sizes[cls])) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  hak_verify_slab_expect_out(block, function);
  if (!hak_pagemap_slab(block)->unsealed) {
    hak_misuse(function, HAK_MISUSE_SEAL, block);
  }
}

/* Check a live block on all sides; aborts if anything is wrong. False: it has no seal. */
HAK_INLINE bool check(const void *block, uint32_t cls, const char *function, uint64_t base, hak_sealed_t *sealed) {
  size_t size = hak_class_sizes[cls];
  if (HAK_UNLIKELY(!hak_is_start_in_class(block, cls))) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  if (HAK_UNLIKELY(!hak_seal_read(block, size, base, sealed))) {
    explain(block, cls, function);
    return false;
  }
  if (HAK_UNLIKELY(!hak_seal_tail_is_whole(block, size, sealed->asked))) {
    hak_misuse(function, HAK_MISUSE_TAIL, block);
  }
  check_neighbour(block, size, function);
  return true;
}

void *hak_hardened_malloc(size_t bytes) {
  hak_quarantine_t *quarantine = hak_heap->quarantine;
  if (HAK_LIKELY(quarantine && bytes - 1 < HAK_SEALED_MAX && !hak_sampling_is_on())) {
    void *block = hak_quarantine_take(quarantine, hak_class_of(bytes + HAK_SEAL_BYTES), bytes);
    if (HAK_LIKELY(block != NULL)) {
      return block;
    }
  }
  return hak_slow_alloc_any(bytes, HAK_BLOCK_MIN);
}

static HAK_NOINLINE void *take_small_slow(hak_heap_t *heap, uint32_t cls, size_t bytes) {
  hak_quarantine_t *quarantine = heap->quarantine;
  hak_background_ensure();
  hak_quarantine_enter(quarantine);
  if (heap->events % HAK_EVENTS_PER_ORPHAN == HAK_EVENTS_PER_ORPHAN - 1) {
    hak_heap_adopt_orphan();
  }
  hak_cache_look_around(heap);
  bool filled = hak_quarantine_fill(quarantine, hak_slab_kind(cls, quarantine->data));
  hak_quarantine_leave(quarantine);
  return filled ? hak_quarantine_take(quarantine, cls, bytes) : NULL;
}

static void *take_small(uint32_t cls, size_t bytes) {
  hak_heap_t *heap = hak_heap_mine();
  if (HAK_UNLIKELY(!heap || !hak_quarantine_open(heap))) {
    return hak_quarantine_take_one(cls, bytes);
  }
  void *block = hak_quarantine_take(heap->quarantine, cls, bytes);
  return HAK_LIKELY(block != NULL) ? block : take_small_slow(heap, cls, bytes);
}

/* A block of the class. Empty slabs of other classes go before a larger block serves in place of it. */
static void *take_small_of_any(uint32_t cls, size_t bytes, size_t align) {
  void *block = NULL;
  for (bool released = false; cls < HAK_RUN_FIRST && !block; cls++) { /* larger: if memory is short, or for alignment */
    if ((hak_class_sizes[cls] & (align - 1)) == 0) {
      block = take_small(cls, bytes);
      bool retry = !block && hak_hard.regions && !released && hak_sweep_release_empty();
      released = true;
      block = retry ? take_small(cls, bytes) : block;
    }
  }
  return block;
}

void *hak_hardened_alloc(size_t bytes, size_t align, bool *zeroed) {
  bool small = bytes <= HAK_SEALED_MAX && align <= HAK_SMALL_MAX;
  size_t size = small ? hak_round_up(bytes + HAK_SEAL_BYTES, align) : 0;
  if (!small || size > HAK_SMALL_MAX) {
    return hak_hardened_alloc_large(bytes, align, zeroed);
  }
  void *block = take_small_of_any(hak_class_of(size), bytes, align);
  *zeroed = hak_hard.zero;
  return block ? block : hak_hardened_alloc_large(bytes, align, zeroed); /* the arena has no memory for slabs */
}

/* Make the seal that of a free block. Of two threads that free one block at once, the second one reports it. A process
 * with one cache is spared the atomic operation; another thread has none only at its first free, which takes it. */
HAK_INLINE void wipe(void *block, size_t size, uint64_t base, hak_sealed_t sealed, bool shared, const char *function) {
  uint64_t freed = hak_seal_of(base, HAK_SEAL_FREED);
  if (!shared) {
    hak_seal_store(block, size, freed);
  } else if (HAK_UNLIKELY(!hak_seal_free_shared(block, size, sealed.seal, freed))) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  if (HAK_LIKELY(hak_hard.zero)) {
    memset(block, 0, hak_seal_end(size, sealed.asked) * sizeof(uint64_t));
  }
}

HAK_INLINE void free_sealed(void *block, uint32_t cls, uint64_t base, hak_sealed_t sealed, const char *function) {
  hak_quarantine_t *quarantine = hak_heap->quarantine;
  if (HAK_LIKELY(quarantine != NULL)) {
    hak_quarantine_enter(quarantine);
    wipe(block, hak_class_sizes[cls], base, sealed, hak_policy_caches_open() > 1, function);
    hak_quarantine_put(quarantine, hak_slab_kind(cls, sealed.data), block);
    hak_quarantine_leave(quarantine);
  } else {
    int saved = errno;
    wipe(block, hak_class_sizes[cls], base, sealed, true, function);
    hak_quarantine_put_first(hak_heap_mine(), hak_slab_kind(cls, sealed.data), block);
    errno = saved;
  }
}

/* Make the block's pages ordinary again. False: they are not, and the block leaks, so that no other thread gets it. */
static HAK_NOINLINE bool restore(void *block, uint32_t cls, const char *function) {
  int saved = errno;
  bool restored = hak_page_attributes_restore(block, cls, function);
  errno = saved;
  return restored;
}

/* A block of a mixed slab was handed out before the profile was in force. */
static HAK_NOINLINE bool free_mixed(void *block, const char *function) {
  uint32_t cls = hak_pagemap_class_in_mixed(block);
  if (HAK_UNLIKELY(cls == HAK_CLASS_NONE)) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  if (restore(block, cls, function)) {
    int saved = errno;
    hak_cache_return_one(cls, block);
    errno = saved;
  }
  return true;
}

/* `named`: the size that the caller names; HAK_UNSEALED: none. */
HAK_INLINE bool free_small(void *block, size_t named, const char *function) {
  uint32_t cls = hak_pagemap_slice_class(block);
  hak_sealed_t sealed;
  if (!is_small(cls)) {
    return cls == HAK_CLASS_MIXED && free_mixed(block, function);
  }
  if (HAK_UNLIKELY(hak_page_attributes_any()) && !restore(block, cls, function)) {
    return true;
  }
  uint64_t base = hak_seal_base(block);
  bool is_sealed = check(block, cls, function, base, &sealed);
  if (HAK_UNLIKELY(is_sealed && named != HAK_UNSEALED && sealed.asked != named)) {
    hak_misuse(function, HAK_MISUSE_WRONG_SIZE, block);
  }
  if (HAK_LIKELY(is_sealed)) {
    free_sealed(block, cls, base, sealed, function);
  } else {
    int saved = errno;
    hak_cache_return_one(cls, block);
    errno = saved;
  }
  return true;
}

void hak_hardened_free(void *block) {
  if (HAK_UNLIKELY(!free_small(block, HAK_UNSEALED, "free") && !hak_hardened_free_large(block, HAK_UNSEALED, "free"))) {
    hak_slow_free_any(block);
  }
}

void hak_hardened_free_sized(void *block, size_t bytes) {
  bool named = bytes > 0; /* a request of no bytes may have got a block with some */
  size_t size = named ? bytes : HAK_UNSEALED;
  if (HAK_UNLIKELY(!free_small(block, size, "free_sized") && !hak_hardened_free_large(block, size, "free_sized"))) {
    hak_slow_free_any(block);
  }
}

size_t hak_hardened_usable(const void *block, const char *function) {
  uint32_t cls = hak_pagemap_slice_class(block);
  hak_sealed_t sealed;
  bool known = is_small(cls) && check(block, cls, function, hak_seal_base(block), &sealed);
  return known ? sealed.asked : HAK_UNSEALED;
}

static void *resize_in_place(void *block, size_t size, hak_sealed_t was, size_t bytes) {
  uint32_t asked = was.asked;
  size_t keep = asked < bytes ? asked : bytes;
  hak_quarantine_t *quarantine = hak_heap->quarantine;
  if (quarantine) {
    hak_quarantine_enter(quarantine);
  }
  memset((char *)block + keep, 0, hak_seal_end(size, asked) * sizeof(uint64_t) - keep);
  hak_seal_put(block, size, hak_seal_base(block), (uint32_t)bytes, was.data);
  if (quarantine) {
    hak_quarantine_leave(quarantine);
  }
  return block;
}

void *hak_hardened_realloc(void *block, uint32_t cls, size_t bytes) {
  size_t size = hak_class_sizes[cls], room = size - HAK_SEAL_BYTES;
  hak_sealed_t was;
  hak_seal_read(block, size, hak_seal_base(block), &was); /* which the caller has checked */
  if (bytes <= room && (bytes >= room / 2 || size <= 2 * HAK_BLOCK_MIN)) {
    return resize_in_place(block, size, was, bytes);
  }
  int saved = errno;
  bool before = was.data && hak_hardened_type(true); /* the block stays apart from types with pointers */
  void *fresh = hak_fast_alloc(bytes);
  if (was.data) {
    hak_hardened_type(before);
  }
  if (!fresh) {
    if (bytes > room) {
      return NULL;
    }
    errno = saved;
    return resize_in_place(block, size, was, bytes);
  }
  memcpy(fresh, block, was.asked < bytes ? was.asked : bytes);
  free_small(block, HAK_UNSEALED, "realloc");
  return fresh;
}

bool hak_hardened_type(bool data) {
  int saved = errno;
  hak_heap_t *heap = hak_heap_mine();
  bool before = false;
  if (heap && hak_quarantine_open(heap)) {
    before = heap->quarantine->data;
    heap->quarantine->data = data;
  }
  errno = saved;
  return before;
}

bool hak_hardened_is_data(size_t token) {
  size_t half = hak_hard.tokens > 0 ? (hak_hard.tokens + 1) / 2 : SIZE_MAX / 2 + 1;
  return token < half && (hak_hard.tokens > 0 || token != 1);
}

/* The end of the process. */

typedef struct search {
  const void *found;
  hak_misuse_t reason;
  size_t bytes;
} search_t;

static void look_at(search_t *search, const hak_slab_t *slab, const char *block, bool free) {
  hak_sealed_t sealed;
  size_t size = slab->block_bytes;
  bool live = hak_seal_read(block, size, hak_seal_base(block), &sealed);
  if (!hak_seal_is_whole(block, size)) {
    *search = (search_t){block, HAK_MISUSE_SEAL, 0};
  } else if (live && !hak_seal_tail_is_whole(block, size, sealed.asked)) {
    *search = (search_t){block, HAK_MISUSE_TAIL, 0};
  } else if (!live && !hak_freed_is_clean(block, size, free)) {
    *search = (search_t){block, HAK_MISUSE_NOT_ZERO, 0};
  }
}

static void look_at_slab(hak_slab_t *slab, void *argument) {
  search_t *search = argument;
  bool sealed = is_small(slab->cls) && !slab->unsealed;
  for (uint32_t i = 0; sealed && i < hak_slab_bump(slab) && !search->found && search->bytes < EXIT_BYTES_MAX; i++) {
    search->bytes += slab->block_bytes;
    look_at(search, slab, slab->base + (size_t)i * slab->block_bytes, slab->bits[i / 64] >> i % 64 & 1);
  }
}

static bool skips_exit; /* the end of the process checks no block */

void hak_hardened_fork_child(hak_heap_t *mine) {
  if (mine && mine->quarantine) { /* it takes other blocks than the parent */
    mine->quarantine->random = hak_os_random();
  }
  if (hak_hard.on) {
    atomic_store_explicit(&hak_freed_releasing, 0, memory_order_relaxed);
    skips_exit |= hak_policy_caches_open() != 1;
    hak_chance_renew();
  }
}

/* The first damaged block of the process, which has one cache. */
static search_t find_damaged(void) {
  search_t search = {NULL, HAK_MISUSE_NOT_ZERO, 0};
  bool before = false;
  hak_arena_each_slab(look_at_slab, &search);
  search.found = search.found ? search.found : hak_framed_find_damaged(&search.reason);
  if (!search.found && (search.found = hak_mapped_find_damaged(&before))) {
    search.reason = before ? HAK_MISUSE_PAGE_START : HAK_MISUSE_PAGE_END;
  }
  return search;
}

/* Blocks whose pages the program protected or kept from a child cannot be read. */
void hak_hardened_exit(bool unused) {
  (void)unused;
  uint32_t begun, begun_since;
  if (!hak_hard.on || skips_exit || !hak_heap->quarantine || hak_heap->quarantine->inside ||
      hak_page_attributes_any()) {
    return;
  }
  search_t search = {hak_quarantine_find_damaged(hak_heap), HAK_MISUSE_NOT_ZERO, 0};
  if (!search.found && hak_policy_caches_open() == 1 &&
      !hak_hardened_changes(&begun)) { /* nobody else changes blocks */
    search = find_damaged();
    if (hak_hardened_changes(&begun_since) || begun != begun_since || hak_policy_caches_open() > 1) {
      return;
    }
  }
  if (search.found) {
    hak_misuse("exit", search.reason, search.found);
  }
}

/* Start-up. */

static void mark_unsealed(hak_slab_t *slab, void *unused) {
  (void)unused;
  slab->unsealed = true;
}

void hak_hardened_start(bool (*unused)(void)) {
  (void)unused;
  if (hak_option(HAK_OPTION_PROFILE) != HAK_PROFILE_HARDENED) {
    return;
  }
  hak_heap_t *heap = hak_heap_mine();
  hak_heap_flush_mine("free");
  hak_chance_renew();
  hak_gap_start();
  hak_mapped_start();
  hak_hard = (hak_hard_t){.zero = hak_option(HAK_OPTION_HARDENED_ZERO) != 0,
                          .guards = (uint8_t)hak_option_size(HAK_OPTION_HARDENED_GUARDS),
                          .tokens = hak_option_size(HAK_OPTION_HARDENED_TOKENS),
                          .regions = hak_option(HAK_OPTION_HARDENED_REGIONS) != 0,
                          .delay_bytes = (uint32_t)hak_option_size(HAK_OPTION_HARDENED_DELAY),
                          .delayed_regions = (uint32_t)hak_option_size(HAK_OPTION_HARDENED_LARGE),
                          .secrets = {hak_os_random(), hak_os_random() | 1, hak_os_random() | 1, hak_os_random() | 1}};
  hak_hard.on = true;
  if (hak_os_page_bytes() == sizeof hak_hard_page) {
    hak_os_seal(&hak_hard_page, sizeof hak_hard_page);
  }
  if (heap) {
    hak_quarantine_open(heap);
  }
  hak_arena_each_slab(mark_unsealed, NULL);
  hak_heap_force_slow(~0ULL);
}
