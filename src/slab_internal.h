/* Duty: what slab.c (exchange of blocks) and sweep.c (passes over many slabs) share.
 * Data: the classes' lists, each under its own lock, and the key of blocks in slabs, set once at start-up.
 * Layers below: slab. */
#pragma once

#include "lock.h"
#include "slab.h"

typedef struct hak_slab_class {
  hak_lock_t lock;
  hak_slab_t *first, *last; /* LISTED slabs; the one that waited longest comes first, for it has most to give */
} __attribute__((aligned(2 * HAK_CACHE_LINE))) hak_slab_class_t;

extern hak_slab_class_t hak_slab_classes[HAK_RUN_FIRST];

HAK_INLINE uint32_t hak_slab_carved(const hak_slab_t *slab) {
  return atomic_load_explicit(&slab->carved, memory_order_relaxed);
}
/* Of free blocks; may be a moment old. */
HAK_INLINE uint32_t hak_slab_count(const hak_slab_t *slab) {
  return atomic_load_explicit(&slab->control, memory_order_relaxed) >> HAK_SLAB_COUNT_SHIFT;
}

/* A slab is sparse when at most one carved block in 32 is out, or a single one. Slabs of a few large blocks are not:
 * they come and go too quickly for calls to pay. */
HAK_INLINE uint32_t hak_slab_sparse_from(uint32_t carved) {
  enum { CARVED_MIN = 8 };
  uint32_t out = carved / 32;
  return carved < CARVED_MIN ? UINT32_MAX : carved - (out > 0 ? out : 1);
}

/* A LISTED slab becomes CURRENT, the caller's. */
void hak_slab_hold_locked(hak_slab_t *slab);

/* Sets bits of a word, without a change of the count. One that is set already is of a block freed twice: aborts. */
void hak_slab_put_back(hak_slab_t *slab, uint32_t w, uint64_t bits, const char *function);

/* A listed slab came to have few blocks out: from time to time this starts a pass over all of them. */
void hak_slab_became_sparse(void);
