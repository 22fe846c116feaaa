/* Duty: whole chains of free blocks on their way from a thread that frees to one that allocates, past the slabs.
 * Data: per class a few chains, at most 64 KiB in all, under the class's lock; each with the key that links it.
 * A chain is neither walked nor touched here: the thread that gets it verifies it while it links it under its own key.
 * Layers below: slab. */
#ifndef HAK_TRANSFER_H
#define HAK_TRANSFER_H

#include "lock.h"
#include "slab.h"

/* False: there is no room, and the chain is still the caller's. */
bool hak_transfer_put(uint32_t cls, hak_chain_t chain, uintptr_t key);
/* The chain that came last, linked under *key; an empty one where there is none. */
hak_chain_t hak_transfer_get(uint32_t cls, uintptr_t *key);

/* Return to the slabs what nobody took for a decay time, or all. */
void hak_transfer_decay(void);
void hak_transfer_flush(void);

/* Blocks in transfer, by class. */
void hak_transfer_totals(size_t blocks[HAK_BIN_COUNT]);

/* Of one class, for process.c. */
hak_lock_t *hak_transfer_lock(uint32_t cls);

#endif
