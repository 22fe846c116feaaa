/* Duty: gates TINY_C3..C6_INLINE_SLOTS: the newest free blocks of a class in an array, in front of the class's list.
 * malloc takes from the array and then from the list, free gives to the array and, when it is full, to the list.
 * Data: one array a class in the heap of a thread; other threads read `count` for statistics and nothing else.
 * Layers below: slab, types, gates.
 *
 *   count inverse | NULL | block 1 | ... | block 14        a pair of cache lines
 *                                     newest = block[count]; NULL where there is none
 *
 * A block in an array has the tag  address ^ key of the heap  (see hak_slots_tagged); its link says nothing, and nobody
 * follows it. The array is no part of the list's limit. Where an option says how many blocks of the class a thread may
 * have, the array is closed: full of NULL, so that nothing goes in and nothing comes out. */
#ifndef HAK_SLOTS_H
#define HAK_SLOTS_H

#include "gates.h"
#include "misuse.h"
#include "slab.h"

enum {
  HAK_SLOTS_BYTES = 2 * HAK_CACHE_LINE,
  HAK_SLOTS_MAX = HAK_SLOTS_BYTES / 8 - 2,

  HAK_SLOTS_CLASS_STEP = 4, /* classes of a band */
  HAK_SLOTS_LOW_BAND = HAK_GATE_TINY_C3_INLINE_SLOTS   ? 3
                       : HAK_GATE_TINY_C4_INLINE_SLOTS ? 4
                       : HAK_GATE_TINY_C5_INLINE_SLOTS ? 5
                       : HAK_GATE_TINY_C6_INLINE_SLOTS ? 6
                                                       : 7,
  HAK_SLOTS_HIGH_BAND = HAK_GATE_TINY_C6_INLINE_SLOTS   ? 6
                        : HAK_GATE_TINY_C5_INLINE_SLOTS ? 5
                        : HAK_GATE_TINY_C4_INLINE_SLOTS ? 4
                        : HAK_GATE_TINY_C3_INLINE_SLOTS ? 3
                                                        : 7,
  HAK_SLOTS_FIRST = HAK_SLOTS_CLASS_STEP * HAK_SLOTS_LOW_BAND - 3,
  HAK_SLOTS_LAST = HAK_SLOTS_CLASS_STEP * HAK_SLOTS_HIGH_BAND,
  HAK_SLOTS_ARRAYS = HAK_SLOTS_BANDS != 0 ? HAK_SLOTS_LAST - HAK_SLOTS_FIRST + 1 : 0,
  HAK_SLOTS_WITHOUT_GAP = HAK_SLOTS_BANDS == (2 << HAK_SLOTS_HIGH_BAND) - (1 << HAK_SLOTS_LOW_BAND),
};

