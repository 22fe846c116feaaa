/* realloc, and the usable size of blocks. */
#include "hakmem.h"

#include "fast.h"
#include "foreign.h"
#include "page_attributes.h"
#include "sampling.h"
#include "zero_size.h"

#include <errno.h>
#include <string.h>

/* The usable size of a block that must be live; aborts on anything else. */
static size_t checked_usable(const void *block, uint32_t cls, const char *function) {
  if (cls == HAK_CLASS_SAMPLED) {
    return hak_hook_sampler.part.usable(block, function);
  }
  size_t asked = hak_hard.on ? hak_hook_hardened.part.usable(block, function) : HAK_UNSEALED;
  if (HAK_UNLIKELY(asked != HAK_UNSEALED)) {
    return asked;
  }
  if (!hak_pagemap_is_start(block, cls)) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  if (cls == HAK_CLASS_HUGE) {
    return hak_huge_usable(block);
  }
  /* The words of a live block belong to the program, and may be copies of a free block's. So a block that looks free is
   * searched for. */
  if (HAK_UNLIKELY(hak_is_marked_free(block)) && hak_heap_holds(block, cls)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  return hak_class_sizes[cls];
}

/* Whether the block stays: the size fits, and at most an eighth is unused, or no other class would waste less. */
static bool fits(size_t usable, size_t bytes) {
  if (bytes > usable) {
    return false;
  }
  if (usable <= HAK_RESIZE_LITTLE) {
    return bytes >= usable / 2 || usable <= 2 * HAK_BLOCK_MIN;
  }
  return usable - bytes <= usable / HAK_RESIZE_UNUSED_PART ||
         (bytes <= HAK_CACHED_MAX && hak_class_sizes[hak_class_of(bytes)] >= usable);
}

/* Resize a block of a slab to a size of a slab. Nearly every call of realloc is of this kind, apart from those that
 * allocate. */
HAK_NOINLINE static void *resize_small(void *block, uint32_t cls, size_t bytes) {
  size_t usable = hak_class_sizes[cls];
  if (HAK_UNLIKELY(!hak_pagemap_is_start(block, cls) || hak_is_marked_free(block))) {
    checked_usable(block, cls, "realloc"); /* aborts, unless the tag is a stale copy */
  }
  if (fits(usable, bytes)) {
    return block;
  }
  int saved = bytes < usable ? errno : 0;
  void *fresh = hak_fast_alloc(bytes);
  if (HAK_UNLIKELY(!fresh)) {
    if (bytes > usable) {
      return NULL;
    }
    errno = saved;
    return block;
  }
  memcpy(fresh, block, usable < bytes ? usable : bytes);
  hak_fast_free(block);
  return fresh;
}

static void *copy_to_new(void *block, size_t usable, size_t bytes) {
  bool zeroed = false;
  void *fresh = bytes > HAK_SMALL_MAX ? hak_slow_alloc_zeroed(bytes, &zeroed) : hak_fast_alloc(bytes);
  size_t part = usable < bytes ? usable : bytes;
  if (fresh && part > HAK_SMALL_MAX) {
    hak_move_copy(fresh, block, part, zeroed);
  } else if (fresh) {
    memcpy(fresh, block, part);
  }
  if (fresh) {
    hak_fast_free(block);
  }
  return fresh;
}

/* False: not done. The block is unchanged, or is now a huge one; the caller moves it. Only a block that is already
 * large enough may stay if there is no memory. */
static bool resize_in_place(void *block, uint32_t cls, size_t usable, size_t bytes) {
  /* A huge block with a large alignment may be as small as a run. It grows in its chunk. */
  if (cls == HAK_CLASS_HUGE && (bytes > HAK_CACHED_MAX || bytes > usable)) {
    return hak_huge_resize(block, bytes);
  }
  if (fits(usable, bytes)) {
    return true;
  }
  if (cls == HAK_CLASS_HUGE) {
    return bytes > HAK_RESIZE_COPIED_MAX && hak_huge_to_run(block, hak_run_class_of(bytes));
  }
  if (!hak_class_is_run(cls) || bytes <= HAK_SMALL_MAX) {
    return false;
  }
  return bytes <= HAK_CACHED_MAX ? hak_run_resize(block, cls, hak_run_class_of(bytes))
                                 : hak_huge_from_run(block, cls, bytes);
}

static bool is_large(uint32_t cls) {
  return hak_class_is_run(cls) || cls == HAK_CLASS_HUGE;
}

static size_t large_bytes(const void *block) {
  return hak_block_usable(block, hak_pagemap_class(block));
}

/* When a block shrinks within its class, the bytes behind the new size may be resident. Discard them if they are many.
 */
static void discard_behind(void *block, size_t before, size_t bytes) {
  size_t after = large_bytes(block);
  if (after < before && after - bytes > bytes / (before >= HAK_RESIZE_DROPPED_FROM ? HAK_RESIZE_UNUSED_PART
                                                                                   : HAK_RESIZE_UNUSED_PART / 2)) {
    hak_huge_chunks_discard_behind(block, bytes, after);
  }
}

static void *move_huge(void *block, size_t bytes) {
  void *fresh = hak_huge_move(block, bytes);
  for (uint32_t step = 0; !fresh && hak_slow_make_room(bytes, HAK_BLOCK_MIN, &step);) {
    fresh = hak_huge_move(block, bytes);
  }
  return fresh;
}

static void *resize(void *block, uint32_t cls, size_t bytes) {
  size_t usable = checked_usable(block, cls, "realloc");
  if (bytes > PTRDIFF_MAX) {
    return hak_slow_no_memory();
  }
  int saved = errno;
  void *fresh = block;
  bool copied = false;
  if (!resize_in_place(block, cls, usable, bytes)) {
    copied = cls != HAK_CLASS_HUGE || bytes <= usable;
    fresh = copied ? copy_to_new(block, usable, bytes) : move_huge(block, bytes);
  }
  if (!fresh && bytes > usable) {
    return hak_slow_no_memory();
  }
  if (HAK_UNLIKELY(hak_sampling_is_on()) && !copied && is_large(cls) && large_bytes(fresh) != usable) {
    hak_hook_sampler.allocated(fresh, bytes); /* counts the block as freed and allocated again */
  }
  if (fresh && !copied && is_large(cls)) {
    discard_behind(fresh, usable, bytes);
  }
  errno = saved;
  return fresh ? fresh : block; /* without memory a shrunk block may stay in place */
}

/* During the call, a run or huge block is no sample. It becomes one again if nothing changes. */
static void *resize_sampled(void *block, size_t bytes) {
  struct hak_sample *sample = hak_hook_sampler.lift(block);
  uint32_t cls = hak_pagemap_class(block);
  size_t before = sample ? large_bytes(block) : 0;
  void *fresh = resize(block, cls, bytes);
  if (sample) {
    hak_hook_sampler.put_back(
        sample, fresh && (fresh != block || hak_pagemap_class(block) != cls || large_bytes(block) != before));
  }
  return fresh;
}

static void *resize_empty(void *block, size_t bytes) {
  hak_zero_size_check(block, "realloc");
  void *fresh = bytes <= PTRDIFF_MAX ? hak_fast_alloc(bytes) : hak_slow_no_memory();
  if (fresh) {
    hak_zero_size_give(block, "realloc");
  }
  return fresh;
}

/* A framed run of the hardened profile may begin in the slice that shows its class. */
static bool is_hardened_large(const void *block, uint32_t cls) {
  return hak_hard.on && hak_class_is_run(cls) && hak_hook_hardened.owner(block);
}

static void *resize_any(void *block, uint32_t cls, size_t bytes) {
  if (HAK_UNLIKELY(cls == HAK_CLASS_NONE || is_hardened_large(block, cls))) {
    if (hak_zero_size_owns(block)) {
      return resize_empty(block, bytes);
    }
    return hak_foreign_owner(block, "realloc")->realloc(block, bytes);
  }
  if (hak_heap_forces_slow(cls) && !hak_page_attributes_restore(block, cls, "realloc")) {
    return hak_slow_no_memory();
  }
  if (hak_hard.on && hak_hook_hardened.part.usable(block, "realloc") != HAK_UNSEALED) {
    return hak_hook_hardened.realloc(block, cls, bytes);
  }
  return HAK_UNLIKELY(cls == HAK_CLASS_SAMPLED) ? resize_sampled(block, bytes) : resize(block, cls, bytes);
}

HAK_NOINLINE static void *resize_other(void *block, uint32_t cls, size_t bytes) {
  if (bytes == 0) {
    hak_fast_free(block);
    return NULL;
  }
  if (HAK_UNLIKELY(hak_limit_soft_bytes() > 0) && !hak_slow_may_grow(hak_malloc_usable_size(block), bytes)) {
    return hak_slow_no_memory();
  }
  void *fresh = resize_any(block, cls, bytes);
  hak_limit_soft_met = false; /* the program was asked */
  return fresh;
}

void *hak_realloc(void *block, size_t bytes) {
  if (!block) {
    return hak_fast_alloc(bytes);
  }
  uint32_t cls = hak_pagemap_class(block);
  bool small = cls - 1 < HAK_RUN_FIRST - 1 && bytes - 1 < HAK_SMALL_MAX;
  return HAK_LIKELY(small && !hak_heap_forces_slow(cls)) ? resize_small(block, cls, bytes)
                                                         : resize_other(block, cls, bytes);
}

HAK_OWN(hak_own_realloc, hak_realloc);

void *hak_reallocarray(void *block, size_t count, size_t bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    return hak_slow_no_memory();
  }
  return hak_realloc(block, total);
}

