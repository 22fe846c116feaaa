/* Duty: gate ALLOC_PASSDOWN: the slow path of an allocation takes the heap and the class that the fast path has found,
 * instead of finding them again (slow.c).
 * Data: the calling thread's heap. Layers below: heap, observe, gates. */
#ifndef HAK_PASSDOWN_H
#define HAK_PASSDOWN_H

#include "gates.h"
#include "heap.h"
#include "observe.h"

#include <errno.h>

HAK_COLD void *hak_alloc_slow(size_t bytes);

/* The thread's list of the class is empty. */
static HAK_COLD __attribute__((unused)) void *hak_alloc_miss(hak_heap_t *heap, uint32_t cls, size_t bytes) {
  if (heap == &hak_heap_none || heap == &hak_heap_gone) {
    return hak_alloc_slow(bytes);
  }
  int saved = errno;
  void *block = hak_cache_refill(heap, cls, bytes);
  if (HAK_UNLIKELY(!block)) {
    errno = ENOMEM;
    return NULL;
  }
  hak_observe_alloc(block, bytes);
  errno = saved;
  return block;
}

HAK_INLINE void *hak_fast_alloc_misses(hak_heap_t *heap, uint32_t cls, size_t bytes) {
  return HAK_GATE_ALLOC_PASSDOWN ? hak_alloc_miss(heap, cls, bytes) : hak_alloc_slow(bytes);
}

#endif
