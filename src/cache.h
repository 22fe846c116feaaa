/* Duty: the way between a thread's lists and what lies behind them: refills, overflows, idle lists.
 * Data: the heap of the calling thread, see bin.h. Layers below: policy, transfer, slab, run, bin. */
#pragma once

#include "policy.h"

/* A thread takes the cache: every class gets the capacity that the options say. Every list is empty. */
void hak_cache_open(hak_heap_t *heap);
/* Its thread ends: return everything. `function` NULL: it did not survive a fork, perhaps in the middle of something.
 */
void hak_cache_close(hak_heap_t *heap, const char *function);
/* The list of the class is empty: fetch blocks and return one. NULL: no memory. `bytes`: what was asked for.
 * *zeroed: a run, all of which reads as zeros. */
void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes, bool *zeroed);
/* A block of a closed bin. False: the bin is not closed, or the blocks gathered there must be passed on first. */
bool hak_cache_free_outgoing(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block);
/* The list has no room: make some, or return the block to its slab. `block` is the start of a block. */
void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block);
/* Past every list. */
void hak_cache_return_one(uint32_t cls, hak_free_block_t *block);
/* Return everything. Names `function` when a damaged block turns up. */
void hak_cache_flush(hak_heap_t *heap, const char *function);
/* Look for blocks that were freed twice or damaged since; changes nothing and takes no lock, for the end of a process
 * may come in a signal handler. */
void hak_cache_verify(hak_heap_t *heap, const char *function);
/* Ask every thread to flush at its next refill or overflow. */
void hak_cache_request_flush(void);

/* Whether the block is in the thread's list; walks it. */
bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const hak_free_block_t *wanted);

void hak_cache_check(hak_heap_t *heap);
