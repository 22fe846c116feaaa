/* Duty: slabs (64 KiB of blocks of one class) and the exchange of blocks between them and lists of free blocks.
 * Data: the bits and counts of each slab (atomics); per class a list of slabs with blocks to give, under the
 * class's lock. Never held while the arena is called.
 * Layers below: arena, types, misuse.
 *
 * A slab belongs to nobody: whoever frees a block sets its bit, whoever needs blocks takes a word of bits at once.
 *
 *   CURRENT ── exhausted ──> detached ── a block returns ──> LISTED ── chosen ──> CURRENT
 *      └──────────── dropped with blocks left ────────────────>┘└── every block is back ──> arena
 *
 * Why an empty slab can be released: let B = bits set and P = blocks whose bit is set but not yet counted by the
 * thread that returns them. Then count = B - P, and count = carved implies B = carved and P = 0: nobody is still
 * about to touch the slab. */
#ifndef HAK_SLAB_H
#define HAK_SLAB_H

#include "types.h"

/* Start-up: the key of blocks that lie in slabs. Callable often; the first call wins. */
void hak_slab_init(void);

/* A slab of the class for the caller alone (CURRENT). NULL: no memory. */
hak_slab_t *hak_slab_acquire(uint32_t cls);
/* The end of that. The slab may be gone afterwards. */
void hak_slab_drop(hak_slab_t *slab);

/* Up to `want` blocks of a slab that the caller has for itself, in ascending order where they are new, linked
 * under `key`. An empty chain: nothing left in it. */
hak_chain_t hak_slab_take(hak_slab_t *slab, uint32_t want, uintptr_t key);

/* Return every block of a chain linked under `key` to its slab. `function` is named when a block is damaged. */
hak_free_block_t *hak_slab_return(hak_free_block_t *chain, uint32_t most, uintptr_t key, const char *function);
/* After a fork, the chain of a thread that is gone: stop without a word at the first block that does not fit. */
void hak_slab_return_orphans(hak_free_block_t *chain, uintptr_t key);

/* Return blocks that carry the slabs' tag. */
void hak_slab_return_tagged(hak_free_block_t *const *blocks, uint32_t count, const char *function);

/* The tag of a block that lies in a slab, or is on its way between threads. */
extern _Atomic uintptr_t hak_slab_key;
HAK_INLINE void hak_slab_tag(hak_free_block_t *block) {
  block->tag = (uintptr_t)block ^ atomic_load_explicit(&hak_slab_key, memory_order_relaxed);
}
HAK_INLINE bool hak_slab_tagged(const hak_free_block_t *block) {
  return block->tag == ((uintptr_t)block ^ atomic_load_explicit(&hak_slab_key, memory_order_relaxed));
}
/* A block of a list does not carry the list's tag: freed twice, as far as its tag tells, or written to. Aborts. */
_Noreturn HAK_COLD void hak_slab_damaged(const char *function, const hak_free_block_t *block);
/* Whether the block (the start of one) lies in its slab. */
bool hak_slab_holds(const void *block);

/* Whether all blocks that the slab ever gave lie in it; a hint where others return some. */
bool hak_slab_is_whole(const hak_slab_t *slab);

/* One block without any thread cache. */
void *hak_slab_take_one(uint32_t cls);
void hak_slab_return_one(void *block, const char *function);

/* Give back the free pages inside slabs that are nearly empty. True: there were some. */
bool hak_slab_discard_sparse(void);
/* A step of that, if a pass is under way: some slabs. */
void hak_slab_sweep_step(void);
/* Once in a decay time. */
void hak_slab_decay(void);

typedef struct hak_slab_totals {
  size_t slabs, carved_blocks, free_blocks; /* free: carved, and lying in a slab; never more than carved */
} hak_slab_totals_t;
/* All slabs, by class; exact when no return is in flight. */
void hak_slab_totals(hak_slab_totals_t totals[HAK_BIN_COUNT]);

void hak_slab_check(void);
#endif
