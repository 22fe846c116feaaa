/* The slow paths: requests and frees that the two paths of fast.h do not serve. */
#include "hakmem.h"

#include "fast.h"
#include "foreign.h"
#include "page_attributes.h"
#include "region_api.h"
#include "sampling.h"
#include "zero_size.h"

#include <errno.h>

/* No function calls process.c. This reference makes the linker take it from libhakmem.a: the linker takes only files
 * that are referenced. */
extern const char hak_process_linked;
__attribute__((used)) static const char *const process_anchor = &hak_process_linked;

/* The newest block of the bin is damaged: report it, or pass over it. */
HAK_COLD static void *pop_sound(hak_heap_t *heap, uint32_t cls) {
  hak_bin_t *bin = &heap->bin[cls];
  void *block;
  while (!(block = hak_bin_pop(heap, bin)) && bin->head != HAK_NO_BLOCK) {
    hak_freed_damaged("malloc", bin->head);
    hak_bin_lower(heap, cls, hak_bin_settle(heap, cls) - 1);
  }
  return block;
}

/* Pop the newest block of the class's bin. NULL: the bin is empty. */
static void *pop(hak_heap_t *heap, uint32_t cls) {
  hak_bin_t *bin = &heap->bin[cls];
  void *block = hak_bin_pop(heap, bin);
  return HAK_UNLIKELY(!block && bin->head != HAK_NO_BLOCK) ? pop_sound(heap, cls) : block;
}

/* Allocate a block of a class whose bin is empty, as seen by the caller, or has a damaged block. */
static void *cached_alloc(size_t bytes, uint32_t cls, bool *zeroed) {
  hak_heap_t *heap = hak_heap_mine();
  *zeroed = false;
  if (!heap) {
    return hak_class_is_run(cls) ? hak_run_take(cls, HAK_BLOCK_MIN, zeroed) : hak_freed_take_one(cls);
  }
  if (HAK_UNLIKELY(heap->events % HAK_EVENTS_PER_ORPHAN == HAK_EVENTS_PER_ORPHAN - 1)) {
    hak_heap_adopt_orphan();
    hak_heap_age_parked();
  }
  void *block = pop(heap, cls); /* making the heap may have put blocks into the bin */
  return block ? block : hak_cache_refill(heap, cls, bytes, zeroed);
}

/* If there is no memory for another slab, try larger classes, and at last the smallest runs. The arena asks the system
 * for these even after it refused a chunk. */
static void *cached_alloc_or_larger(size_t bytes, bool *zeroed) {
  uint32_t cls = hak_class_of(bytes), last = cls < HAK_RUN_FIRST ? HAK_RUN_FIRST + 1 : HAK_CLASS_COUNT;
  void *block = NULL;
  for (; !block && cls < last; cls++) {
    block = cached_alloc(bytes, cls, zeroed);
  }
  return block;
}

/* A thread that uses only blocks that no cache serves does its share of periodic work here. */
static void pass_by(void) {
  hak_heap_t *heap = hak_heap_mine();
  if (heap) {
    hak_background_wake();
    hak_cache_scavenge_if_due(heap);
  }
}

/* A block of an alignment that no class of small blocks has, or a large one. */
static void *find_aligned(size_t bytes, size_t align, bool *zeroed) {
  if (bytes <= HAK_CACHED_MAX && align <= HAK_CHUNK_BYTES) {
    return hak_run_take(hak_run_class_of(bytes > HAK_SMALL_MAX ? bytes : HAK_SMALL_MAX + 1), align, zeroed);
  }
  return hak_huge_alloc(bytes, align, zeroed);
}

static void *find(size_t bytes, size_t align, bool *zeroed) {
  if (bytes > (hak_hard.on ? HAK_SMALL_MAX : HAK_CACHED_MAX)) {
    pass_by();
    hak_background_ensure();
  }
  if (hak_hard.on) {
    return hak_hook_hardened.part.alloc(bytes > 0 ? bytes : HAK_BLOCK_MIN, align, zeroed);
  }
  if (align > HAK_BLOCK_MIN) {
    return find_aligned(bytes, align, zeroed);
  }
  if (bytes <= HAK_CACHED_MAX) {
    return cached_alloc_or_larger(bytes, zeroed);
  }
  return hak_huge_alloc(bytes, HAK_BLOCK_MIN, zeroed);
}

