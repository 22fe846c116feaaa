/* Duty: the interface between the parts of the arena. arena.c has slices of chunks, extent.c whole chunks, grow.c their
 * mapping, retain.c the amount of free memory that stays resident. release.c purges; limit.c and unmap.c serve short
 * memory. Data: hak_arena, see arena.h. Layers below: mask, pagemap. */
#pragma once

#include "arena.h"
#include "lock.h"
#include "mask.h"
#include "pagemap.h"

enum {
  HAK_DIRTY_LISTS = 16,  /* lists of SLICED chunks with free dirty slices, the fullest chunks first */
  HAK_EXTENT_LISTS = 32, /* lists by the logarithm of the number of chunks */
  HAK_PLACES = 32,
  /* Slices (4 MiB). A caller purges at most this much beyond a few times its own free, so that none waits for long. A
   * small surplus is batched up to this size, so that system calls are rare. */
  HAK_PURGE_STEP = 256,
};

/* Mapped slices beyond which the arena avoids extra mappings for each chunk: a process has some 65,000. */
#define HAK_SPLIT_BELOW ((size_t)8 << 30 >> HAK_SLICE_SHIFT)

/* An address range that the arena believes to be unmapped. */
typedef struct hak_place {
  char *base;
  size_t bytes; /* 0: the entry is empty */
} hak_place_t;

/* SLICED chunks, listed by longest free run, and again by free dirty slices, most recently freed first. The words hold
 * one bit for each list that is not empty. */
typedef struct hak_chunk_lists {
  hak_chunk_t *runs[HAK_CHUNK_SLICES];
  hak_mask_t runs_listed;
  uint32_t dirty_listed;
  struct {
    hak_chunk_t *first, *last;
  } dirty[HAK_DIRTY_LISTS];
} hak_chunk_lists_t;

/* State of adaptive retention, in slices; see retain.c. A window is HAKMEM_DECAY_MS of activity. */
typedef struct hak_retention {
  size_t fetched, purged;     /* since the start: used + free dirty == fetched - purged */
  int64_t balance;            /* the allowance of free memory, less HAKMEM_RETAIN */
  size_t ghosts[2];           /* purged and not fetched again: in this window, and in earlier ones */
  size_t idle;                /* to be purged: free during the whole last window */
  size_t least_free;          /* low watermark of free resident memory in this window */
  size_t longest[2];          /* longest runs that were purged with `ghosts` */
  size_t most_used[2];        /* peak use in this window, and in the one before */
  uint64_t ticked_ms, age_ms; /* the last tick; the age of this window */
  bool drew_ghosts;           /* demand fetched ghosts in this window */
} hak_retention_t;

typedef struct hak_arena {
  hak_lock_t lock;
  _Atomic size_t used_slices; /* written under the lock, read anywhere */
  size_t reserved_slices;     /* within the limit, for callers that are about to use them */
  hak_retention_t retention;
  size_t dirty_slices;        /* free and dirty */
  size_t clean_extent_slices; /* in extents of clean chunks */
  size_t given_blocks;        /* number of huge blocks freed so far */
  size_t runs[HAK_BIN_COUNT]; /* runs in use, by class */
  size_t mapped_slices, mapped_ever, unmapped_ever;
  hak_chunk_lists_t lists[2]; /* [1]: chunks for slabs */
  /* Lists of FREE extents; [1]: the dirty ones. */
  hak_chunk_t *extents[2][HAK_EXTENT_LISTS];
  uint32_t extents_listed[2];
  /* Spare descriptors, stocked while the lock is free. */
  hak_chunk_t *spare_chunks;
  hak_slabs_t *spare_slabs;
  size_t spare_chunks_count, spare_slabs_count;
  hak_chunk_t *transit; /* chunks with slices being purged */
  /* Extents being purged that are still mapped. Each has one or two spare descriptors, and the list links the first. */
  hak_chunk_t *leaving;
  /* Address hint for new memory that fits in none of `places`; everything below it was never mapped. */
  char *wish;
  /* End of the last mapping of less than a chunk. */
  _Atomic(char *) little_end;
  hak_place_t places[HAK_PLACES]; /* unmapped ranges to be used again */
  size_t lost_bytes;              /* unmapped and not in `places`: only the kernel finds them */
  size_t stuck_slices;            /* dirty slices that the system refused to take back */
  _Atomic uint32_t forks;         /* forks that led to this process; a fork ends purging */
  /* Fault-latency budget: after slow huge pages, `huge_pause` chunks do without one, and `huge_left` of these
   * remain. */
  uint32_t huge_pause, huge_left;
  uint64_t huge_debt_ms;     /* what huge pages took beyond the budget */
  uint32_t first_slice;      /* where chunks are filled from, if free there */
  _Atomic bool surplus;      /* the free resident memory exceeds the target */
  _Atomic bool window_ended; /* a window ended, and no caller noticed yet */
  /* Low memory: the system refused the last chunk, and none became free since. */
  _Atomic bool tight;
  /* The kernel offers mTHP as large as slabs, and chunks for slabs get them. */
  _Atomic bool medium;
  /* Mapped memory is resident at once (mlockall), and counts as dirty. */
  _Atomic bool locked;
} hak_arena_t;

extern hak_arena_t hak_arena;

/* arena.c */