#define HAK_CLASS(index, bytes, below, band) \
  _Static_assert((band) < 3   ? (index) + 3 < 12 \
                 : (band) > 7 ? (index) + 3 >= 32 \
                              : ((index) + 3) / 4 == (band), \
                 "class " #index ": bands from C3 up have four classes each");
#include "classes.def"
#undef HAK_CLASS

typedef struct hak_slots {
  _Alignas(HAK_CACHE_LINE) _Atomic uint32_t count;
  uint32_t inverse; /* of the class's block size: free needs nothing of the bin */
  hak_free_block_t *block[HAK_SLOTS_MAX + 1];
} hak_slots_t;

_Static_assert(sizeof(hak_slots_t) == HAK_SLOTS_BYTES, "a pair of cache lines");

/* Whether the class has an array. */
HAK_INLINE bool hak_slots_serve(uint32_t cls) {
  if (HAK_SLOTS_WITHOUT_GAP) {
    return cls >= HAK_SLOTS_FIRST && cls <= HAK_SLOTS_LAST;
  }
  return HAK_SLOTS_BANDS >> (cls + 3) / HAK_SLOTS_CLASS_STEP & 1;
}

HAK_INLINE uint32_t hak_slots_count(const hak_slots_t *slots) {
  return atomic_load_explicit(&slots->count, memory_order_relaxed);
}
HAK_INLINE void hak_slots_set_count(hak_slots_t *slots, uint32_t count) {
  atomic_store_explicit(&slots->count, count, memory_order_relaxed);
}
HAK_INLINE hak_free_block_t *hak_slots_newest(const hak_slots_t *slots) {
  return slots->block[hak_slots_count(slots)];
}
/* Blocks in the array, open or closed; for the owner. */
HAK_INLINE uint32_t hak_slots_held(const hak_slots_t *slots) {
  return hak_slots_newest(slots) ? hak_slots_count(slots) : 0;
}

/* `block` is the newest of `count`, and verified. */
HAK_INLINE void hak_slots_pop(hak_slots_t *slots, uint32_t count, hak_free_block_t *block) {
  hak_slots_set_count(slots, count - 1);
  block->tag = (uintptr_t)block;
}

/* There are `count`, fewer than HAK_SLOTS_MAX. */
HAK_INLINE void hak_slots_push(hak_slots_t *slots, uint32_t count, hak_free_block_t *block, uintptr_t key) {
  block->tag = (uintptr_t)block ^ key;
  slots->block[count + 1] = block;
  atomic_signal_fence(memory_order_release); /* a fork between the two loses the block */
  hak_slots_set_count(slots, count + 1);
}

static inline void hak_slots_open(hak_slots_t *slots, uint32_t cls, bool open) {
  HAK_ASSERT(!hak_slots_newest(slots));
  for (uint32_t i = 0; i <= HAK_SLOTS_MAX; i++) {
    slots->block[i] = NULL;
  }
  slots->inverse = hak_class_inverses[cls];
  hak_slots_set_count(slots, open ? 0 : HAK_SLOTS_MAX);
}

/* The block is in the array and its tag is not the array's: freed twice if it went to a list since. This never returns,
 * but the compiler must not know: as a function's last call it is a jump then, and the fast path needs no stack frame.
 */
static HAK_COLD __attribute__((unused)) void *hak_slots_damaged(const char *function, const hak_free_block_t *block,
                                                                uintptr_t key) {
  bool always = true;
  __asm__("" : "+r"(always));
  if (((uintptr_t)block->link ^ block->tag) == key) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  if (always) {
    hak_slab_damaged(function, block);
  }
  return NULL;
}

/* Empty the array: its blocks as a chain under `key`. `function` NULL, for a thread that a fork left behind: leave out
 * what does not fit. */
static inline hak_free_block_t *hak_slots_take_all(hak_slots_t *slots, uintptr_t key, const char *function) {
  hak_free_block_t *chain = NULL;
  uint32_t count = hak_slots_held(slots);
  if (count) {
    hak_slots_set_count(slots, 0);
  }
  for (uint32_t i = 1; i <= count; i++) {
    hak_free_block_t *block = slots->block[i];
    if (hak_slots_tagged(block, key)) {
      block->link = chain;
      block->tag = (uintptr_t)chain ^ key;
      chain = block;
    } else if (function) {
      hak_slots_damaged(function, block, key);
    }
  }
  return chain;
}

static inline bool hak_slots_hold(const hak_slots_t *slots, const hak_free_block_t *wanted) {
  bool found = false;
  for (uint32_t i = hak_slots_held(slots); i > 0; i--) {
    found |= slots->block[i] == wanted;
  }
  return found;
}

/* Verify every block and leave its own address for a tag, so that meeting it once more shows. */
static inline void hak_slots_mark(hak_slots_t *slots, uintptr_t key, const char *function) {
  for (uint32_t i = hak_slots_held(slots); i > 0; i--) {
    hak_free_block_t *block = slots->block[i];
    if (!hak_slots_tagged(block, key)) {
      hak_slots_damaged(function, block, key);
    }
    if (hak_slab_holds(block)) {
      hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
    }
    block->tag = (uintptr_t)block;
  }
}

static inline void hak_slots_unmark(hak_slots_t *slots, uintptr_t key) {
  for (uint32_t i = hak_slots_held(slots); i > 0; i--) {
    slots->block[i]->tag = (uintptr_t)slots->block[i] ^ key;
  }
}

static inline void hak_slots_check(const hak_slots_t *slots, uint32_t cls, uintptr_t key) {
  HAK_VERIFY(hak_slots_count(slots) <= HAK_SLOTS_MAX && !slots->block[0]);
  for (uint32_t i = hak_slots_held(slots); i > 0; i--) {
    HAK_VERIFY(hak_class_at(slots->block[i]) == cls && hak_is_block_start(slots->block[i], slots->inverse));
    HAK_VERIFY(hak_slots_tagged(slots->block[i], key));
  }
}

#endif
