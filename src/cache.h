/* Duty: the way between a thread's bins and what lies behind them: refills, overflows, idle bins.
 * Data: the heap of the calling thread, see bin.h. Layers below: depot, slab, large, bin. */
#pragma once

#include "bin.h"

/* A thread takes the cache: every class gets the capacity that the options say. Every bin is empty. */
void hak_cache_open(hak_heap_t *heap);
/* Its thread ends: return everything. `function` NULL: it did not survive a fork, perhaps amid a change. */
void hak_cache_close(hak_heap_t *heap, const char *function);
/* The bin of the class is empty: fetch blocks and return one. NULL: no memory. `bytes`: what was asked for.
 * *zeroed: a run, all of which reads as zeros. */
void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes, bool *zeroed);
/* The bin has no room: make some, or return the block to its slab. `block` is the start of a block, and not free. */
void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block);
/* The sampler's: what was granted goes back; and fetch blocks into a bin that is not closed. */
void hak_cache_cut_grant(hak_heap_t *heap, uint32_t cls, const char *function);
void hak_cache_stock(hak_heap_t *heap, uint32_t cls, uint32_t want);
/* Past every bin. */
void hak_cache_return_one(uint32_t cls, hak_free_block_t *block);
/* Return everything. Names `function` when a damaged block turns up. */
void hak_cache_flush(hak_heap_t *heap, const char *function);
/* Look for blocks that were freed twice or damaged since, in the depot, too; leaves all as it was and waits for no
 * lock, for the end of a process may come in a signal handler. */
void hak_cache_verify(const hak_heap_t *heap, const char *function);
/* Without a look at the depot: the first such block, or NULL. A report of it may run a handler of the program's, which
 * allocates, so that nothing is reported under a lock. */
const hak_free_block_t *hak_cache_find_damaged(const hak_heap_t *heap);
_Noreturn void hak_cache_damaged(const hak_free_block_t *block, const char *function);
/* The slabs that the thread takes from are for all again. */
void hak_cache_drop_currents(hak_heap_t *heap);
/* What lies in the bins. */
size_t hak_cache_bytes(const hak_heap_t *heap);
/* Whether it is time to give back what was idle; refills and overflows do so now and then. */
void hak_cache_look_at_clock(hak_heap_t *heap);
/* The periodic work of a thread, on the way to or from the slabs. */
void hak_cache_look_around(hak_heap_t *heap);
/* Ask every thread to flush at its next refill or overflow. */
void hak_cache_request_flush(void);

/* Whether the block is in the thread's cache; looks through it. */
bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const void *wanted);

void hak_cache_check(hak_heap_t *heap);

/* policy.c: how much a thread caches: capacities that are granted, earned and lost, and how much a refill fetches. */

/* Caches that a thread has now, as the owner of their list says; at least 1. */
void hak_cache_set_open(size_t caches);
size_t hak_caches_open(void);

/* A thread takes the cache. */
void hak_policy_open(hak_heap_t *heap, uint32_t cls);
/* It has the cache no more: what that might keep counts no longer. */
void hak_policy_close(hak_heap_t *heap);
/* Nothing of the class is ever cached, by an option. */
bool hak_policy_is_off(const hak_bin_info_t *info);

/* How many blocks the next refill fetches. */
uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls);
/* So many were fetched: the capacity may grow. */
void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* Whether the thread should keep the slab that it fetched from. */
bool hak_policy_keeps_current(const hak_bin_info_t *info, uint32_t cls);

/* The bin has as many blocks as its capacity says. NONE: it gets no more room, or even none at all. GROWN: more room,
 * without a need shown. HALF: half of it should be passed on. FREES: the thread seems to free only; its capacity
 * is what it is to gather next, and all should go. */
typedef enum hak_overflow {
  HAK_OVERFLOW_NONE,
  HAK_OVERFLOW_GROWN,
  HAK_OVERFLOW_HALF,
  HAK_OVERFLOW_FREES
} hak_overflow_t;
hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls);

/* Whether what leaves the bin is for other threads: their next requests may want it, as long as the heap does not
 * shrink, or some of the class was taken so lately. */
bool hak_policy_passes_on(const hak_heap_t *heap, uint32_t cls);

/* Blocks that the bin may hold from now on. */
void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, uint32_t capacity);

/* Room for so many more blocks, lent to who counts blocks (hook.h), so that a grant is of several. False: all threads
 * together have enough of that. */
bool hak_policy_lend(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* The end of that. */
void hak_policy_take_back(hak_heap_t *heap, uint32_t cls);

/* A thread that fetches runs faster than it could write them leaves most of their bytes as they are: it is in haste,
 * and may keep more of them. To be asked now and then. True: its haste is over, and the runs that it kept should go. */
bool hak_policy_calms(hak_heap_t *heap, uint64_t now_ms);

/* Nothing was fetched or returned for a while. */
void hak_policy_idle(hak_heap_t *heap, uint32_t cls);
