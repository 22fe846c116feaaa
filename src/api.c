/* The hak_ functions, but for resize.c, aligned.c, options.c and stats.c. The standard names (override.c) and the C++
 * operators (operators.c) rest on these. */
#include "hakmem.h"

#include "arena.h"
#include "fast.h"
#include "slab.h"
#include "transfer.h"

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

void *hak_calloc(size_t count, size_t bytes) {
  size_t total;
  if (HAK_UNLIKELY(__builtin_mul_overflow(count, bytes, &total))) {
    errno = ENOMEM;
    return NULL;
  }
  if (HAK_LIKELY(total <= HAK_SMALL_MAX)) {
    void *block = hak_fast_alloc(total);
    return HAK_LIKELY(block != NULL) ? memset(block, 0, total < HAK_BLOCK_MIN ? HAK_BLOCK_MIN : total) : NULL;
  }
  bool zeroed;
  void *block = hak_alloc_tell_zeroed(total, &zeroed);
  return block && !zeroed ? memset(block, 0, total) : block;
}

bool hak_trim(size_t keep_bytes) {
  int saved = errno;
  hak_cache_request_flush();
  hak_heap_flush_mine("malloc_trim");
  hak_transfer_flush();
  bool any = hak_slab_discard_sparse();
  any |= hak_arena_purge(keep_bytes >> HAK_SLICE_SHIFT);
  errno = saved;
  return any;
}

void hak_thread_flush(void) {
  int saved = errno;
  hak_heap_flush_mine("free");
  errno = saved;
}

void hak_check(void) {
  hak_heap_check();
  hak_slab_check();
  hak_arena_check();
}