bool hak_trim(size_t keep_bytes) {
  int saved = errno;
  size_t used = hak_retain_used_slices();
  hak_cache_request_flush();
  hak_heap_close_parked(UINT64_MAX);
  hak_heap_flush_mine("malloc_trim");
  hak_region_trim();
  hak_hook_hardened.trim();
  hak_depot_flush(false);
  bool any = hak_retain_used_slices() < used; /* the flush itself may have given back pages */
  any |= hak_sweep_all();
  any |= hak_purge_all(keep_bytes >> HAK_SLICE_SHIFT);
  errno = saved;
  return any;
}

/* Inside a scope, the thread's own heap is aside. */
static bool trim(void) {
  bool inside = hak_scope != NULL;
  if (inside) {
    hak_scope_suspend();
  }
  bool any = hak_trim(0);
  if (inside) {
    hak_scope_resume();
  }
  return any;
}

/* Hardened profile, and memory is short: what waits is reused. */
static bool release(size_t bytes) {
  if (hak_hard.on) {
    hak_hook_hardened.release(bytes);
  }
  return hak_hard.on;
}

static bool ask(size_t bytes) {
  bool again = hak_region_ask_process(bytes, HAK_REGION_HARD);
  if (again) {
    trim(); /* of what the program freed */
  }
  return again;
}

/* Under a memory limit, thread caches may hold all free memory: they are trimmed first. The program is asked last. A
 * request that could not fit even if the heap returned all of its memory gets no retry, and ends no delay of the
 * hardened profile. */
bool hak_slow_make_room(size_t bytes, size_t align, uint32_t *step) {
  enum { ADDRESS_BITS = 47, TRIM = 0, RELEASE, ASK, END };
  size_t whole = align > HAK_BLOCK_MIN ? bytes + align : bytes;
  if (*step == TRIM) {
    size_t held = (hak_arena_totals().mapped_slices << HAK_SLICE_SHIFT) + hak_hook_hardened.waiting_bytes();
    *step = (bytes | align) >> ADDRESS_BITS != 0 || !hak_grow_could(whole, held) ? END : TRIM;
  }
  bool more = false;
  for (; !more && *step < END; ++*step) {
    more = *step == TRIM ? trim() : *step == RELEASE ? release(whole) : ask(bytes);
  }
  return more;
}

/* The request took memory beyond the soft limit of the process. */
HAK_COLD static void *ask_soft(void *block, size_t bytes) {
  hak_limit_soft_met = false;
  if (block && !hak_region_ask_process(bytes, HAK_REGION_SOFT)) {
    hak_slow_free(block);
    return NULL;
  }
  return block;
}

bool hak_slow_may_grow(size_t usable, size_t bytes) {
  return bytes <= usable || !hak_limit_passes_soft(bytes - usable) || hak_region_ask_process(bytes, HAK_REGION_SOFT);
}

void *hak_slow_alloc_in(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, const char *function) {
  int saved = errno;
  bool starved;
  uint32_t step = 0;
  void *block;
  do {
    block = hak_region_take(region, bytes, align, zeroed, function, &starved);
  } while (starved && hak_slow_make_room(bytes, align, &step));
  block = HAK_UNLIKELY(hak_limit_soft_met) ? ask_soft(block, bytes) : block;
  if (HAK_UNLIKELY(hak_sampling_is_on()) && block) {
    hak_hook_sampler.in_region(block, bytes);
  }
  errno = block ? saved : ENOMEM;
  return block;
}

