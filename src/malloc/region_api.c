/* The hak_region_ functions of hakmem.h, and the way from an ordinary call to a region. */
#include "region_api.h"

#include "fast.h"
#include "hakmem.h"
#include "regions/regions.h"
#include "sampling.h"

#include <errno.h>
#include <string.h>

static bool is_process(const hak_region_t *region) {
  return region == &hak_region_root;
}

/* NULL: errno is ENOMEM. Else it is as before. */
static void *take(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, const char *function) {
  *zeroed = false;
  return !is_process(region)      ? hak_slow_alloc_in(region, bytes, align, zeroed, function)
         : align <= HAK_BLOCK_MIN ? hak_malloc(bytes)
                                  : hak_aligned_alloc(align, bytes);
}

/* The block stays in its region. One that moved, or whose size changed, counts as freed and allocated again. */
static void *resize(hak_piece_t *piece, void *block, size_t bytes, const char *function) {
  int saved = errno;
  bool starved, watched = HAK_UNLIKELY(hak_sampling_is_on());
  size_t before = watched ? hak_region_usable(piece, block, function) : 0;
  uint32_t step = 0;
  void *fresh;
  do {
    fresh = hak_region_resize(piece, block, bytes, function, &starved);
  } while (!fresh && starved && hak_slow_make_room(bytes, HAK_BLOCK_MIN, &step));
  hak_limit_soft_met = false;
  if (watched && fresh && (fresh != block || hak_region_usable(hak_piece_at(fresh), fresh, function) != before)) {
    hak_hook_sampler.in_region(fresh, bytes);
  }
  errno = fresh ? saved : ENOMEM;
  return fresh;
}

hak_region_t *hak_region_new(const hak_region_options_t *options) {
  static const hak_region_options_t none;
  const hak_region_options_t *asked = options ? options : &none;
  int saved = errno;
  if (asked->memory && hak_maps_is_shared(asked->memory, asked->memory_bytes)) {
    errno = ENOTSUP;
    return NULL;
  }
  hak_region_t *region = hak_region_make(is_process(asked->parent) ? NULL : asked->parent, asked->name);
  if (!region) {
    return hak_slow_no_memory();
  }
  hak_region_limit(region, asked->soft_limit, asked->hard_limit);
  hak_region_set_callback(region, asked->on_limit, asked->user);
  region->given = asked->memory != NULL;
  if (asked->memory && !hak_piece_adopt(region, asked->memory, asked->memory_bytes)) {
    hak_region_end(region, false, "hak_region_new");
    errno = EINVAL;
    return NULL;
  }
  errno = saved;
  return region;
}

hak_region_t *hak_region_process(void) {
  return &hak_region_root;
}

void hak_region_on_limit(hak_region_t *region,
                         bool (*on_limit)(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit,
                                          void *user),
                         void *user) {
  hak_region_expect(region, "hak_region_on_limit");
  hak_region_set_callback(region, on_limit, user);
}

void hak_region_limit(hak_region_t *region, size_t soft, size_t hard) {
  if (is_process(region)) {
    hak_limit_set(soft, hard);
    return;
  }
  hak_region_expect(region, "hak_region_limit");
  atomic_store_explicit(&region->soft, soft > 0 ? soft : SIZE_MAX, memory_order_relaxed);
  atomic_store_explicit(&region->hard, hard > 0 ? hard : SIZE_MAX, memory_order_relaxed);
}

void *hak_region_malloc(hak_region_t *region, size_t bytes) {
  bool zeroed;
  return take(region, bytes, HAK_BLOCK_MIN, &zeroed, "hak_region_malloc");
}

void *hak_region_calloc(hak_region_t *region, size_t count, size_t bytes) {
  size_t total;
  bool zeroed;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    return hak_slow_no_memory();
  }
  void *block = take(region, total, HAK_BLOCK_MIN, &zeroed, "hak_region_calloc");
  if (block && !zeroed) {
    hak_move_zero(block, total);
  }
  return block;
}

