/* Allocation at a wider alignment than every block has. */
#include "hakmem.h"

#include "fast.h"
#include "huge.h"
#include "os.h"
#include "run.h"

#include <errno.h>

static bool is_power_of_two(size_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

/* A class whose blocks are aligned so; or, without memory for it, of a larger one, whose blocks perhaps are not. */
static void *alloc_of_aligned_class(size_t alignment, size_t bytes) {
  char *block = hak_fast_alloc(bytes);
  if (HAK_UNLIKELY(((uintptr_t)block & (alignment - 1)) != 0)) {
    hak_fast_free(block);
    return hak_no_memory();
  }
  return block;
}

/* `alignment` is a power of two. */
static void *alloc_aligned(size_t alignment, size_t bytes) {
  bool zeroed;
  if (alignment <= HAK_BLOCK_MIN) {
    return hak_fast_alloc(bytes);
  }
  if (bytes <= HAK_SMALL_MAX && alignment <= HAK_SMALL_MAX) {
    /* A slab begins at a multiple of any such alignment, so a class whose size is one will do; powers of two are. */
    uint32_t cls = hak_class_of(bytes > alignment ? bytes : alignment);
    while (hak_class_sizes[cls] % alignment != 0) {
      cls++;
    }
    return alloc_of_aligned_class(alignment, hak_class_sizes[cls]);
  }
  if (bytes <= HAK_CACHED_MAX && alignment <= HAK_SLICE_BYTES) {
    return hak_fast_alloc(bytes); /* a run */
  }
  int saved = errno;
  void *block;
  if (bytes <= HAK_CACHED_MAX && alignment <= HAK_CHUNK_BYTES) {
    block = hak_run_take(hak_run_class_of(bytes > HAK_SMALL_MAX ? bytes : HAK_SMALL_MAX + 1), alignment, &zeroed);
  } else {
    block = hak_huge_alloc(bytes, alignment, &zeroed);
  }
  if (!block) {
    return hak_no_memory();
  }
  errno = saved;
  return block;
}

void *hak_aligned_alloc(size_t alignment, size_t bytes) {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return NULL;
  }
  return alloc_aligned(alignment, bytes);
}

void *hak_memalign(size_t alignment, size_t bytes) {
  if (alignment > PTRDIFF_MAX) {
    errno = EINVAL;
    return NULL;
  }
  size_t power = HAK_BLOCK_MIN;
  while (power < alignment) {
    power *= 2;
  }
  return alloc_aligned(power, bytes);
}

int hak_posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0) {
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
    return hak_no_memory();
  }
  return alloc_aligned(page, hak_round_up(bytes ? bytes : 1, page));
}
