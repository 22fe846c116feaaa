/* Duty: slabs (64 or 80 KiB of blocks of one class) and the exchange of blocks between slabs and magazines.
 * Data: the bits and counts of each slab (atomics), and each class's lists of slabs with free blocks, under the class's
 * lock. No thread calls the arena while it holds that lock.
 * Layers below: arena, types, misuse.
 *
 * A slab has no owner thread. A thread that frees a block sets its bit; a thread that needs blocks takes a word of bits
 * at once.
 *
 *   CURRENT ── exhausted ──> detached ── a block returns ──> LISTED ── chosen ──> CURRENT
 *      └──────────── dropped with blocks left ────────────────>┘└── every block is back ──> arena
 *
 * src/invariants.md shows why a thread may release an empty slab. */
#pragma once

#include "seal.h"
#include "system/system.h"

/* Whether a slab of the class has free blocks and no thread takes from it. The answer may be a moment old. */
bool hak_sweep_is_listed(uint32_t cls);
/* Take a slab of the kind for the caller alone (CURRENT). NULL: no memory. */
hak_slab_t *hak_slab_acquire(uint32_t kind);
/* The caller drops the slab, which may be gone afterwards. */
void hak_slab_drop(hak_slab_t *slab);

/* Take up to `want` blocks from the caller's CURRENT slab. New blocks come in descending order, since the last one is
 * handed out first. `lines`: while enough remain, take whole cache lines. Returns 0 if the slab is exhausted. */
uint32_t hak_slab_take(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want, bool lines);

/* Return blocks of one class to their slabs. The blocks are marked as free, and stay untouched. If a block
 * is in its slab already, or the slab has another class, the block was freed twice: the call aborts and names
 * `function`. */
void hak_sweep_return(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function);

/* Whether the block that starts there is free in its slab. */
bool hak_verify_slab_holds(const void *block);
/* Abort if the block that starts there was never handed out, or is free in its slab. */
void hak_verify_slab_expect_out(const void *block, const char *function);

/* Return one block, which is marked as free, without a thread cache. */
void hak_sweep_return_one(void *block, uint32_t cls, const char *function);

/* Discard the free pages inside slabs that are nearly empty. True: there were such pages. */
bool hak_sweep_sparse(void);
/* Discard the free pages inside all slabs. */
bool hak_sweep_all(void);
/* Hardened profile: give back all empty slabs, which keep a class while there is memory. True: there were some. */
bool hak_sweep_release_empty(void);
/* Continue a pass that is under way by one step, over a few slabs. True: the pass is not complete. */
bool hak_sweep_step(void);
/* Call this once a decay time. */
void hak_sweep_decay(void);

void hak_sweep_check(void);

/* Shared by slab.c (exchange of blocks) and sweep.c (passes over many slabs). */

/* Lists of LISTED slabs, in the order in which threads take from them. This order lets nearly empty slabs become empty.
 * SPARSE: few blocks are in use. SWEPT: the slab's free pages were discarded, and no block was taken since. */
enum { HAK_SLABS_DENSE, HAK_SLABS_SPARSE, HAK_SLABS_SWEPT, HAK_SLABS_LISTS };

typedef struct hak_slab_class {
  hak_lock_t lock;
  struct {
    hak_slab_t *first, *last; /* the slab that waited longest, which has most free blocks, is first */
  } list[HAK_SLABS_LISTS];
  uint32_t sparse, left; /* recent counts: slabs that became sparse, and sparse slabs that emptied or were taken from */
} __attribute__((aligned(HAK_CACHE_LINE))) hak_slab_class_t;
_Static_assert(sizeof(hak_slab_class_t) == HAK_CACHE_LINE, "the classes' lists fill a page");

/* A kind of slab: a class, or under the hardened profile HAK_RUN_FIRST + a class, for types without pointers. */
enum { HAK_SLAB_KINDS = 2 * HAK_RUN_FIRST };
HAK_INLINE uint32_t hak_slab_kind(uint32_t cls, bool data) {
  return cls + (data ? HAK_RUN_FIRST : 0);
}
HAK_INLINE uint32_t hak_slab_kind_class(uint32_t kind) {
  return kind < HAK_RUN_FIRST ? kind : kind - HAK_RUN_FIRST;
}
extern hak_slab_class_t hak_slab_classes[HAK_SLAB_KINDS];
/* Number of slabs in each such list, over all classes. */
extern _Atomic size_t hak_slabs_listed[HAK_SLABS_LISTS];