void *hak_region_aligned_alloc(hak_region_t *region, size_t alignment, size_t bytes) {
  bool zeroed;
  if (!hak_is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  return take(region, bytes, alignment > HAK_BLOCK_MIN ? alignment : HAK_BLOCK_MIN, &zeroed,
              "hak_region_aligned_alloc");
}

/* `fresh` NULL: there is no memory, and the block stays. */
static void *move_to(void *fresh, void *block, size_t usable, size_t bytes) {
  if (fresh) {
    memcpy(fresh, block, usable < bytes ? usable : bytes);
    hak_free(block);
  }
  return fresh;
}

void *hak_region_realloc(hak_region_t *region, void *block, size_t bytes) {
  if (!block) {
    return hak_region_malloc(region, bytes);
  }
  if (is_process(region) && !hak_region_of(block)) {
    return hak_realloc(block, bytes);
  }
  hak_region_expect(region, "hak_region_realloc");
  if (bytes == 0) {
    hak_free(block);
    return NULL;
  }
  hak_piece_t *piece = hak_pagemap_slice_class(block) == HAK_CLASS_NONE ? hak_piece_at(block) : NULL;
  if (!piece || atomic_load_explicit(&piece->region, memory_order_relaxed) != region) {
    size_t usable = hak_malloc_usable_size(block); /* of the ordinary heap, or another region */
    return move_to(hak_region_malloc(region, bytes), block, usable, bytes);
  }
  if (HAK_UNLIKELY(hak_limit_soft_bytes() > 0) &&
      !hak_slow_may_grow(hak_region_usable(piece, block, "hak_region_realloc"), bytes)) {
    return hak_slow_no_memory();
  }
  return resize(piece, block, bytes, "hak_region_realloc");
}

bool hak_region_enter(hak_region_t *region) {
  int saved = errno;
  bool entered = hak_scope_begin(region);
  errno = entered ? saved : ENOMEM;
  return entered;
}

void hak_region_leave(hak_region_t *region) {
  int saved = errno;
  hak_scope_end(region);
  errno = saved;
}

static void expect_not_process(const hak_region_t *region, const char *function) {
  if (is_process(region)) {
    hak_misuse(function, HAK_MISUSE_REGION_PROCESS, region);
  }
}

void hak_region_retire(hak_region_t *region) {
  int saved = errno;
  expect_not_process(region, "hak_region_retire");
  hak_region_close(region);
  errno = saved;
}

void hak_region_reset(hak_region_t *region) {
  int saved = errno;
  expect_not_process(region, "hak_region_reset");
  hak_region_end_blocks(region);
  errno = saved;
}

static void end(hak_region_t *region, bool keep, const char *function) {
  int saved = errno;
  expect_not_process(region, function);
  hak_region_end(region, keep, function);
  errno = saved;
}

void hak_region_destroy(hak_region_t *region) {
  end(region, false, "hak_region_destroy");
}

void hak_region_release(hak_region_t *region) {
  end(region, true, "hak_region_release");
}

static hak_region_usage_t usage_of_process(void) {
  hak_arena_totals_t totals = hak_arena_totals();
  return (hak_region_usage_t){.live_bytes = (totals.used_slices + totals.apart_slices) << HAK_SLICE_SHIFT,
                              .used_bytes = hak_limit_used_bytes(),
                              .peak_bytes = totals.peak_slices << HAK_SLICE_SHIFT,
                              .limit_bytes = hak_limit_bytes()};
}

bool hak_region_usage(const hak_region_t *region, hak_region_usage_t *usage) {
  hak_region_t *asked = (hak_region_t *)(uintptr_t)region;
  if (is_process(region)) {
    *usage = usage_of_process();
    return true;
  }
  hak_lock(&asked->lock);
  bool is = hak_region_is_open(asked);
  if (is) {
    size_t hard = atomic_load_explicit(&asked->hard, memory_order_relaxed);
    *usage = (hak_region_usage_t){.live_bytes = asked->live_bytes,
                                  .live_blocks = asked->live_blocks,
                                  .used_bytes = atomic_load_explicit(&asked->used, memory_order_relaxed),
                                  .peak_bytes = atomic_load_explicit(&asked->peak, memory_order_relaxed),
                                  .limit_bytes = hard == SIZE_MAX ? 0 : hard,
                                  .allocated_bytes = asked->allocated,
                                  .freed_bytes = asked->freed};
  }
  hak_unlock(&asked->lock);
  return is;
}

const char *hak_region_name(const hak_region_t *region) {
  hak_region_expect((hak_region_t *)(uintptr_t)region, "hak_region_name");
  return region->name;
}

hak_region_t *hak_region_of(const void *block) {
  hak_piece_t *piece = block && hak_pagemap_slice_class(block) == HAK_CLASS_NONE ? hak_piece_at(block) : NULL;
  return piece && !hak_region_is_released(piece) ? atomic_load_explicit(&piece->region, memory_order_relaxed) : NULL;
}

int hak_region_walk(hak_region_t *region, int (*visit)(void *block, size_t bytes, void *context), void *context) {
  expect_not_process(region, "hak_region_walk");
  return hak_region_visit(region, visit, context);
}

static unsigned percent(size_t part, size_t whole) {
  return whole > 0 ? (unsigned)(part * 100 / whole) : 100;
}

unsigned hak_utilisation(const void *block) {
  uint32_t cls = hak_pagemap_slice_class(block);
  if (cls == HAK_CLASS_NONE) {
    const hak_piece_t *piece = hak_piece_at(block);
    return piece && piece->is_span ? percent(piece->live_steps, piece->at - piece->first) : 100;
  }
  if (cls >= HAK_RUN_FIRST) {
    return 100;
  }
  const hak_slab_t *slab = hak_pagemap_slab(block);
  uint32_t made = hak_slab_bump(slab), free = hak_slab_count(slab);
  return percent(made > free ? made - free : 0, slab->blocks);
}

/* The ordinary functions, for a block of a region. */

static bool owns(const void *block) {
  return hak_piece_at(block) != NULL;
}

bool hak_region_api_free(void *block) {
  hak_piece_t *piece = hak_piece_at(block);
  if (piece) {
    hak_region_put(piece, block, "free");
  }
  return piece != NULL;
}

static void own_free(void *block) {
  hak_region_api_free(block);
}

static void *own_realloc(void *block, size_t bytes) {
  hak_piece_t *piece = hak_piece_at(block);
  if (bytes == 0) {
    own_free(block);
    return NULL;
  }
  void *fresh = hak_region_is_released(piece) ? NULL : resize(piece, block, bytes, "realloc");
  if (!fresh && hak_region_is_released(piece)) { /* perhaps meanwhile */
    size_t usable = hak_region_usable(piece, block, "realloc");
    return move_to(hak_fast_alloc(bytes), block, usable, bytes);
  }
  return fresh;
}

static size_t own_usable(const void *block) {
  return hak_region_usable(hak_piece_at(block), block, "malloc_usable_size");
}

const hak_owner_t *hak_region_api_owner(const void *block) {
  static const hak_owner_t owner = {NULL, owns, own_free, own_realloc, own_usable};
  return owns(block) ? &owner : NULL;
}
