/* Duty: free blocks on their way from a thread that frees to one that allocates, past the slabs.
 * Data: per class an array of blocks, at most 32 KiB of them, under a lock of its own; each carries the tag of a block
 * that lies in a slab. An array, because whoever takes them up can then touch many at a time, while a list that comes
 * from another core's cache is walked one miss after the other. Layers below: slab. */
#ifndef HAK_TRANSFER_H
#define HAK_TRANSFER_H

#include "lock.h"
#include "slab.h"

/* Put blocks of a chain that is linked under `key`, as far as there is room; returns the rest of the chain. Names
 * `function` when a damaged block turns up. */
hak_free_block_t *hak_transfer_put(uint32_t cls, hak_free_block_t *chain, uint32_t *most, uintptr_t key,
                                   const char *function);
/* Up to `want` blocks, those that came last, linked under `key`. */
hak_chain_t hak_transfer_take(uint32_t cls, uint32_t want, uintptr_t key);

/* Return to the slabs what nobody took for a decay time, or all. */
void hak_transfer_decay(void);
void hak_transfer_flush(void);

/* Look for a block that was freed again since; for the end of the process. Passes what another thread holds. */
void hak_transfer_verify(const char *function);

/* Blocks in transfer, by class. */
void hak_transfer_totals(size_t blocks[HAK_BIN_COUNT]);

/* Of one class, for process.c. */
hak_lock_t *hak_transfer_lock(uint32_t cls);

#endif
