/* Duty: hand out runs of slices and extents of whole chunks, and decide which free ones stay resident.
 * Data: the masks of every chunk and the totals below; lock: the arena's. The arena makes no system call under its
 * lock. New mappings enter the lists afterwards. Memory to purge leaves the lists first, in steps; meanwhile it is
 * "purging".
 * Layers below: pagemap, types, options, os.
 *
 * Invariants (slices):  mapped = used + free + purging,  dirty free <= free,  resident heap <= used + dirty free.
 * docs/design.md describes what stays resident. */
#pragma once

#include "base/base.h"

typedef struct hak_arena_totals {
  size_t used_slices, dirty_slices, target_slices, mapped_slices;
  size_t apart_slices;               /* of live blocks outside of the arena */
  size_t mapped_ever, unmapped_ever; /* slices, since the start */
  size_t peak_slices;                /* of used and apart slices */
} hak_arena_totals_t;

/* Take `slices` >= 1 consecutive slices of one chunk, aligned to `align` slices (a power of two). Both are at most
 * HAK_CHUNK_SLICES. *zeroed: all slices read as zeros. The page map shows class NONE there. NULL: no memory. */
void *hak_arena_take(size_t slices, size_t align, bool *zeroed);
void hak_arena_give(void *base, size_t slices);
/* The two halves of hak_arena_give, so that a caller can leave some stack frames before the second one. True: the
 * second half is due. */
bool hak_arena_put(void *base, size_t slices);
/* Take a run. The page map shows its class from take to give, and the arena counts the runs of each class. */
void *hak_arena_take_run(uint32_t cls, size_t align, bool *zeroed);
/* False: no run of the class begins there. If two threads free the same run, one of them gets this answer. */
bool hak_arena_give_run(void *base, uint32_t cls);
/* Change the class of a run in place. The old and the new class may also be HUGE. */
void hak_arena_turn_run(void *base, uint32_t cls, uint32_t other);
/* Number of runs of a class of runs. */
size_t hak_arena_runs(uint32_t cls);
/* Take `more` slices directly behind a range, in the same chunk. False: those slices are not free. */
bool hak_arena_extend(void *base, size_t slices, size_t more);

/* Take `chunks` >= 1 whole chunks and the first `tail` slices of the next, aligned to `align` bytes (whole chunks). The
 * first descriptor is in state HUGE. `grows`: prefer a single mapping, which the kernel can lengthen. */
void *hak_huge_chunks_take(size_t chunks, size_t tail, size_t align, bool grows, bool *zeroed);
/* Give back the whole chunks of the extent. The extent's tail goes back through hak_arena_give. */
void hak_huge_chunks_give(void *base);
/* Give back all but the first `keep` chunks and the `tail` slices of the next. If `keep` is 0, only slices of one chunk
 * remain, as from hak_arena_take, and the chunk gets a new descriptor. False: no memory for descriptors, and nothing
 * changed. */
bool hak_huge_chunks_shrink(void *base, size_t keep, size_t tail);
/* Undo a shrink: the chunk of the tail becomes the last whole chunk of the block, or its only one. False: other blocks
 * use part of the chunk, or there is no memory; nothing changed. */
bool hak_huge_chunks_unite_tail(void *base, size_t chunks, size_t tail);
/* Discard the pages behind the first `bytes` bytes of a block that shrank in place. Its class includes these pages. */
void hak_huge_chunks_discard_behind(void *block, size_t bytes, size_t usable);

/* Lengthen such an extent to `chunks` chunks. The extent grows in place if the space behind is unmapped or, for a small
 * extent, free. Otherwise the kernel may move it, with its contents but without its tail. Returns its address; NULL:
 * nothing changed. */
void *hak_move_grow(void *base, size_t chunks, bool may_move);

/* As hak_is_zero, but faster for blocks of some KiB. */
bool hak_move_is_zero(const void *at, size_t bytes);
/* `zeroed`: all of `to` reads as zeros. */
void hak_move_copy(void *to, const void *from, size_t bytes, bool zeroed);
/* Pages that read as zeros are not written. At 32 MiB and above `at` is the start of a page, and all pages are
 * discarded: such blocks are often sparse, and even a read of an untouched page is a fault. */
void hak_move_zero(void *at, size_t bytes);

/* Four verbs ask for a purge. Call them without the lock.
 * One step of the surplus, if there is one. True: more may remain. */
bool hak_purge_step(void);
/* Purge in proportion to `slices`, which the caller has just freed. True: more may remain. */
bool hak_purge_after_free(size_t slices);
/* Purge all but `keep` of the free slices. True: some were purged. */
bool hak_purge_all(size_t keep);
/* Purge at most so many chunks of what need not stay where a load has ended. */
void hak_purge_spare(size_t chunks);

/* Active threads call this now and then with the time. A tick ends windows and purges the surplus in steps. */
void hak_purge_tick(uint64_t now_ms);
/* Whether a window has ended since the last call. */
bool hak_purge_window_ended(void);

/* Whether the system would map a request of so many bytes if the heap returned `released` bytes. */
bool hak_grow_could(size_t bytes, size_t released);

/* Why no block starts at an address. INVALID: not the heap's; DOUBLE_FREE: a block was freed there; NOT_START: inside a
 * block. */
hak_misuse_t hak_arena_why(const void *address);

/* Whether the system recently had no memory for a whole chunk. Callers that can do with less should ask for less. */
bool hak_mapping_is_low(void);

/* Slices taken, without the lock: may be a moment old. */
size_t hak_retain_used_slices(void);
/* Whether use is below half of its peak in the last two windows. */
bool hak_retain_has_fallen(void);
hak_arena_totals_t hak_arena_totals(void);

/* Start-up: find out whether the kernel offers mTHP pages of 16 to 128 KiB. The test uses a page instead of reading
 * the setting: files can be out of reach, and larger sizes matter too. The test is only at start-up, because a sandbox
 * may later kill the process for mincore. */
void hak_huge_pages_try_mthp(void);

/* Prepare slices that were clean when taken. The caller is about to write a word every `every` bytes. `slices` is 0
 * for slices that were not clean. If the caller will touch every page, and the slices begin a chunk of a large heap,
 * one huge page may back the chunk. */
void hak_huge_pages_fill(void *base, size_t slices, size_t every);

/* Visit every slab descriptor of every sliced chunk, under the arena's lock. */
void hak_arena_each_slab(void (*visit)(hak_slab_t *slab, void *context), void *context);

void hak_arena_check(void);
/* In the child of a fork: free again the memory that a thread of the parent was purging. */
void hak_purge_fork_child(void);
