/* Duty: the two paths that nearly every call takes: pop a block, push a block. Inlined into each entry point.
 * Data: the calling thread's heap; no lock, no atomic read-modify-write. Layers below: heap, cache. */
#ifndef HAK_FAST_H
#define HAK_FAST_H

#include "dispatch.h"
#include "free_calls.h"
#include "heap.h"
#include "observe.h"
#include "passdown.h"

/* The rest, in slow.c; hak_alloc_slow is declared in passdown.h. */
HAK_COLD void hak_free_slow(void *block);

/* The address of the bin in one register: the compiler would otherwise derive that of each field anew. */
HAK_INLINE hak_bin_t *hak_bin_of(hak_heap_t *heap, size_t cls) {
  hak_bin_t *bin = &heap->bin[cls];
  __asm__("" : "+r"(bin));
  return bin;
}

HAK_INLINE hak_slots_t *hak_slots_in_register(hak_heap_t *heap, uint32_t cls) {
  hak_slots_t *slots = hak_slots_of(heap, cls);
  __asm__("" : "+r"(slots));
  return slots;
}

HAK_INLINE void *hak_fast_alloc(size_t bytes) {
  if (HAK_UNLIKELY(bytes > HAK_SMALL_MAX)) {
    return hak_alloc_slow(bytes);
  }
  hak_heap_t *heap = hak_heap;
  hak_route_t route = hak_route_of_request(bytes);
  uint32_t cls = route.cls;
  if (route.slots) {
    hak_slots_t *slots = hak_slots_in_register(heap, cls);
    uint32_t count = hak_slots_count(slots);
    hak_free_block_t *block = slots->block[count];
    if (HAK_LIKELY(block)) {
      if (HAK_UNLIKELY(!hak_slots_tagged(block, heap->key))) {
        return hak_slots_damaged("malloc", block, heap->key);
      }
      hak_slots_pop(slots, count, block);
      hak_observe_alloc(block, bytes);
      return block;
    }
  }
  hak_bin_t *bin = hak_bin_of(heap, cls);
  hak_free_block_t *block = bin->head;
  if (HAK_UNLIKELY(!block)) {
    return hak_fast_alloc_misses(heap, cls, bytes);
  }
  hak_free_block_t *next = block->link;
  if (HAK_UNLIKELY(((uintptr_t)next ^ block->tag) != heap->key)) {
    hak_slab_damaged("malloc", block); /* freed twice, or written to while it was free */
  }
  __builtin_prefetch(next); /* the next call's block, which may be long out of the cache */
  bin->head = next;
  hak_count_up(hak_bin_room_of(bin));
  block->tag = (uintptr_t)block; /* no longer free: a second list that holds it will notice */
  hak_observe_alloc(block, bytes);
  return block;
}

/* True: the block was dealt with. False: the slots are full. */
HAK_INLINE bool hak_fast_free_to_slots(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_slots_t *slots = hak_slots_in_register(heap, cls);
  uint32_t count = hak_slots_count(slots);
  bool freed_in_a_row = slots->block[count] == block;
  if (HAK_UNLIKELY(!hak_is_block_start(block, slots->inverse) || freed_in_a_row)) {
    hak_free_slow(block);
    return true;
  }
  if (HAK_UNLIKELY(count == HAK_SLOTS_MAX)) {
    return false;
  }
  hak_slots_push(slots, count, block, heap->key);
  hak_observe_free(block, cls);
  return true;
}

HAK_INLINE void hak_fast_free(void *pointer) {
  hak_count_free_call();
  hak_heap_t *heap = hak_heap;
  hak_free_block_t *block = pointer;
  size_t unit = hak_unit_of(block);
  if (HAK_UNLIKELY(unit >= hak_window.units)) { /* NULL among them */
    hak_free_slow(block);
    return;
  }
  uint32_t cls = hak_window.classes[unit];
  if (hak_slots_serve(cls) && hak_fast_free_to_slots(heap, cls, block)) {
    return;
  }
  hak_bin_t *bin = hak_bin_of(heap, cls);
  if (HAK_UNLIKELY(!hak_is_block_start(block, *hak_bin_inverse_of(bin)))) {
    hak_free_slow(block);
    return;
  }
  hak_free_block_t *head = bin->head;
  if (HAK_UNLIKELY(head == block)) { /* freed twice in a row */
    hak_free_slow(block);
    return;
  }
  if (HAK_UNLIKELY(hak_count_down(hak_bin_room_of(bin)))) {
    hak_count_up(hak_bin_room_of(bin));
    hak_free_slow(block);
    return;
  }
  hak_observe_free(block, cls);
  block->link = head;
  block->tag = (uintptr_t)head ^ heap->key;
  bin->head = block;
}

#endif
