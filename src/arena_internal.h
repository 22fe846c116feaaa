/* Duty: what the two halves of the arena share: arena.c (runs of units) and release.c (what stays resident).
 * Data: hak_arena, see arena.h. Layers below: window. */
#ifndef HAK_ARENA_INTERNAL_H
#define HAK_ARENA_INTERNAL_H

#include "arena.h"
#include "lock.h"
#include "window.h"

typedef struct hak_arena {
  hak_lock_t lock;
  _Atomic size_t used_units; /* written under the lock, read anywhere */
  size_t peak_units;         /* most units ever used */
  size_t dirty_units;        /* free and dirty */
  size_t mapped_slots, unmapped_ever;
  size_t low[HAK_SLOT_UNITS + 1]; /* low[k]: no mapped slot below has a run of k free units */
  size_t low_dirty;               /* no slot below has a dirty free unit */
  size_t low_unmapped;            /* no slot below is unmapped */
  /* release policy */
  size_t learned_units, given_back_units, regretted_units;
  size_t stuck_units; /* dirty units that the system would not take back */
  uint64_t epoch_ms;
} hak_arena_t;

extern hak_arena_t hak_arena;

/* Recompute what is derived from the masks of one slot: its run, its dirty units and the hints. */
void hak_arena_refresh(size_t slot);

/* After units became free. */
void hak_release_after_give_locked(void);
/* `units` that were given back lately are taken again. */
void hak_release_regret_locked(size_t units);
/* True: at least one unit was given back. */
bool hak_release_down_to_locked(size_t keep_units);
size_t hak_release_allowance_locked(void);

#endif
