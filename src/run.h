/* Duty: blocks that are runs of slices, 48 KiB .. 1 MiB: taken from the arena one by one, grown and shrunk in place.
 * Data: a run belongs to whoever has the block; counts of what is out, by class (relaxed atomics).
 * Layers below: arena, pagemap, types, misuse. */
#ifndef HAK_RUN_H
#define HAK_RUN_H

#include "types.h"

/* `align`: a power of two. *zeroed: all of it reads as zeros. NULL: no memory. */
void *hak_run_take(uint32_t cls, size_t align, bool *zeroed);
/* Names `function` when the block was given already. */
void hak_run_give(void *block, uint32_t cls, const char *function);
/* The same for every block of a chain linked under `key`. Orphans: stop at the first block that does not fit. */
hak_free_block_t *hak_run_return(hak_free_block_t *chain, uint32_t most, uintptr_t key, uint32_t cls,
                                 const char *function);
void hak_run_return_orphans(hak_free_block_t *chain, uintptr_t key, uint32_t cls);
/* Make the block one of another class where it is. False: it stays as it was. */
bool hak_run_resize(void *block, uint32_t cls, uint32_t wanted);

/* Blocks handed out or cached, by class. */
size_t hak_run_out(uint32_t cls);

#endif
