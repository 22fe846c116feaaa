/* Duty: arrays of pointers to free blocks, in sizes that double.
 * Data: lists of dropped arrays (meta.h). Layers below: types, meta, os. */
#pragma once

#include "base/base.h"

/* slots[0] holds HAK_NO_BLOCK; slots[1 .. size] hold blocks. */
typedef struct hak_magazine {
  _Atomic(hak_free_block_t **) slots; /* hak_magazine_slots reads it */
  _Atomic uint32_t size;              /* 0: it is HAK_MAGAZINE_NONE, or is changing */
} hak_magazine_t;

extern hak_free_block_t *hak_magazine_none[2];
/* Zeros, so that fresh memory holds this state. */
#define HAK_MAGAZINE_NONE ((hak_magazine_t){NULL, 0})

/* The magazine belongs to one thread, or is under its owner's lock. */
HAK_INLINE hak_free_block_t **hak_magazine_slots(const hak_magazine_t *magazine) {
  hak_free_block_t **slots = atomic_load_explicit(&magazine->slots, memory_order_relaxed);
  return slots ? slots : hak_magazine_none + 1;
}

HAK_INLINE uint32_t hak_magazine_size(const hak_magazine_t *magazine) {
  return atomic_load_explicit(&magazine->size, memory_order_relaxed);
}

/* Set the magazine, in an order of stores that never lets a reader see the old slots with the new size, or the
 * reverse. */
HAK_INLINE void hak_magazine_set(hak_magazine_t *magazine, const hak_magazine_t *to) {
  atomic_store_explicit(&magazine->size, 0, memory_order_relaxed);
  hak_fork_fence();
  atomic_store_explicit(&magazine->slots, atomic_load_explicit(&to->slots, memory_order_relaxed), memory_order_relaxed);
  hak_fork_fence();
  atomic_store_explicit(&magazine->size, hak_magazine_size(to), memory_order_relaxed);
}

enum { HAK_MAGAZINE_LEAST_SHIFT = 3, HAK_MAGAZINE_MAX_SHIFT = 18 };
enum { HAK_MAGAZINE_LEAST = 1 << HAK_MAGAZINE_LEAST_SHIFT, HAK_MAGAZINE_MAX = 1 << HAK_MAGAZINE_MAX_SHIFT };

/* Make one for at least `blocks` blocks. False: no memory, or more than HAK_MAGAZINE_MAX. */
bool hak_magazine_make(hak_magazine_t *magazine, uint32_t blocks);
/* Recycle the array; the magazine is HAK_MAGAZINE_NONE afterwards. */
void hak_magazine_drop(hak_magazine_t *magazine);
