/* Duty: gate TINY_FREE_CALLS: one counter of all calls of free, as telemetry that is always on would have it.
 * Data: hak_free_calls, relaxed; nothing is ordered by it. It has a cache line to itself: the idea under test is an
 * atomic addition, not the loss of a line that every call reads. Layers below: base, gates. */
#ifndef HAK_FREE_CALLS_H
#define HAK_FREE_CALLS_H

#include "base.h"
#include "gates.h"

typedef struct hak_free_calls {
  _Alignas(HAK_CACHE_LINE) _Atomic uint64_t count;
} hak_free_calls_t;

extern hak_free_calls_t hak_free_calls;

HAK_INLINE void hak_count_free_call(void) {
  if (HAK_GATE_TINY_FREE_CALLS) {
    atomic_fetch_add_explicit(&hak_free_calls.count, 1, memory_order_relaxed);
  }
}

#endif