size_t hak_malloc_usable_size(const void *block) {
  if (!block) {
    return 0;
  }
  uint32_t cls = hak_pagemap_class(block);
  if (cls == HAK_CLASS_NONE && hak_zero_size_owns(block)) {
    hak_zero_size_check(block, "malloc_usable_size");
    return 0;
  }
  if (cls == HAK_CLASS_NONE || is_hardened_large(block, cls)) {
    return hak_foreign_owner(block, "malloc_usable_size")->usable(block);
  }
  return checked_usable(block, cls, "malloc_usable_size");
}
HAK_OWN(hak_own_usable, hak_malloc_usable_size);

void hak_free_sized(void *block, size_t bytes) {
  if (HAK_UNLIKELY(hak_hard.on) && block) {
    hak_hook_hardened.free_sized(block, bytes);
    return;
  }
  if (HAK_DEBUG && block && hak_pagemap_class(block) != HAK_CLASS_NONE && bytes > hak_malloc_usable_size(block)) {
    hak_misuse("free_sized", HAK_MISUSE_WRONG_SIZE, block);
  }
  hak_fast_free(block);
}

/* pvalloc rounds sizes up to pages, but its callers may pass the size that they asked for. */
void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  bool whole_pages = alignment >= hak_os_page_bytes();
  hak_free_sized(block, whole_pages ? 0 : bytes);
}