/* A bit for each kind: a slab of it was asked for. No page of its lists need be read before, and no thread has taken
 * its lock, except in a fork. */
extern _Atomic uint64_t hak_slabs_made[HAK_SLAB_KINDS / HAK_RUN_FIRST];
HAK_INLINE bool hak_slab_was_made(uint32_t kind) {
  uint64_t made = atomic_load_explicit(&hak_slabs_made[kind / HAK_RUN_FIRST], memory_order_relaxed);
  return made >> kind % HAK_RUN_FIRST & 1;
}

HAK_INLINE void hak_slab_note_made(uint32_t kind) {
  if (!hak_slab_was_made(kind)) {
    atomic_fetch_or_explicit(&hak_slabs_made[kind / HAK_RUN_FIRST], 1ULL << kind % HAK_RUN_FIRST, memory_order_relaxed);
  }
}

HAK_INLINE bool hak_slab_is_mixed(const hak_slab_t *slab) {
  return HAK_UNLIKELY(atomic_load_explicit(&slab->cls, memory_order_relaxed) == HAK_CLASS_MIXED);
}

HAK_INLINE uint32_t hak_slab_bump(const hak_slab_t *slab) {
  return atomic_load_explicit(&slab->bump, memory_order_relaxed);
}
/* Number of adjacent blocks that fill whole cache lines. */
HAK_INLINE uint32_t hak_slab_blocks_of_lines(const hak_slab_t *slab) {
  return slab->block_bytes < HAK_CACHE_LINE ? HAK_CACHE_LINE / (slab->block_bytes & -slab->block_bytes) : 1;
}
/* Number of free blocks; may be a moment old. */
HAK_INLINE uint32_t hak_slab_count(const hak_slab_t *slab) {
  return atomic_load_explicit(&slab->control, memory_order_relaxed) >> HAK_SLAB_COUNT_SHIFT;
}
/* Whether all handed-out blocks are back in the slab. Only a hint while other threads return blocks. */
HAK_INLINE bool hak_slab_is_whole(const hak_slab_t *slab) {
  return hak_slab_count(slab) == hak_slab_bump(slab);
}

/* A slab is sparse if at most one handed-out block in 16 is in use, or only a single block. The slab's blocks in use
 * must also be at most one per page of 4 KiB, since otherwise hardly a page is free. Slabs of two or three blocks never
 * count as sparse: they change too quickly for system calls to pay. */
HAK_INLINE uint32_t hak_slab_sparse_from(uint32_t bump) {
  uint32_t out = bump / HAK_SPARSE_PART < HAK_SPARSE_OUT_MAX ? bump / HAK_SPARSE_PART : HAK_SPARSE_OUT_MAX;
  uint32_t few = hak_hard.regions ? bump : UINT32_MAX; /* an empty slab that keeps its class is sparse */
  return bump < HAK_SPARSE_BLOCKS_MIN ? few : bump - (out > 0 ? out : 1);
}

/* Make a LISTED slab the caller's CURRENT. `list`: the list that it joins afterwards. */
void hak_slab_hold_locked(hak_slab_t *slab, uint8_t list);

/* Set bits of a word without changing the count. A bit that is set already means a double free: aborts. */
void hak_slab_put_back(hak_slab_t *slab, uint32_t w, uint64_t bits, const char *function);

/* Work that is due after a return of blocks. The caller does it after the return, to use less stack. */
typedef struct hak_slab_rest {
  size_t slices; /* freed slices, in proportion to which the caller purges */
  bool sparse;   /* a slab became sparse */
} hak_slab_rest_t;

/* The first half of hak_sweep_return and hak_sweep_return_one: return blocks, and leave the rest to the caller. */
hak_slab_rest_t hak_slab_put(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function);
hak_slab_rest_t hak_slab_put_one(void *block, uint32_t cls, const char *function);
