/* Room in a thread's bins: a larger magazine, and the limit to which a bin fills. cache.c stands above. */
#include "bin.h"

uint32_t hak_bin_settle(hak_heap_t *heap, uint32_t cls) {
  uint32_t blocks = hak_bin_blocks(heap, cls);
  if (blocks == 0 || heap->bin[cls].head == HAK_NO_BLOCK) {
    return 0;
  }
  hak_bin_slots(heap, cls)[blocks] = heap->bin[cls].head;
  return blocks;
}

void hak_bin_lower(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_free_block_t **slots = hak_bin_slots(heap, cls);
  atomic_store_explicit(&heap->bin[cls].top, slots + blocks - 1, memory_order_relaxed);
  hak_fork_fence();
  heap->bin[cls].head = slots[blocks];
  hak_fork_fence(); /* the caller passes the blocks on, or moves them */
  hak_bin_set_end(heap, cls);
}

void hak_bin_raise(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_free_block_t **slots = hak_bin_slots(heap, cls);
  hak_fork_fence(); /* the caller wrote the slots */
  heap->bin[cls].head = slots[blocks];
  hak_fork_fence();
  atomic_store_explicit(&heap->bin[cls].top, slots + blocks - 1, memory_order_relaxed);
  hak_bin_set_end(heap, cls);
}

bool hak_bin_reserve(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_magazine_t *magazine = &heap->info[cls].magazine, had = *magazine, made;
  if (blocks <= had.size) {
    return true;
  }
  if (blocks <= HAK_MAGAZINE_LEAST && heap->first_magazines < HAK_FIRST_MAGAZINES) {
    hak_free_block_t **slots = heap->first_slots[heap->first_magazines++];
    slots[0] = HAK_NO_BLOCK;
    made = (hak_magazine_t){slots, HAK_MAGAZINE_LEAST};
  } else if (!hak_magazine_make(&made, blocks)) {
    return false;
  }
  uint32_t count = hak_bin_settle(heap, cls);
  HAK_ASSERT(heap->info[cls].remote_count == 0); /* a remote-free buffer already has a magazine that is large enough */
  hak_copy_words(hak_magazine_slots(&made) + 1, hak_magazine_slots(&had) + 1, count);
  hak_bin_lower(heap, cls, 0);
  hak_magazine_set(magazine, &made);
  hak_bin_raise(heap, cls, count);
  hak_magazine_drop(&had);
  return true;
}

size_t hak_bins_bytes(const hak_heap_t *heap) {
  size_t bytes = 0;
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    bytes += (size_t)hak_bin_blocks(heap, c) * hak_class_sizes[c];
  }
  return bytes;
}
