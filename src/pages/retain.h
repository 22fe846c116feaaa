/* Duty: the arena's lock and counts, and the amount of free memory that stays resident. The parts of the arena report
 * every change of the resident memory here.
 * Data: hak_arena; lock: its own. Layers below: pagemap, options. */
#pragma once

#include "system/system.h"

/* State of adaptive retention, in slices; see retain.c. A window is HAKMEM_DECAY_MS of activity. */
typedef struct hak_retention {
  size_t fetched, purged;     /* totals since the start: used + free dirty == fetched - purged */
  int64_t balance;            /* the allowance of free memory, less HAKMEM_RETAIN */
  size_t ghosts[2];           /* slices purged and not fetched again: [0] in this window, [1] in earlier ones */
  size_t idle;                /* to be purged: free during the whole last window */
  size_t least_free;          /* low watermark of free resident memory in this window */
  size_t longest[2];          /* longest runs among the ghosts */
  size_t most_used[2];        /* peak use: [0] in this window, [1] in the one before */
  size_t trough;              /* lowest use in the windows before this one */
  uint64_t ticked_ms, age_ms; /* time of the last tick; age of this window */
  bool drew_ghosts;           /* demand fetched ghosts in this window */
  /* lowest use of the last windows: [0] of this one */
  size_t least_used[HAK_TROUGH_WINDOWS];
} hak_retention_t;

/* Numbers are in slices. */
typedef struct hak_arena {
  hak_lock_t lock;
  _Atomic size_t used_slices; /* written under the lock, read anywhere */
  size_t reserved_slices;     /* promised within the limit to callers that are about to use them */
  size_t peak_slices;         /* of used and apart_slices */
  size_t apart_slices;        /* of live blocks in mappings of their own (hardened profile) */
  size_t dirty_slices;        /* free and dirty */
  size_t clean_extent_slices; /* in extents of clean chunks */
  size_t stuck_slices;        /* dirty slices that the system refused to take back */
  size_t mapped_slices, mapped_ever, unmapped_ever;
  hak_retention_t retention;
  _Atomic bool low_memory; /* the system refused the last chunk, and none became free since */
  _Atomic bool mthp;       /* the kernel offers mTHP as large as slabs, and chunks for slabs get them */
  _Atomic bool locked;     /* mapped memory is resident at once (mlockall), and counts as dirty */
} hak_arena_t;

extern hak_arena_t hak_arena;

/* Whether all mapped memory is resident at once. */
HAK_INLINE bool hak_retain_is_locked(void) {
  return atomic_load_explicit(&hak_arena.locked, memory_order_relaxed);
}

/* Count slices as used (`up`), which ends their reservation, or as free. */
void hak_retain_count_used_locked(size_t slices, bool up);
void hak_retain_unreserve_locked(size_t slices);
/* Count slices outside of the arena as used, which ends their reservation, or as gone (`slices` < 0). */
void hak_retain_count_apart(int64_t slices);

/* Report that slices that were not resident are about to be used. Retention could have avoided this by keeping a run of
 * `row` slices. `row` 0: it could not. */
void hak_retain_fetch_locked(size_t slices, size_t row);
/* Report the purge of slices from a run of `row`. If demand soon fetches as many again, retention grows. `row` 0:
 * retention ignores this purge. */
void hak_retain_purge_locked(size_t slices, size_t row);
/* Report that the system did not take these slices. */
void hak_retain_unpurge_locked(size_t slices);
/* Report that an active thread read the clock. True: a window has ended. */
bool hak_retain_tick_locked(uint64_t now_ms);
/* Target: number of free slices that may stay resident. */
size_t hak_retain_target_locked(void);
/* Surplus: number of resident free slices beyond the target. */
size_t hak_retain_surplus_locked(void);
/* Whether all free memory stays for good, until a program asks for its return: the option RETAIN says so, or no call
 * is allowed. */
enum { HAK_RETAIN_ALL = 1LL << 40 };
bool hak_retain_keeps_all(void);
/* Number of free slices that need not stay where a load has ended: not those of RETAIN. None under a filter of system
 * calls, or where all mapped memory is resident at once. */
size_t hak_retain_spare_locked(void);
/* Number of slices to purge for a surplus after `given` became free. Small frees are batched; one large free releases
 * only its own excess. */
size_t hak_retain_batch_locked(size_t surplus, size_t given);
