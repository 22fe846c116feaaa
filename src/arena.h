/* Duty: hand out runs of slices and extents of whole chunks, and decide which free ones stay resident.
 * Data: the masks of every chunk and the totals below; lock: the arena's. No system call is made under it: what is
 * mapped is put in afterwards, and what goes back to the system is taken out before (in transit), in steps.
 * Layers below: pagemap, types, options, os.
 *
 * Invariants (slices):  mapped = used + free + in transit,  dirty free <= free,  resident heap <= used + dirty free.
 * What stays resident: docs/design.md. */
#pragma once

#include "types.h"

typedef struct hak_arena_totals {
  size_t used_slices, dirty_slices, target_slices, mapped_slices;
  size_t mapped_ever, unmapped_ever; /* slices, since the start */
} hak_arena_totals_t;

/* `slices` >= 1 consecutive slices of one chunk, the first at a multiple of `align` (a power of two) slices; both at
 * most HAK_CHUNK_SLICES. *zeroed: all of it reads as zeros. Their classes are NONE. NULL: no memory. */
void *hak_arena_take(size_t slices, size_t align, bool *zeroed);
void hak_arena_give(void *base, size_t slices);
/* The two halves of that, for who has little stack left in between. True: the second is due, some time. */
bool hak_arena_put(void *base, size_t slices);
/* After so many slices became free, without the lock: give back to the system as much as they are worth. */
void hak_release_after_give(size_t slices);
/* The same for a run: its class is in the page map from the one to the other, and how many there are is counted. */
void *hak_arena_take_run(uint32_t cls, size_t align, bool *zeroed);
/* False: no run of the class begins there; of two threads that free the same one, one gets this answer. */
bool hak_arena_give_run(void *base, uint32_t cls);
/* It is one of another class now; HUGE is one here. */
void hak_arena_turn_run(void *base, uint32_t cls, uint32_t other);
size_t hak_arena_runs(uint32_t cls);
/* Take `more` slices right behind a range, in the same chunk. False: they are not to be had. */
bool hak_arena_extend(void *base, size_t slices, size_t more);

/* `chunks` >= 1 whole chunks and the first `tail` slices of the next, at a multiple of `align` (of whole chunks) bytes.
 * The first descriptor is in state HUGE. `grows`: they are one mapping if they can be, which the kernel makes longer.
 */
void *hak_arena_take_chunks(size_t chunks, size_t tail, size_t align, bool grows, bool *zeroed);
/* Give back the whole chunks of such an extent; not its tail, which is hak_arena_give's. */
void hak_arena_give_chunks(void *base);
/* Give back all but the first `keep` chunks and the `tail` slices of the next. Without chunks it is slices of one, as
 * hak_arena_take gives them, and the first descriptor another. False, and nothing changed: there is no memory for
 * descriptors. */
bool hak_arena_shrink_chunks(void *base, size_t keep, size_t tail);
/* The reverse: the chunk of the tail becomes one more whole chunk, or the first. False, and nothing changed: others
 * have a part of it, or there is no memory. */
bool hak_arena_unite_tail(void *base, size_t chunks, size_t tail);
/* What lies behind a block that shrank, and is its own as its class has it: the pages are dropped. */
void hak_arena_drop_rest(void *block, size_t bytes, size_t usable);

/* Make such an extent `chunks` chunks, more than it has: where it is, if nothing is mapped behind it or, for a small
 * one, what lies there is free; or where the kernel finds room, with its contents but without its tail. Where that is;
 * NULL: nothing changed. */
void *hak_arena_grow_chunks(void *base, size_t chunks, bool may_move);

/* Give free slices back to the system until at most `keep` of them stay resident. True: some were. */
bool hak_arena_purge(size_t keep);

/* Called now and then by active threads with the clock: windows of activity end, and the surplus goes, in steps. */
void hak_arena_tick(uint64_t now_ms);
/* Whether a window has ended since this was last asked. */
bool hak_arena_window_ended(void);
/* Give back a step of the surplus, if there is one. */
void hak_arena_purge_step(void);

/* Why no block starts at an address: INVALID, not ours; DOUBLE_FREE, one did; NOT_START, it is inside of one. */
hak_misuse_t hak_arena_why(const void *address);

/* The system had no memory for a whole chunk lately: who can do with less should. */
bool hak_arena_is_tight(void);

/* Slices taken, without the lock: may be a moment old. */
size_t hak_arena_used_slices(void);
/* Whether that is less than half of the most in the last two windows. */
bool hak_arena_has_fallen(void);
hak_arena_totals_t hak_arena_totals(void);

/* Start-up: whether the kernel has pages of 16 to 128 KiB for who asks. What it has is not read but tried: files can be
 * out of reach, and the setting of each larger size matters. Nor is it tried later, when a sandbox may kill for
 * mincore. */
void hak_arena_try_medium(void);

/* Slices that were taken clean (0: they were not), into which the caller is about to write every so many bytes. If no
 * page stays untouched so and they are the first of a chunk of a large heap, all of the chunk may become resident at
 * once, by one page of its size. */
void hak_arena_fill(void *base, size_t slices, size_t every);

/* Every slab descriptor of every chunk that is cut into slices; under the arena's lock. */
void hak_arena_each_slab(void (*visit)(hak_slab_t *slab, void *context), void *context);

void hak_arena_check(void);
/* In the child of a fork: what a thread that is gone was giving back is free again. */
void hak_arena_fork_child(void);
