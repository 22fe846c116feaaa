/* The hak_ functions. The standard names (override.c) and the C++ operators (operators.c) rest on these. */
#include "hakmem.h"

#include "arena.h"
#include "fast.h"
#include "foreign.h"
#include "large.h"
#include "misuse.h"
#include "options.h"
#include "os.h"

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

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void *hak_calloc(size_t count, size_t bytes) {
  size_t total;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, bytes, &total))) {
    return no_memory();
  }
  if (HAK_LIKELY(total <= HAK_SMALL_MAX)) {
    void *block = hak_fast_alloc(total);
    return HAK_LIKELY(block != NULL) ? memset(block, 0, total < HAK_BLOCK_MIN ? HAK_BLOCK_MIN : total) : NULL;
  }
  bool zeroed;
  void *block = hak_large_alloc(total, HAK_BLOCK_MIN, &zeroed);
  if (!block) {
    return no_memory();
  }
  return zeroed ? block : memset(block, 0, total);
}

/* The usable size of a block that must be live; aborts on anything else. */
static size_t checked_usable(const void *block, uint32_t cls, const char *function) {
  if (cls == HAK_CLASS_NONE) {
    hak_large_diagnose(function, block);
  }
  if (cls == HAK_CLASS_LARGE) {
    if (hak_unit_offset(block) != 0) {
      hak_misuse(function, HAK_MISUSE_NOT_START, block);
    }
    return hak_large_usable(block);
  }
  if (!hak_is_block_start(block, hak_class_inverses[cls])) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  /* The words of a live block are its owner's, and may be stale copies: what looks free is looked for. */
  const hak_free_block_t *words = block;
  bool like_cached = ((uintptr_t)words->link ^ words->tag) == hak_heap->key;
  if ((like_cached && hak_cache_holds(hak_heap, cls, words)) || (hak_slab_tagged(words) && hak_slab_holds(words))) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  return hak_class_sizes[cls];
}

static void *copy_to_new(void *block, size_t usable, size_t bytes) {
  void *fresh = hak_fast_alloc(bytes);
  if (fresh) {
    memcpy(fresh, block, usable < bytes ? usable : bytes);
    hak_fast_free(block);
  }
  return fresh;
}

void *hak_realloc(void *block, size_t bytes) {
  if (!block) {
    return hak_fast_alloc(bytes);
  }
  if (bytes == 0) {
    hak_fast_free(block);
    return NULL;
  }
  uint32_t cls = hak_class_at(block);
  void *result;
  if (HAK_UNLIKELY(cls == HAK_CLASS_NONE) && hak_foreign_realloc(block, bytes, &result)) {
    return result;
  }
  size_t usable = checked_usable(block, cls, "realloc");
  if (bytes > PTRDIFF_MAX) {
    return no_memory();
  }
  if (cls != HAK_CLASS_LARGE || bytes <= HAK_SMALL_MAX) {
    /* In place unless it does not fit, or more than half would be idle. */
    bool fits = bytes <= usable && (cls != HAK_CLASS_LARGE) && (bytes >= usable / 2 || usable <= 2 * HAK_BLOCK_MIN);
    int saved = errno;
    void *copy = fits ? block : copy_to_new(block, usable, bytes);
    if (!copy && bytes <= usable) { /* without memory a smaller block may stay where it is */
      errno = saved;
      return block;
    }
    return copy;
  }
  if (hak_large_resize(block, bytes)) {
    return block;
  }
  void *moved = hak_large_move(block, bytes);
  return moved ? moved : no_memory();
}

void *hak_reallocarray(void *block, size_t count, size_t bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    return no_memory();
  }
  return hak_realloc(block, total);
}

static bool is_power_of_two(size_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

/* `alignment` is a power of two. */
static void *alloc_aligned(size_t alignment, size_t bytes) {
  if (alignment <= HAK_BLOCK_MIN) {
    return hak_fast_alloc(bytes);
  }
  if (bytes <= HAK_SMALL_MAX && alignment <= HAK_SMALL_MAX) {
    /* A slab begins at a multiple of any such alignment, so a class whose size is one will do; powers of two are. */
    uint32_t cls = hak_class_of(bytes > alignment ? bytes : alignment);
    while (hak_class_sizes[cls] % alignment != 0) {
      cls++;
    }
    return hak_fast_alloc(hak_class_sizes[cls]);
  }
  bool zeroed;
  void *block = hak_large_alloc(bytes, alignment, &zeroed);
  return block ? block : no_memory();
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
    return no_memory();
  }
  return alloc_aligned(page, hak_round_up(bytes ? bytes : 1, page));
}

size_t hak_malloc_usable_size(const void *block) {
  if (!block) {
    return 0;
  }
  uint32_t cls = hak_class_at(block);
  size_t usable;
  if (cls == HAK_CLASS_NONE && hak_foreign_usable(block, &usable)) {
    return usable;
  }
  return checked_usable(block, cls, "malloc_usable_size");
}

static void check_size(const void *block, size_t bytes) {
#ifdef NDEBUG
  (void)block;
  (void)bytes;
#else
  if (block && hak_class_at(block) != HAK_CLASS_NONE && bytes > hak_malloc_usable_size(block)) {
    hak_misuse("free_sized", HAK_MISUSE_WRONG_SIZE, block);
  }
#endif
}

void hak_free_sized(void *block, size_t bytes) {
  check_size(block, bytes);
  hak_fast_free(block);
}

void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  (void)alignment;
  check_size(block, bytes);
  hak_fast_free(block);
}

bool hak_trim(size_t keep_bytes) {
  int saved = errno;
  hak_cache_request_flush();
  hak_heap_flush_mine("malloc_trim");
  bool any = hak_slab_discard_sparse();
  any |= hak_arena_purge(keep_bytes >> HAK_UNIT_SHIFT);
  errno = saved;
  return any;
}

void hak_thread_flush(void) {
  int saved = errno;
  hak_heap_flush_mine("free");
  errno = saved;
}

int hak_option_get(const char *name, char *value, size_t capacity) {
  return hak_options_get(name, value, capacity);
}

int hak_option_set(const char *name, const char *value) {
  return hak_options_set(name, value);
}

void hak_check(void) {
  hak_heap_check();
  hak_slab_check();
  hak_arena_check();
}
