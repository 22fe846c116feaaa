/* Duty: a thread's free blocks in the hardened profile, by kind of slab. They wait before they are handed out again,
 * and leave in random order. Data: a heap's quarantine belongs to its thread. Every block in it has the seal of a free
 * block. Layers below: freed, slab, bin.
 *
 *   free ─> mixed (random place) ─> queue (in order) ─> ready ─> malloc takes a random one
 *                                                         └── too many ──> slabs
 */
#pragma once

#include "bin.h"
#include "freed.h"
#include "slab.h"

enum { HAK_QUARANTINE_SLOTS = 64 };

typedef struct hak_waiting_counts {
  uint32_t ready, queue_at;
  uint32_t slots; /* number of slots in use in `queue`, and also in `mixed` */
  uint32_t room;  /* most blocks that are ready */
} hak_waiting_counts_t;

typedef struct hak_waiting {
  hak_free_block_t *ready[HAK_QUARANTINE_SLOTS], *queue[HAK_QUARANTINE_SLOTS], *mixed[HAK_QUARANTINE_SLOTS];
} hak_waiting_t;

typedef struct hak_quarantine {
  uint64_t random;
  bool inside; /* the thread is changing a block; if it exits in a signal handler, no blocks are checked */
  bool data;   /* the thread allocates for types without pointers */
  hak_waiting_counts_t counts[HAK_SLAB_KINDS];
  hak_waiting_t waiting[HAK_SLAB_KINDS];
} hak_quarantine_t;

/* Make the heap's quarantine, if it has none. False: no memory. */
bool hak_quarantine_open(hak_heap_t *heap);
/* Fetch blocks from a slab. False: no memory. */
bool hak_quarantine_fill(hak_quarantine_t *quarantine, uint32_t kind);
/* Return half of the blocks that are ready, and put one there. */
HAK_NOINLINE void hak_quarantine_put_after_return(hak_quarantine_t *quarantine, uint32_t kind, hak_free_block_t *block);
/* For a thread without a quarantine: the block goes to its slab. `heap` is NULL if the thread has none. */
void hak_quarantine_put_first(hak_heap_t *heap, uint32_t cls, void *block);
/* Return all blocks to their slabs. */
void hak_quarantine_flush(hak_heap_t *heap, const char *function);

/* Number of the class's blocks that wait; of another thread's heap it may be a moment old. */
uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls);

/* For a thread without a heap: one sealed block of a slab. NULL: no memory. */
void *hak_quarantine_take_one(uint32_t cls, size_t bytes);

/* The first block of the heap's quarantine that was written to; NULL: there is none. */
const void *hak_quarantine_find_damaged(const hak_heap_t *heap);
/* A pseudo-random number below `limit`. */
HAK_INLINE uint32_t hak_random_below(hak_quarantine_t *quarantine, uint32_t limit) {
  quarantine->random = quarantine->random * 6364136223846793005U + 1;
  return (uint32_t)((quarantine->random >> 32) * limit >> 32);
}

HAK_INLINE void hak_set_inside(hak_quarantine_t *quarantine, bool inside) {
  atomic_signal_fence(memory_order_seq_cst);
  quarantine->inside = inside;
  atomic_signal_fence(memory_order_seq_cst);
}

HAK_INLINE void hak_quarantine_add_ready(hak_waiting_counts_t *counts, hak_free_block_t **ready,
                                         hak_free_block_t *block) {
  ready[counts->ready] = block;
  hak_fork_fence();
  counts->ready++;
}

/* One of the ready blocks, sealed for `bytes`. NULL: none is ready, or the block was damaged; the caller must fill the
 * quarantine. */
HAK_INLINE void *hak_quarantine_take(hak_quarantine_t *quarantine, uint32_t cls, size_t bytes) {
  bool data = quarantine->data;
  uint32_t kind = hak_slab_kind(cls, data);
  hak_waiting_counts_t *counts = &quarantine->counts[kind];
  size_t size = hak_class_sizes[cls];
  if (HAK_UNLIKELY(counts->ready == 0)) {
    return NULL;
  }
  hak_set_inside(quarantine, true);
  uint32_t last = --counts->ready, at = HAK_LIKELY(hak_hard.random) ? hak_random_below(quarantine, last + 1) : last;
  hak_free_block_t **ready = quarantine->waiting[kind].ready, *block = ready[at];
  hak_fork_fence();
  ready[at] = ready[last];
  hak_fork_fence();
  uint64_t base = hak_seal_base(block);
  bool freed = hak_seal_load(block, size) == hak_seal_of(base, HAK_SEAL_FREED);
  if (HAK_UNLIKELY(!freed || !hak_freed_is_clean(block, size, false))) {
    hak_misuse_met("malloc", freed ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
    return NULL; /* the block leaks */
  }
  hak_seal_put(block, size, base, (uint32_t)bytes, data);
  hak_set_inside(quarantine, false);
  return block;
}

/* Let a free block wait. Each store takes a block out of the structure, or puts one there that is out already. */
HAK_INLINE void hak_quarantine_put(hak_quarantine_t *quarantine, uint32_t kind, hak_free_block_t *block) {
  hak_waiting_counts_t *counts = &quarantine->counts[kind];
  hak_waiting_t *waiting = &quarantine->waiting[kind];
  hak_fork_fence(); /* the caller wiped the block */
  if (HAK_LIKELY(counts->slots > 0)) {
    uint32_t at = hak_random_below(quarantine, counts->slots);
    hak_free_block_t *older = waiting->mixed[at];
    waiting->mixed[at] = block;
    if (!older) {
      return;
    }
    hak_fork_fence();
    at = counts->queue_at < counts->slots - 1 ? counts->queue_at + 1 : 0;
    block = waiting->queue[at];
    waiting->queue[at] = older;
    counts->queue_at = at;
    if (!block) {
      return;
    }
    hak_fork_fence();
  }
  if (HAK_UNLIKELY(counts->ready == counts->room)) {
    hak_quarantine_put_after_return(quarantine, kind, block);
    return;
  }
  hak_quarantine_add_ready(counts, waiting->ready, block);
}
