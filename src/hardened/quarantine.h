/* Duty: free blocks of the hardened profile, by kind of slab. Such blocks wait before they are handed out again, and
 * leave in random order. Data: a heap's quarantine belongs to its thread. Every block here has the seal of a free
 * block. Layers below: policy, freed, slab, bin.
 *
 *   free ─> mixed (random place) ─> queue (in order) ─> ready ─> malloc takes a random one
 *             │                       │                   └── too many ──> slabs
 *             └── the thread ends ────┴─> arrays of ended threads (in order) ──> slabs */
#pragma once

#include "ended.h"
#include "threads/threads.h"

/* The blocks of one kind. The array has `slots` places for `mixed`, as many for the queue, and `room` for ready ones:
 *
 *   [ mixed: a block or NULL ][ queue: a block or NULL ][ ready blocks, without a gap ]
 */
typedef struct hak_waiting {
  hak_magazine_t array;   /* size 0: no block of the kind was freed or requested yet */
  uint32_t ready, room;   /* number of ready blocks, and its maximum */
  uint32_t slots;         /* places in `mixed`, and in the queue */
  uint32_t queue_at;      /* place of the queue's newest block */
  _Atomic uint32_t count; /* blocks in `mixed` and the queue, for statistics */
} hak_waiting_t;

typedef struct hak_quarantine {
  uint64_t random;
  uint32_t releases_seen;
  uint32_t inside; /* changes of blocks or slabs that the thread has begun: those that a signal handler interrupted
                    * count as well. If the handler ends the process, no blocks are checked */
  bool data;       /* the thread allocates for types without pointers */
  hak_waiting_t waiting[HAK_SLAB_KINDS];
} hak_quarantine_t;

/* Make the heap's quarantine, if it has none. False: no memory. */
bool hak_quarantine_open(hak_heap_t *heap);
/* Fetch blocks from a slab. False: no memory. */
bool hak_quarantine_fill(hak_quarantine_t *quarantine, uint32_t kind);
/* There is no room for one more ready block: return half of them to their slabs. */
HAK_NOINLINE void hak_quarantine_put_slow(hak_quarantine_t *quarantine, uint32_t kind, hak_free_block_t *block);
/* For a thread without a quarantine. `heap` is NULL if the thread has none: then the block waits with the blocks of
 * ended threads. */
void hak_quarantine_put_first(hak_heap_t *heap, uint32_t kind, hak_free_block_t *block);
/* Return the ready blocks to their slabs. `function` NULL, here and below: a fork ended the thread. */
void hak_quarantine_flush(hak_heap_t *heap, const char *function);
/* The thread ends. The thread's ready blocks return to their slabs, and its waiting blocks wait on, for all threads. */
void hak_quarantine_close(hak_heap_t *heap, const char *function);
/* Memory is short: return all blocks of the heap and of ended threads to their slabs. The other threads return
 * theirs when they next fetch blocks. */
void hak_quarantine_release(hak_heap_t *heap);

/* Number of the class's blocks in the heap's quarantine; of another thread's heap it may be a moment old. */
uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls);

/* For a thread without a heap: one sealed block of a slab. NULL: no memory. */
void *hak_quarantine_take_one(uint32_t cls, size_t bytes);

/* The first block of the heap's quarantine, or of ended threads, that was written to. NULL: there is none. */
const void *hak_quarantine_find_damaged(const hak_heap_t *heap);

/* A pseudo-random number below `limit`. */
HAK_INLINE uint32_t hak_quarantine_random_below(uint64_t *random, uint32_t limit) {
  *random = *random * 6364136223846793005U + 1;
  return (uint32_t)((*random >> 32) * limit >> 32);
}

HAK_INLINE void hak_quarantine_enter(hak_quarantine_t *quarantine) {
  quarantine->inside++;
  atomic_signal_fence(memory_order_seq_cst);
}
HAK_INLINE void hak_quarantine_leave(hak_quarantine_t *quarantine) {
  atomic_signal_fence(memory_order_seq_cst);
  quarantine->inside--;
}