HAK_NOINLINE static void *alloc(size_t bytes, size_t align, bool *zeroed) {
  int saved = errno;
  bool plain = align == HAK_BLOCK_MIN;
  void *block = plain && bytes == 0 ? hak_zero_size_take() : NULL;
  if (block) {
    *zeroed = true;
    errno = saved;
    return block;
  }
  bool watched = HAK_UNLIKELY(hak_sampling_is_on());
  if (HAK_UNLIKELY(hak_scope != NULL)) {
    return hak_slow_alloc_in(hak_scope_region(), bytes, align, zeroed, "malloc");
  }
  *zeroed = false; /* the content of a sampled block is unknown */
  block = watched && plain && bytes <= HAK_SMALL_MAX ? hak_hook_sampler.part.alloc(bytes, HAK_BLOCK_MIN, zeroed) : NULL;
  if (!block) {
    block = find(bytes, align, zeroed);
    for (uint32_t step = 0; HAK_UNLIKELY(!block) && hak_slow_make_room(bytes, align, &step);) {
      block = find(bytes, align, zeroed);
    }
    block = HAK_UNLIKELY(hak_limit_soft_met) ? ask_soft(block, bytes) : block;
    if (watched && block) {
      hak_hook_sampler.allocated(block, bytes);
    }
  }
  if (HAK_UNLIKELY(!block)) {
    hak_hook_sampler.refused(bytes);
    return hak_slow_no_memory();
  }
  errno = saved;
  return block;
}

void *hak_slow_alloc_any(size_t bytes, size_t align) {
  bool zeroed;
  return alloc(bytes, align, &zeroed);
}

HAK_COLD void *hak_slow_alloc(size_t bytes) {
  return HAK_UNLIKELY(hak_hard.on) ? hak_hook_hardened.malloc(bytes) : hak_slow_alloc_any(bytes, HAK_BLOCK_MIN);
}

void *hak_slow_alloc_zeroed(size_t bytes, bool *zeroed) {
  if (bytes > HAK_SMALL_MAX && bytes <= HAK_CACHED_MAX && HAK_LIKELY(!hak_sampling_is_on())) {
    void *block = pop(hak_heap, hak_run_class_of(bytes));
    if (HAK_LIKELY(block != NULL)) {
      *zeroed = false;
      return block;
    }
  }
  return alloc(bytes, HAK_BLOCK_MIN, zeroed);
}

HAK_NOINLINE void *hak_slow_alloc_large(size_t bytes) {
  bool zeroed;
  return hak_slow_alloc_zeroed(bytes, &zeroed);
}

void *hak_slow_no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

static void cached_free(uint32_t cls, hak_free_block_t *block) {
  hak_heap_t *heap = hak_heap_mine();
  /* The tag may be a stale copy inside a live block; confirm before reporting. */
  if (hak_is_marked_free(block) && hak_heap_holds(block, cls)) {
    hak_misuse("free", HAK_MISUSE_DOUBLE_FREE, block);
  }
  bool retires = heap && hak_pagemap_slice_class(block) == HAK_CLASS_MIXED && hak_policy_retires(heap, cls);
  if (!heap || retires) {
    hak_cache_return_one(cls, block);
  } else if (!hak_bin_push(heap, &heap->bin[cls], block)) {
    hak_cache_overflow(heap, cls, block);
  }
}

void hak_slow_free_any(void *block) {
  if (!block) {
    return;
  }
  int saved = errno;
  uint32_t cls = hak_pagemap_class(block);
  if (hak_heap_forces_slow(hak_pagemap_slice_class(block)) && !hak_page_attributes_restore(block, cls, "free")) {
    errno = saved;
    return; /* the block leaks, so no other thread gets it either */
  }
  if (cls == HAK_CLASS_SAMPLED && (cls = hak_hook_sampler.free(block)) == HAK_CLASS_NONE) {
    errno = saved;
    return;
  }
  if (cls != HAK_CLASS_NONE && !hak_pagemap_is_start(block, cls)) {
    hak_misuse("free", HAK_MISUSE_NOT_START, block);
  }
  if (cls == HAK_CLASS_HUGE) {
    hak_verify_edges(block, cls);
    hak_huge_free(block, "free");
    pass_by();
  } else if (cls != HAK_CLASS_NONE) {
    cached_free(cls, block);
  } else if (hak_zero_size_owns(block)) {
    hak_zero_size_give(block, "free");
  } else if (!hak_region_api_free(block)) {
    hak_foreign_owner(block, "free")->free(block);
  }
  errno = saved;
}

HAK_COLD void hak_slow_free(void *block) {
  bool inside = HAK_UNLIKELY(hak_scope != NULL);
  if (inside) {
    hak_scope_suspend();
  }
  if (HAK_UNLIKELY(hak_hard.on)) {
    hak_hook_hardened.free(block);
  } else {
    hak_slow_free_any(block);
  }
  if (inside) {
    hak_scope_resume();
  }
}
