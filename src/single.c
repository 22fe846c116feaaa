/* Single blocks of slabs, for callers without a thread cache, and the report of a damaged block. */
#include "slab.h"

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
