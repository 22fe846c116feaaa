/* Single blocks of slabs, for callers without a thread cache; the key of free blocks; the report of a damaged block. */
#include "slab.h"
#include "system/os.h"

void hak_slab_init(void) {
  if (atomic_load_explicit(&hak_key, memory_order_relaxed) == 0) { /* several threads may do this at once */
    uintptr_t none = 0, random = (uintptr_t)hak_os_random() | (uintptr_t)1 << 63;
    atomic_compare_exchange_strong_explicit(&hak_key, &none, random, memory_order_relaxed, memory_order_relaxed);
  }
}

HAK_COLD void hak_slab_damaged(const char *function, const hak_free_block_t *block) {
  hak_misuse_met(function, hak_is_marked_taken(block) ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_CORRUPTED, block);
}

void *hak_slab_take_one(uint32_t kind) {
  hak_free_block_t *block = NULL;
  while (!block) {
    hak_slab_t *slab = hak_slab_acquire(kind);
    if (!slab) {
      return NULL;
    }
    hak_slab_take(slab, &block, 1, false);
    hak_slab_drop(slab);
    if (block && !hak_is_marked_free(block)) {
      hak_slab_damaged("malloc", block);
      block = NULL;
    }
  }
  return hak_mark_taken(block);
}
