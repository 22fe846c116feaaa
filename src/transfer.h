/* Duty: free blocks on their way from a thread that frees to one that allocates, past the slabs.
 * Data: per class an array of blocks, at most 128 KiB of them, under a lock of its own; each carries the tag of a block
 * that lies in a slab. Layers below: slab. */
#pragma once

#include "lock.h"
#include "slab.h"

typedef struct hak_transfer {
  hak_lock_t lock;
  uint32_t count;
  _Atomic bool taken;        /* since the last decay */
  hak_free_block_t **blocks; /* made when first needed */
} __attribute__((aligned(HAK_CACHE_LINE))) hak_transfer_t;

extern hak_transfer_t hak_transfers[HAK_RUN_FIRST];

/* Put blocks of a chain that is linked under `key`, as far as there is room; returns the rest of the chain. Names
 * `function` when a damaged block turns up. */
hak_free_block_t *hak_transfer_put(uint32_t cls, hak_free_block_t *chain, uint32_t *most, uintptr_t key,
                                   const char *function);
/* Up to `want` blocks, those that came last, linked under `key`. Names `function` when a damaged block turns up. */
hak_chain_t hak_transfer_take(uint32_t cls, uint32_t want, uintptr_t key, const char *function);

/* Return to the slabs what nobody took for a decay time, or all. */
void hak_transfer_flush(bool idle_only);

/* Look for a block that was freed again since; for the end of the process. Passes what another thread holds. */
void hak_transfer_verify(const char *function);

/* Blocks of a class in transfer. */
size_t hak_transfer_count(uint32_t cls);

/* Of one class, for process.c. */
hak_lock_t *hak_transfer_lock(uint32_t cls);