HAK_INLINE hak_free_block_t **hak_quarantine_mixed(const hak_waiting_t *waiting) {
  return hak_magazine_slots(&waiting->array) + 1;
}
HAK_INLINE hak_free_block_t **hak_quarantine_queue(const hak_waiting_t *waiting) {
  return hak_quarantine_mixed(waiting) + waiting->slots;
}
HAK_INLINE hak_free_block_t **hak_quarantine_ready(const hak_waiting_t *waiting) {
  return hak_quarantine_queue(waiting) + waiting->slots;
}

HAK_INLINE void hak_quarantine_add_ready(hak_waiting_t *waiting, hak_free_block_t *block) {
  hak_quarantine_ready(waiting)[waiting->ready] = block;
  hak_fork_fence();
  waiting->ready++;
}

HAK_INLINE void hak_quarantine_count(hak_waiting_t *waiting, uint32_t more) {
  uint32_t count = atomic_load_explicit(&waiting->count, memory_order_relaxed);
  atomic_store_explicit(&waiting->count, count + more, memory_order_relaxed);
}

/* Let a free block wait. Returns the block that has waited long enough; NULL: there is none. Each store takes a block
 * out of the structure, or puts one there that is out already. */
HAK_INLINE hak_free_block_t *hak_quarantine_push(hak_waiting_t *waiting, uint64_t *random, hak_free_block_t *block) {
  uint32_t slots = waiting->slots;
  hak_fork_fence(); /* the caller wiped the block */
  if (HAK_UNLIKELY(slots == 0)) {
    return block;
  }
  hak_free_block_t **mixed = hak_quarantine_mixed(waiting), **queue = mixed + slots;
  uint32_t at = hak_quarantine_random_below(random, slots);
  hak_free_block_t *older = mixed[at], *oldest = NULL;
  mixed[at] = block;
  if (older) {
    hak_fork_fence();
    at = waiting->queue_at < slots - 1 ? waiting->queue_at + 1 : 0;
    oldest = queue[at];
    queue[at] = older;
    waiting->queue_at = at;
    hak_fork_fence();
  }
  if (!oldest) {
    hak_quarantine_count(waiting, 1);
  }
  return oldest;
}

/* One of the ready blocks, sealed for `bytes`. NULL: none is ready, or the block was damaged; the caller must fill the
 * quarantine. */
HAK_INLINE void *hak_quarantine_take(hak_quarantine_t *quarantine, uint32_t cls, size_t bytes) {
  bool data = quarantine->data;
  hak_waiting_t *waiting = &quarantine->waiting[hak_slab_kind(cls, data)];
  size_t size = hak_class_sizes[cls];
  if (HAK_UNLIKELY(waiting->ready == 0)) {
    return NULL;
  }
  hak_quarantine_enter(quarantine);
  uint32_t last = --waiting->ready, at = hak_quarantine_random_below(&quarantine->random, last + 1);
  hak_free_block_t **ready = hak_quarantine_ready(waiting), *block = ready[at];
  hak_fork_fence();
  ready[at] = ready[last];
  hak_fork_fence();
  uint64_t base = hak_seal_base(block);
  bool freed = hak_seal_load(block, size) == hak_seal_of(base, HAK_SEAL_FREED);
  if (HAK_UNLIKELY(!freed || !hak_freed_is_clean(block, size, false))) {
    hak_misuse_met("malloc", freed ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
    block = NULL; /* it leaks */
  } else {
    hak_seal_put(block, size, base, (uint32_t)bytes, data);
  }
  hak_quarantine_leave(quarantine);
  return block;
}

/* Take a free block over: it waits, and another may be ready. */
HAK_INLINE void hak_quarantine_put(hak_quarantine_t *quarantine, uint32_t kind, hak_free_block_t *block) {
  hak_waiting_t *waiting = &quarantine->waiting[kind];
  block = hak_quarantine_push(waiting, &quarantine->random, block);
  if (!block) {
    return;
  }
  if (HAK_UNLIKELY(waiting->ready == waiting->room)) {
    hak_quarantine_put_slow(quarantine, kind, block);
    return;
  }
  hak_quarantine_add_ready(waiting, block);
}
