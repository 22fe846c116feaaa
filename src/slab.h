/* Duty: slabs (64 KiB of blocks of one class, or 80) and the exchange of blocks between them and magazines.
 * Data: the bits and counts of each slab (atomics); per class lists of slabs with blocks to give, under the
 * class's lock. Never held while the arena is called.
 * Layers below: arena, types, misuse.
 *
 * A slab belongs to nobody: whoever frees a block sets its bit, whoever needs blocks takes a word of bits at once.
 *
 *   CURRENT ── exhausted ──> detached ── a block returns ──> LISTED ── chosen ──> CURRENT
 *      └──────────── dropped with blocks left ────────────────>┘└── every block is back ──> arena
 *
 * Why an empty slab can be released: docs/invariants.md. */
#pragma once

#include "lock.h"
#include "types.h"

/* Start-up: the key of free blocks. Callable often; the first call wins. */
void hak_slab_init(void);

/* A slab of the class for the caller alone (CURRENT). NULL: no memory. */
hak_slab_t *hak_slab_acquire(uint32_t cls);
/* The end of that. The slab may be gone afterwards. */
void hak_slab_drop(hak_slab_t *slab);

/* Up to `want` blocks of a slab that the caller has for itself, to `blocks`: in descending order where they are new,
 * for the last one is handed out first. `lines`: as long as there are, all those of a cache line or none. 0: nothing is
 * left in it. */
uint32_t hak_slab_take(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want, bool lines);

/* Return blocks of one class to their slabs; they are marked as free, and not touched. One that lies there already, or
 * whose slab is another class's by now, was freed twice: aborts, and names `function`. */
void hak_slab_return(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function);

/* A free block does not carry its tag: handed out from another place, as far as its tag tells, so it was freed twice;
 * or written to. Aborts. */
_Noreturn HAK_COLD void hak_slab_damaged(const char *function, const hak_free_block_t *block);
/* Whether the block (the start of one) lies in its slab. */
bool hak_slab_holds(const void *block);
/* The start of a block was never handed out, or it lies in its slab: aborts. */
void hak_slab_expect_out(const void *block, const char *function);

/* One block without any thread cache: marked as taken; as free. */
void *hak_slab_take_one(uint32_t cls);
void hak_slab_return_one(void *block, uint32_t cls, const char *function);

/* Give back the free pages inside slabs that are nearly empty. True: there were some. */
bool hak_slab_discard_sparse(void);
/* The same inside all slabs. */
bool hak_slab_discard_all(void);
/* A step of that, if a pass is under way: some slabs. True: it goes on. */
bool hak_slab_sweep_step(void);
/* Once in a decay time. */
void hak_slab_decay(void);

void hak_slab_check(void);

/* What slab.c (exchange of blocks) and sweep.c (passes over many slabs) share. */

/* LISTED slabs, in the order in which blocks are taken from them: so those that are nearly empty become empty. SPARSE:
 * few blocks are out. SWEPT: free pages were given back since, and nobody took a block. */
enum { HAK_SLABS_DENSE, HAK_SLABS_SPARSE, HAK_SLABS_SWEPT, HAK_SLABS_LISTS };

typedef struct hak_slab_class {
  hak_lock_t lock;
  struct {
    hak_slab_t *first, *last; /* the one that waited longest comes first, for it has most to give */
  } list[HAK_SLABS_LISTS];
  size_t sparse, left; /* slabs that became sparse lately, and that are so no more: empty, or taken from */
} __attribute__((aligned(2 * HAK_CACHE_LINE))) hak_slab_class_t;

extern hak_slab_class_t hak_slab_classes[HAK_RUN_FIRST];
/* Slabs in such lists of all classes. */
extern _Atomic size_t hak_slabs_listed[HAK_SLABS_LISTS];

HAK_INLINE uint32_t hak_slab_carved(const hak_slab_t *slab) {
  return atomic_load_explicit(&slab->carved, memory_order_relaxed);
}
/* So many blocks side by side are whole cache lines. */
HAK_INLINE uint32_t hak_slab_blocks_of_lines(const hak_slab_t *slab) {
  return slab->block_bytes < HAK_CACHE_LINE ? HAK_CACHE_LINE / (slab->block_bytes & -slab->block_bytes) : 1;
}
/* Of free blocks; may be a moment old. */
HAK_INLINE uint32_t hak_slab_count(const hak_slab_t *slab) {
  return atomic_load_explicit(&slab->control, memory_order_relaxed) >> HAK_SLAB_COUNT_SHIFT;
}
/* Whether all blocks that the slab ever gave lie in it; a hint where others return some. */
HAK_INLINE bool hak_slab_is_whole(const hak_slab_t *slab) {
  return hak_slab_count(slab) == hak_slab_carved(slab);
}

/* A slab is sparse when at most one carved block in 16 is out, or a single one, and no more than it has pages of 4 KiB:
 * with one on each hardly any is free. Slabs of two or three blocks are not: they come and go too quickly for calls to
 * pay. */
HAK_INLINE uint32_t hak_slab_sparse_from(uint32_t carved) {
  enum { CARVED_MIN = 4, OUT_PART = 16, OUT_MAX = 16 };
  uint32_t out = carved / OUT_PART < OUT_MAX ? carved / OUT_PART : OUT_MAX;
  return carved < CARVED_MIN ? UINT32_MAX : carved - (out > 0 ? out : 1);
}

/* A LISTED slab becomes CURRENT, the caller's, who says to which list it belongs afterwards. */
void hak_slab_hold_locked(hak_slab_t *slab, uint8_t list);

/* Sets bits of a word, without a change of the count. One that is set already is of a block freed twice: aborts. */
void hak_slab_put_back(hak_slab_t *slab, uint32_t w, uint64_t bits, const char *function);

/* A slab came to have few blocks out: from time to time this starts a pass over all of these. */
void hak_slab_became_sparse(void);
