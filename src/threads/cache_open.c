/* A thread takes a cache; blocks that skip it. heap.c stands above, policy.c below. */
#include "cache.h"

/* Fresh memory needs no initialisation for most classes, so a thread touches only what it uses. */
void hak_cache_open(hak_heap_t *heap) {
  hak_policy_close(heap);
  for (uint32_t c = 0; c < HAK_CLASS_COUNT; c++) { /* class 0 stays empty: a request of no bytes takes the slow path */
    hak_bin_t *bin = &heap->bin[c];
    bin->head = HAK_NO_BLOCK;
    bin->end = hak_magazine_none;
    atomic_store_explicit(&bin->top, hak_magazine_none, memory_order_relaxed);
    bin->inverse = hak_class_inverses[c];
    bin->limit = c > 0 ? hak_class_limits[c] : 0;
    if (c > 0 && c <= HAK_BATCH_LAST) {
      heap->batch[c - 1] = (hak_batch_t){HAK_NO_BLOCK, hak_magazine_none};
    }
    if (c > 0 && (heap->touched >> c & 1)) {
      hak_bin_info_t *info = &heap->info[c]; /* the way to the next sample goes on: it depends on no thread */
      *info = (hak_bin_info_t){.sample_left = info->sample_left, .batch_least = info->batch_least};
    }
  }
  heap->touched = heap->sample_setting ? heap->touched : 0;
  for (uint32_t c = 0; c < HAK_RUN_FIRST; c++) {
    heap->mixed_frees[c] = 0;
  }
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_policy_open(heap, c);
  }
}

void hak_cache_return_one(uint32_t cls, hak_free_block_t *block) {
  if (hak_class_is_run(cls)) {
    hak_run_give(block, cls, "free");
  } else {
    hak_sweep_return_one(block, cls, "free");
  }
}
