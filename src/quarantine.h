/* Duty: a thread's free blocks in the hardened profile. They wait before they are handed out again, and leave in random
 * order.
 * Data: a heap's quarantine belongs to its thread. Every block in it has the seal of a free block. Layers below: seal,
 * slab, bin.
 *
 *   free ─> mixed (random place) ─> queue (in order) ─> ready ─> malloc takes a random one
 *                                                         └── too many ──> slabs
 */
#pragma once

#include "bin.h"

/* The newest blocks of the thread's class, taken at random. NULL: there is none; the caller fills it. */
void *hak_quarantine_take(hak_heap_t *heap, uint32_t cls);
/* Fetch blocks from a slab. False: no memory. */
bool hak_quarantine_fill(hak_heap_t *heap, uint32_t cls);
/* Let a free block wait. */
void hak_quarantine_put(hak_heap_t *heap, uint32_t cls, void *block);
/* Return all blocks to their slabs. */
void hak_quarantine_flush(hak_heap_t *heap, const char *function);

/* Number of the class's blocks that wait; of another thread's heap it may be a moment old. */
uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls);

/* Without a thread's heap: one block of a slab, and back. NULL: no memory. */
void *hak_quarantine_take_one(uint32_t cls);
void hak_quarantine_return_one(uint32_t cls, void *block);

/* The first block of the heap's quarantine that was written to; NULL: there is none. */
const void *hak_quarantine_find_damaged(const hak_heap_t *heap);
/* Whether a free block was not written to. `first`: bytes at its start that may hold anything. */
bool hak_quarantine_is_clean(const void *block, uint32_t cls, size_t first);
