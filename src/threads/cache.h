/* Duty: the way between a thread's bins and what lies behind them: refills, overflows, idle bins. verify.c looks for
 * damaged blocks. Data: the heap of the calling thread, see bin.h. Layers below: policy, depot, slab, large, bin. */
#pragma once

#include "policy.h"

/* A thread takes a cache with empty bins: give every class its first capacity. */
void hak_cache_open(hak_heap_t *heap);
/* The thread ends: return every block. `function` NULL: a fork ended the thread, perhaps amid a change. */
void hak_cache_close(hak_heap_t *heap, const char *function);
/* The bin is empty: fetch blocks, and return one of them. NULL: no memory. `bytes`: the size asked for. *zeroed: the
 * block is a run that reads as zeros. */
void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes, bool *zeroed);
/* The bin has no room: make room, or return the block to its slab. `block` is the start of a block, and not free. */
void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block);
/* Report a write to unused bytes beside a block that is being freed. */
void hak_verify_edges(const void *block, uint32_t cls);
/* For the sampler: return the blocks of a counted batch. */
void hak_cache_return_batch(hak_heap_t *heap, uint32_t cls, const char *function);
/* For the sampler: fetch `want` blocks into a bin that is no remote-free buffer. */
void hak_cache_stock(hak_heap_t *heap, uint32_t cls, uint32_t want);
/* Return one block without a bin. */
void hak_cache_return_one(uint32_t cls, hak_free_block_t *block);
/* Return every block. `function` is named in the report if one of them is damaged. */
void hak_cache_flush(hak_heap_t *heap, const char *function);
/* Look for blocks in the cache and the depot that were freed twice or damaged. This changes nothing and waits for no
 * lock, because the end of a process may come in a signal handler. */
void hak_verify_cache(const hak_heap_t *heap, const char *function);
/* The first block of the cache that was freed twice or damaged, or NULL. The block is reported without a lock, since a
 * handler of the program may allocate during the report. */
const hak_free_block_t *hak_verify_find_damaged(const hak_heap_t *heap);
void hak_verify_damaged(const hak_free_block_t *block, const char *function);
/* Release the thread's current slabs, so that other threads can take from them. */
void hak_cache_drop_currents(hak_heap_t *heap);
/* Return idle blocks if a scavenge is due. Refills and overflows call it now and then. */
void hak_cache_scavenge_if_due(hak_heap_t *heap);
/* The periodic work of a thread, on the way to or from the slabs. */
void hak_cache_look_around(hak_heap_t *heap);
/* Ask every thread to flush at its next refill or overflow. */
void hak_cache_request_flush(void);

/* Whether the block is in the thread's cache; searches all of it. */
bool hak_verify_cache_holds(const hak_heap_t *heap, uint32_t cls, const void *wanted);

void hak_verify_check(hak_heap_t *heap);
