/* How malloc gets blocks that were counted: a thread's grants, which its bins fill. */
#include "sample.h"

#include "cache.h"
#include "lent.h"
#include "slab.h"

enum {
  GRANT_BLOCKS = 64,      /* worth a call: with fewer in its cycle a class asks for more, */
  GRANT_BYTES = 20 << 10, /* up to so many bytes of them, */
  GRANT_FIRST_BLOCKS = 8, /* a few first */
};

/* A class with few blocks in its cycle gets more of them, step by step, as far as memory for that goes. */
static void ask_for_more(hak_heap_t *heap, uint32_t cls, uint32_t has) {
  uint32_t most = GRANT_BYTES / hak_class_sizes[cls], more = has + GRANT_FIRST_BLOCKS;
  hak_bin_info_t *info = &heap->info[cls];
  most = most < GRANT_BLOCKS ? most : GRANT_BLOCKS;
  info->grant_least = most;
  if (has >= most) {
    return;
  }
  more = more < most - has ? more : most - has;
  if (!hak_lend(heap, cls, more)) {
    info->grant_least = 1;
  } else if (heap->bin[cls].head == HAK_LIST_END) {
    hak_cache_stock(heap, cls, more);
  }
}

void hak_sample_grant_rest(size_t bytes) {
  hak_heap_t *heap = hak_heap;
  uint32_t cls = hak_class_of(bytes);
  if (cls > HAK_GRANT_LAST || !hak_sample_takes(heap->sample_setting) || heap->grant[cls - 1].head != HAK_LIST_END) {
    return;
  }
  hak_bin_info_t *info = &heap->info[cls];
  bool closed = atomic_load_explicit(&info->closed, memory_order_relaxed);
  uint32_t has = closed ? 0 : (uint32_t)(hak_bin_capacity(info) - hak_bin_room(&heap->bin[cls]));
  uint32_t granted = has < info->sample_left ? has : info->sample_left;
  if (granted > 0) {
    info->sample_left -= granted;
    hak_grant_some(heap, cls, (int32_t)granted);
  }
  if (!closed) {
    ask_for_more(heap, cls, has + 1);
  }
}
