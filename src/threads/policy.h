/* Duty: how much a thread caches: the capacity of each class, and the number of blocks that a refill fetches.
 * Data: the heap of the calling thread, see bin.h; totals of all threads (relaxed atomics).
 * Layers below: depot, arena, bin, options. */
#pragma once

#include "bin.h"

/* Number of caches that belong to a thread. The owner of their list reports it; the second function returns at
 * least 1. */
void hak_policy_set_open(size_t caches);
size_t hak_policy_caches_open(void);

/* A thread's part of a "shared" bound: all of it while there are few threads. */
size_t hak_policy_share(size_t bytes);

/* A thread takes the cache, whose class holds zeros: set its first capacity. */
void hak_policy_open(hak_heap_t *heap, uint32_t cls);
/* The thread gives the cache up, and its budgets with it. */
void hak_policy_close(hak_heap_t *heap);
/* Whether an option forbids to cache blocks of the class. */
bool hak_policy_is_off(const hak_bin_info_t *info);

/* Whether the class has seen so few blocks in this thread that the next one should come from a mixed slab. */
bool hak_policy_is_young(const hak_bin_info_t *info, uint32_t cls);
/* A block of a mixed slab is freed. True: it should leave the thread, since frees of such blocks are slow. */
bool hak_policy_retires(hak_heap_t *heap, uint32_t cls);

/* Number of blocks that the next refill should fetch. */
uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls);
/* A refill fetched this many blocks; the capacity may grow. */
void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* Whether the thread should keep the slab from which it fetched. */
bool hak_policy_keeps_current(const hak_bin_info_t *info, uint32_t cls);

/* What to do when a bin holds as many blocks as its capacity. */
typedef enum hak_overflow {
  HAK_OVERFLOW_NONE,  /* do nothing: the bin gets no more room, or has none at all */
  HAK_OVERFLOW_GROWN, /* the bin has more room, by slow start */
  HAK_OVERFLOW_HALF,  /* pass half of the bin on */
  HAK_OVERFLOW_FREES  /* pass the whole bin on: the thread seems only to free; the capacity sizes its next batch */
} hak_overflow_t;
hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls);

/* Whether blocks that leave the bin should go to the depot. Other threads may want them, unless the heap shrinks and no
 * thread took any of the class lately. */
bool hak_policy_passes_on(const hak_heap_t *heap, uint32_t cls);

/* Set the number of blocks that the bin may hold. */
void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, uint32_t capacity);

/* Add `blocks` to the class's sampler quota, so that a counted batch holds several blocks. False: the quotas of all
 * threads together are large enough. */
bool hak_policy_add_quota(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* End the class's sampler quota. */
void hak_policy_drop_quota(hak_heap_t *heap, uint32_t cls);

/* The class was idle: take its capacity back. */
void hak_policy_idle(hak_heap_t *heap, uint32_t cls);