/* Put a SLICED chunk into the lists that match its masks, or make it FREE if all of it is free. */
void hak_arena_settle_locked(hak_chunk_t *chunk);
/* Take a SLICED chunk out of its lists; its free slices count in no total afterwards. */
void hak_arena_unlist_locked(hak_chunk_t *chunk);
void hak_arena_count_used_locked(size_t slices, bool up);

/* extent.c */

/* Take the lock, with enough descriptors for any one change of the lists. False: there is no memory for descriptors,
 * and the lock is not held. */
bool hak_arena_lock_stocked(void);
/* Use a spare descriptor for the chunk at `base`. */
hak_chunk_t *hak_chunk_new_locked(char *base, hak_chunk_state_t state);
void hak_chunk_spare_locked(hak_chunk_t *chunk);
/* Set `count` spare descriptors aside, linked by `next`, for the caller alone. */
hak_chunk_t *hak_chunk_hold_locked(size_t count);

/* Adjacent free chunks. */
typedef struct hak_extent {
  char *base;
  size_t chunks;
  bool dirty;
} hak_extent_t;

/* Put an extent into the lists, joined with its neighbours of the same kind. */
void hak_extent_put_locked(hak_extent_t extent);
/* Take an extent out of the lists, by its first descriptor. The page map then shows all of it as GONE. */
hak_extent_t hak_extent_cut_locked(hak_chunk_t *first);
/* Join `more` chunks of the free extent directly behind a small huge block to that block. The caller has reserved them
 * within the limit. False: there is no such extent, or it is too large. */
bool hak_extent_join(hak_chunk_t *huge, size_t more);
/* Take one whole chunk, SLICED, with every slice free and in no list. NULL: there is no extent. */
hak_chunk_t *hak_extent_slice_locked(void);

/* grow.c */

/* Remember an unmapped range as a place for later mappings. */
void hak_place_remember_locked(char *base, size_t bytes);

/* Map memory for `chunks` chunks, aligned to `align` bytes. If there is none for a single chunk, map at least `slices`
 * slices. `special`: slices serve slabs, which should get mTHP; chunks become one fresh mapping. False: no memory. */
bool hak_extent_grow(size_t chunks, size_t align, size_t slices, bool special);
/* Add mapped slices of one chunk, which read as zeros. False: there is no memory for their descriptors, and they are
 * unmapped. */
bool hak_arena_add_slices(char *base, size_t slices);

/* retain.c: the callers report every change of the resident memory. */

/* Slices that were not resident are about to be used. Retention could have avoided this, if it had kept a run of `row`
 * slices; `row` 0: it could not. */
void hak_retain_fetch_locked(size_t slices, size_t row);
/* Slices of a run of `row` are purged. If demand soon fetches as many again, retention grows; `row` 0: it ignores
 * them. */
void hak_retain_purge_locked(size_t slices, size_t row);
/* The system did not take these slices. */
void hak_retain_unpurge_locked(size_t slices);
/* The use rose to `used` slices. */
void hak_retain_use_locked(size_t used);
/* An active thread read the clock. True: a window has ended. */
bool hak_retain_tick_locked(uint64_t now_ms);
/* Target: number of free slices that may stay resident. */
size_t hak_retain_target_locked(void);
/* Surplus: number of resident free slices beyond the target. */
size_t hak_retain_surplus_locked(void);
/* Number of slices to purge for a surplus after `given` became free. Small frees are batched; one large free releases
 * only its own excess. */
size_t hak_retain_batch_locked(size_t surplus, size_t given);

/* limit.c */

/* Reserve slices within the limit; purge free memory if that makes room. The reservation lasts until the caller uses
 * the slices or releases it. False: the limit has no room. */
bool hak_limit_reserve(size_t slices);
void hak_limit_unreserve(size_t slices);
void hak_limit_unreserve_locked(size_t slices);

/* release.c */

/* Whether there is a surplus, so that a step is due. */
bool hak_release_due_locked(void);
/* Begin to purge an extent that is in no list. The caller then passes it to hak_release_finish without the lock, with
 * the present count of forks. Takes two spare descriptors. */
hak_chunk_t *hak_release_depart_locked(hak_extent_t extent, size_t row);
void hak_release_finish(hak_chunk_t *departed, uint32_t forks);
/* Move resident free chunks into a mapped range that only the caller knows. *filled: how many moved. False: the content
 * of the range is unknown. */
bool hak_release_into(char *base, size_t chunks, size_t *filled);
/* If all mapped memory is resident at once, purge what a new mapping brought beyond the request. `grows`: purge the
 * surplus in any case, since a block that grows cannot use it. */
void hak_release_after_take(bool grows);
/* The slices of the mask that make up whole pages, which may be larger than a slice. */
hak_mask_t hak_release_whole_pages(hak_mask_t mask);
/* End the purging of the chunk's slices: they are free again, and `done` of them are clean. */
void hak_release_out_of_transit_locked(hak_chunk_t *chunk, hak_mask_t done);

/* unmap.c: when mapping fails, unmap the memory that nothing needs. */

/* Number of clean free slices in chunks that also hold blocks. */
size_t hak_unmap_rest_locked(void);

/* Unmap the purging slices of a partly mapped chunk, and unlock. Returns their number. */
size_t hak_unmap_transit_and_unlock(hak_chunk_t *chunk);
/* Unmap the clean free slices of chunks that also hold blocks. False: nothing was unmapped. There are fewer than
 * `least`, too few for the effort, or so much mapped memory that the process would run out of mappings. */
bool hak_unmap_rest(size_t least);
