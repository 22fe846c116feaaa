#include "fast.h"

#include "foreign.h"
#include "large.h"
#include "misuse.h"

#include <errno.h>

/* Nothing calls process.c: this makes a linker that takes only what it needs from libhakmem.a take it. */
extern const char hak_process_linked;
__attribute__((used)) static const char *const process_anchor = &hak_process_linked;

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

static void *small_alloc(size_t bytes) {
  uint32_t cls = hak_class_of(bytes);
  hak_heap_t *heap = hak_heap_mine();
  if (!heap) {
    return hak_slab_take_one(cls);
  }
  if (heap->bin[cls].head) { /* making the heap allocated, and left blocks in it */
    return hak_fast_alloc(bytes);
  }
  return hak_cache_refill(heap, cls, bytes);
}

HAK_COLD void *hak_alloc_slow(size_t bytes) {
  int saved = errno;
  bool zeroed;
  void *block = bytes > HAK_SMALL_MAX ? hak_large_alloc(bytes, HAK_BLOCK_MIN, &zeroed) : small_alloc(bytes);
  if (HAK_UNLIKELY(!block)) {
    return no_memory();
  }
  hak_observe_alloc(block, bytes);
  errno = saved;
  return block;
}

static void small_free(uint32_t cls, hak_free_block_t *block) {
  if (!hak_is_block_start(block, hak_class_inverses[cls])) {
    hak_misuse("free", HAK_MISUSE_NOT_START, block);
  }
  hak_heap_t *heap = hak_heap_mine();
  if (!heap) {
    hak_slab_return_one(block, "free");
    return;
  }
  hak_bin_t *bin = &heap->bin[cls];
  if (bin->head == block || heap->shelf[cls].foreign == block) {
    hak_misuse("free", HAK_MISUSE_DOUBLE_FREE, block);
  }
  if (hak_bin_room(bin) > 0) {
    hak_bin_push(heap, bin, block);
  } else {
    hak_cache_overflow(heap, cls, block);
  }
}

HAK_COLD void hak_free_slow(void *block) {
  if (!block) {
    return;
  }
  int saved = errno;
  uint32_t cls = hak_class_at(block);
  hak_observe_free(block, cls);
  if (cls == HAK_CLASS_LARGE) {
    hak_large_free(block, "free");
  } else if (cls != HAK_CLASS_NONE) {
    small_free(cls, block);
  } else if (HAK_MINIMAL || !hak_foreign_free(block)) {
    hak_large_diagnose("free", block);
  }
  errno = saved;
}
