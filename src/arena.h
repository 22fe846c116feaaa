/* Duty: hand out runs of units, lowest address first, and decide which free units stay resident.
 * Data: the masks of every super and the totals below; lock: arena (inside every class lock).
 * Layers below: window, types, options, os.
 *
 * Invariants (units):   mapped = used + free,  dirty_free <= free,  resident heap <= used + dirty_free.
 * Release policy: after a give, dirty_free above `allowance` is brought down to half of it, highest address first:
 *   allowance = max(warm pool, floor of the profile, used * share of the profile, learned)
 * `learned` doubles (up to the peak of used) when most of what was given back is asked for again within a decay time,
 * and halves in every decay time in which that does not happen. Besides, what was free and dirty for a whole decay
 * time is given back at the next give or hak_arena_decay. */
#ifndef HAK_ARENA_H
#define HAK_ARENA_H

#include "types.h"

typedef struct hak_arena_totals {
  size_t used_units, dirty_units, allowance_units;
  size_t mapped_slots, slots_used;     /* now; and how far the window was ever used */
  size_t slots_mapped, slots_unmapped; /* since the start */
} hak_arena_totals_t;

/* `units` >= 1 consecutive units, the first at a multiple of `align_units` (a power of two) units; a run of more
 * than 32 begins a slot. *zeroed tells whether all of it reads as zeros. The class map of all of them is 0.
 * Returns the first unit, or HAK_ARENA_NONE. */
#define HAK_ARENA_NONE SIZE_MAX
size_t hak_arena_take(size_t units, size_t align_units, bool *zeroed);
void hak_arena_give(size_t first, size_t units);
/* Take `more` units right behind [first, first + units). False: they are not to be had. */
bool hak_arena_extend(size_t first, size_t units, size_t more);
/* True when nobody has the unit (or its slot is not ours). For error messages. */
bool hak_arena_is_free(size_t unit);

/* Give free units back to the system until at most `keep_units` of them stay resident. True: some were. */
bool hak_arena_purge(size_t keep_units);

/* Called now and then by threads on their way to the slabs: give back what was free for a decay time. */
void hak_arena_decay(uint64_t now_ms);

/* Units taken, without the lock: may be a moment old. */
size_t hak_arena_used_units(void);
hak_arena_totals_t hak_arena_totals(void);

void hak_arena_check(void);
void hak_arena_fork_lock(void);
void hak_arena_fork_unlock(bool in_child);

#endif
