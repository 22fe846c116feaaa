/* Duty: the two paths that nearly every call takes: pop a block, push a block. Inlined into each entry point.
 * Data: the calling thread's heap; no lock, no atomic read-modify-write. Layers below: heap, cache. */
#pragma once

#include "heap.h"
#include "observe.h"
#include "pagemap.h"
#include "slab.h"

/* The rest, in slow.c. */
HAK_COLD void *hak_alloc_slow(size_t bytes);
HAK_COLD void hak_free_slow(void *block);
/* HAK_SMALL_MAX < bytes */
HAK_NOINLINE void *hak_alloc_large(size_t bytes);
/* As malloc; *zeroed: all of it reads as zeros. */
void *hak_alloc_tell_zeroed(size_t bytes, bool *zeroed);
/* NULL, with ENOMEM. */
void *hak_no_memory(void);

/* So many words behind the first bin or grant. The address in one register: the compiler would otherwise derive that of
 * each field anew. */
HAK_INLINE hak_bin_t *hak_bin_behind(void *first, size_t words) {
  hak_bin_t *bin = (hak_bin_t *)(void *)((uintptr_t *)first + words);
  __asm__("" : "+r"(bin));
  return bin;
}

/* The first block of the list. NULL: the list is empty; or the block was freed twice, or written to while it was free.
 */
HAK_INLINE void *hak_bin_pop(hak_heap_t *heap, hak_bin_t *bin) {
  hak_free_block_t *block = bin->head, *next = block->link;
  if (HAK_UNLIKELY(((uintptr_t)next ^ block->tag) != heap->key)) {
    return NULL;
  }
  __builtin_prefetch(next); /* the next call's block, which may be long out of the cache */
  bin->head = next;
  hak_count_up(&bin->room);
  hak_mark_taken(block); /* a second list that holds it will notice */
  return block;
}

HAK_INLINE void *hak_fast_alloc(size_t bytes) {
  if (HAK_UNLIKELY(bytes > HAK_SMALL_MAX)) {
    return hak_alloc_large(bytes);
  }
  hak_heap_t *heap = hak_heap;
  void *block = hak_bin_pop(heap, hak_bin_behind(heap->grant, hak_small_code(bytes)));
  if (HAK_UNLIKELY(!block)) {
    return hak_alloc_slow(bytes);
  }
  HAK_OBSERVE(hak_observe_alloc(block, bytes));
  return block;
}

HAK_INLINE void hak_fast_free(void *pointer) {
  hak_heap_t *heap = hak_heap;
  hak_free_block_t *block = pointer;
  uintptr_t leaf = hak_leaf_of(block);
  if (HAK_UNLIKELY(leaf == 0)) { /* NULL among them */
    hak_free_slow(block);
    return;
  }
  size_t code = atomic_load_explicit(hak_code_at(leaf, block), memory_order_relaxed);
  hak_bin_t *bin = hak_bin_behind(heap->bin, code);
  if (HAK_UNLIKELY(!hak_is_block_start(block, bin->inverse, bin->limit))) {
    hak_free_slow(block);
    return;
  }
  hak_free_block_t *head = bin->head;
  if (HAK_UNLIKELY(head == block)) { /* freed twice in a row */
    hak_free_slow(block);
    return;
  }
  if (HAK_UNLIKELY(hak_count_down(&bin->room))) {
    hak_count_up(&bin->room);
    hak_free_slow(block);
    return;
  }
  HAK_OBSERVE(hak_observe_free(block, code / HAK_BIN_WORDS));
  block->link = head; /* hak_link, but the key is read after this: an instruction less */
  block->tag = (uintptr_t)head ^ heap->key;
  bin->head = block;
}
