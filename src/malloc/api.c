/* The hak_ functions, except those in resize.c, slow.c, options.c and stats.c. The standard names (override.c) and the
 * C++ operators (operators.c) are built on them. */
#include "hakmem.h"

#include "fast.h"
#include "foreign.h"
#include "regions/regions.h"
#include "sampling.h"

#include <errno.h>
#include <string.h>

int hak_version(void) {
  return HAKMEM_VERSION;
}

HAK_ENTRY void *hak_malloc(size_t bytes) {
  return hak_fast_alloc(bytes);
}

HAK_ENTRY void hak_free(void *block) {
  hak_fast_free(block);
}
HAK_OWN(hak_own_free, hak_free);

/* Zeros all usable bytes, not only the requested ones: a free block holds two words of the allocator, which may reach
 * beyond a small request. */
HAK_NOINLINE static void *calloc_slow(size_t total) {
  bool zeroed;
  void *block = hak_slow_alloc_zeroed(total, &zeroed);
  if (block && !zeroed) {
    hak_move_zero(block, total < HAK_BLOCK_MIN ? hak_malloc_usable_size(block) : total);
  }
  return block;
}

void *hak_calloc(size_t count, size_t bytes) {
  size_t total;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, bytes, &total))) {
    return hak_slow_no_memory();
  }
  if (HAK_LIKELY(total - 1 < HAK_SMALL_MAX)) {
    void *block = hak_fast_alloc_from(hak_heap, total);
    return HAK_LIKELY(block != NULL) ? memset(block, 0, total < HAK_BLOCK_MIN ? HAK_BLOCK_MIN : total)
                                     : calloc_slow(total);
  }
  return calloc_slow(total);
}

static size_t next_power_of_two(size_t n) {
  size_t power = HAK_BLOCK_MIN;
  while (power < n) {
    power *= 2;
  }
  return power;
}

/* The size of a class whose blocks have this alignment. Slabs are aligned to any such power of two, so a class whose
 * size is a multiple of the alignment will do. */
static size_t aligned_size(size_t alignment, size_t bytes) {
  uint32_t cls = hak_class_of(bytes > 0 ? hak_round_up(bytes, alignment) : alignment);
  while ((hak_class_sizes[cls] & (alignment - 1)) != 0) {
    cls++;
  }
  return hak_class_sizes[cls];
}

HAK_NOINLINE static void *alloc_aligned_slow(size_t alignment, size_t bytes) {
  if (HAK_UNLIKELY(hak_scope != NULL) || (hak_hard.on && alignment > HAK_BLOCK_MIN)) {
    return hak_slow_alloc_any(bytes, alignment);
  }
  bool as_run = bytes > HAK_SMALL_MAX && bytes <= HAK_CACHED_MAX && alignment <= HAK_SLICE_BYTES;
  if (alignment <= HAK_BLOCK_MIN || as_run) {
    return hak_fast_alloc(bytes);
  }
  if (bytes > HAK_SLAB_BYTES / 2 && bytes <= HAK_SMALL_MAX && (HAK_SMALL_MAX & (alignment - 1)) != 0) {
    return alloc_aligned_slow(alignment, HAK_SMALL_MAX + 1); /* a run */
  }
  if (bytes <= HAK_SMALL_MAX && alignment <= HAK_SMALL_MAX) {
    void *block = hak_fast_alloc(aligned_size(alignment, bytes));
    if (HAK_UNLIKELY(((uintptr_t)block & (alignment - 1)) != 0)) { /* low memory: it is of a larger class */
      hak_fast_free(block);
      return hak_slow_no_memory();
    }
    return block;
  }
  return hak_slow_alloc_any(bytes, alignment);
}

/* `alignment` is a power of two. */
HAK_INLINE void *alloc_aligned(size_t alignment, size_t bytes) {
  bool small = bytes - 1 < HAK_SLAB_BYTES / 2 && alignment <= HAK_SLAB_BYTES / 2;
  void *block = HAK_LIKELY(small) ? hak_fast_alloc_from(hak_heap, aligned_size(alignment, bytes)) : NULL;
  return HAK_LIKELY(block != NULL) ? block : alloc_aligned_slow(alignment, bytes);
}

/* Aligned to the next power of two: glibc before 2.38 accepts any alignment, and programs rely on it. A program for a
 * later glibc, or for C17, gets a block instead of EINVAL. */
void *hak_aligned_alloc(size_t alignment, size_t bytes) {
  return hak_memalign(alignment, bytes);
}

void *hak_memalign(size_t alignment, size_t bytes) {
  if (alignment > PTRDIFF_MAX + (size_t)1) {
    errno = EINVAL;
    return NULL;
  }
  return alloc_aligned(hak_is_power_of_two(alignment) ? alignment : next_power_of_two(alignment), bytes);
}

int hak_posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (!hak_is_power_of_two(alignment) || alignment % sizeof(void *) != 0) {
    return EINVAL;
  }
  int saved = errno;
  void *fresh = alloc_aligned(alignment, bytes);
  errno = saved;
  if (!fresh) {
    return ENOMEM;
  }
  *block = fresh;
  return 0;
}

void *hak_valloc(size_t bytes) {
  return alloc_aligned(hak_os_page_bytes(), bytes);
}

void *hak_pvalloc(size_t bytes) {
  size_t page = hak_os_page_bytes();
  if (bytes > PTRDIFF_MAX) {
    return hak_slow_no_memory();
  }
  return alloc_aligned(page, hak_round_up(bytes ? bytes : 1, page));
}

void hak_thread_flush(void) {
  int saved = errno;
  hak_heap_flush_mine("free");
  errno = saved;
}

void hak_check(void) {
  hak_heap_check();
  hak_sweep_check();
  hak_arena_check();
  hak_region_check();
  hak_hook_sampler.check();
}
