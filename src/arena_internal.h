/* Duty: what the parts of the arena share: arena.c (slices of chunks), extent.c (whole chunks), grow.c (their
 * mapping), retain.c (how much free memory stays resident), release.c (what goes, and how), limit.c and unmap.c. Data:
 * hak_arena, see arena.h. Layers below: mask, pagemap. */
#pragma once

#include "arena.h"
#include "lock.h"
#include "mask.h"
#include "pagemap.h"

enum {
  HAK_DIRTY_LISTS = 16,  /* of SLICED chunks with free dirty slices, by free slices; the fullest in the first */
  HAK_EXTENT_LISTS = 32, /* by the logarithm of the number of chunks */
  HAK_PLACES = 32,
  /* Slices, 4 MiB: what a caller purges at most beyond a few times what it gave, so that none waits for long; and with
   * a small surplus, so that system calls are rare. */
  HAK_PURGE_STEP = 256,
};

/* Mapped slices beyond which nothing is done that may make a mapping or two of each chunk: a process has some 65,000.
 */
#define HAK_SPLIT_BELOW ((size_t)8 << 30 >> HAK_SLICE_SHIFT)

/* Addresses where nothing is mapped, as far as is known. */
typedef struct hak_place {
  char *base;
  size_t bytes; /* 0: none */
} hak_place_t;

/* SLICED chunks by their longest run; and those with free dirty slices, of which what became free last stands first. A
 * bit for each list that is not empty. */
typedef struct hak_chunk_lists {
  hak_chunk_t *runs[HAK_CHUNK_SLICES];
  hak_mask_t runs_listed;
  uint32_t dirty_listed;
  struct {
    hak_chunk_t *first, *last;
  } dirty[HAK_DIRTY_LISTS];
} hak_chunk_lists_t;

/* What decides how much free memory stays resident, in slices; see retain.c. A window is HAKMEM_DECAY_MS of activity.
 */
typedef struct hak_retention {
  size_t fetched, purged;     /* since the start: used + free and dirty == fetched - purged */
  int64_t balance;            /* the allowance of free memory, less HAKMEM_RETAIN */
  size_t ghosts[2];           /* purged in this window, and before it, and not fetched again since */
  size_t idle;                /* of the last window, to be purged: it was free all that time */
  size_t least_free;          /* the least free memory that was resident in this window */
  size_t most_used[2];        /* the most in use in this window, and in the one before */
  uint64_t ticked_ms, age_ms; /* the last tick; what it and those before add up to in this window */
  bool drew_ghosts;           /* in this window demand fetched some of them */
} hak_retention_t;

typedef struct hak_arena {
  hak_lock_t lock;
  _Atomic size_t used_slices; /* written under the lock, read anywhere */
  size_t reserved_slices;     /* within the limit, for callers that are about to use them */
  hak_retention_t retention;
  size_t dirty_slices;        /* free and dirty */
  size_t clean_extent_slices; /* of whole free chunks */
  size_t given_blocks;        /* huge ones, freed */
  size_t runs[HAK_BIN_COUNT]; /* taken, by class */
  size_t mapped_slices, mapped_ever, unmapped_ever;
  hak_chunk_lists_t lists[2]; /* [1]: chunks for slabs */
  /* FREE extents; [1]: dirty ones */
  hak_chunk_t *extents[2][HAK_EXTENT_LISTS];
  uint32_t extents_listed[2];
  /* descriptors to be used, filled while the lock is free */
  hak_chunk_t *spare_chunks;
  hak_slabs_t *spare_slabs;
  size_t spare_chunks_count, spare_slabs_count;
  hak_chunk_t *transit; /* chunks with slices in transit */
  hak_chunk_t *leaving; /* extents in transit that are still mapped: a descriptor each, with another one behind it */
  char *wish;           /* below, nothing was mapped yet: the place for what fits in none of these */
  _Atomic(char *) little_end;     /* of what was mapped last in less than a chunk */
  hak_place_t places[HAK_PLACES]; /* that were unmapped */
  size_t lost_bytes;              /* unmapped, and in no place any more: only the kernel finds them */
  size_t stuck_slices;            /* dirty, but the system would not take them back */
  _Atomic uint32_t forks;         /* that led here and ended what was in transit */
  uint32_t huge_pause, huge_left; /* chunks that do without a huge page after such were slow; of these, to come */
  uint64_t huge_debt_ms;          /* what they took too long */
  uint32_t first_slice;           /* of every chunk, as far as it is free */
  _Atomic bool surplus;           /* more is free and resident than may stay */
  _Atomic bool window_ended;      /* and nobody took notice yet */
  _Atomic bool tight;             /* the last chunk was refused, and none became free since */
  _Atomic bool medium;            /* the kernel has pages as large as slabs, and chunks for slabs get them */
  _Atomic bool locked;            /* what is mapped is resident at once, and counts as dirty */
} hak_arena_t;

extern hak_arena_t hak_arena;

/* arena.c */

/* Put a SLICED chunk into the lists that its masks say; FREE when all of it became free. */
void hak_arena_settle_locked(hak_chunk_t *chunk);
/* A SLICED chunk is in no list any more, and what of it is free counts as nothing. */
void hak_arena_unlist_locked(hak_chunk_t *chunk);
void hak_arena_count_used_locked(size_t slices, bool up);

/* extent.c */

/* Takes the lock, with enough descriptors for any one change of the lists. False: there is no memory for them, and it
 * is not taken. */
bool hak_arena_lock_stocked(void);
/* One of them, for the chunk there. */
hak_chunk_t *hak_chunk_new_locked(char *base, hak_chunk_state_t state);
void hak_chunk_spare_locked(hak_chunk_t *chunk);
/* So many of them, linked by `next`, for the caller alone. */
hak_chunk_t *hak_chunk_hold_locked(size_t count);

/* Whole free chunks side by side. */
typedef struct hak_extent {
  char *base;
  size_t chunks;
  bool dirty;
} hak_extent_t;

/* Put an extent into the lists, joined with its neighbours of the same kind. */
void hak_extent_put_locked(hak_extent_t extent);
/* Take an extent out of the lists, by its first descriptor; in the page map all of it is GONE. */
hak_extent_t hak_extent_cut_locked(hak_chunk_t *first);
/* So many chunks of a free extent that lies right behind become part of a small huge block, for which they had been
 * promised. False: there is none, or it is too large. */
bool hak_extent_join(hak_chunk_t *huge, size_t more);
/* One whole chunk, SLICED now, with every slice free; in no list. NULL: there is no extent. */
hak_chunk_t *hak_extent_slice_locked(void);

/* grow.c */

/* Unmapped: where the next mappings go. */
void hak_place_remember_locked(char *base, size_t bytes);

/* Map memory for `chunks` chunks at a multiple of `align` bytes; or, where there is none for one chunk, for at least
 * `slices` slices. `special`: slices are for slabs, which should get
 * pages as large; chunks are to be one mapping, made of nothing that was used. False: no memory. */
bool hak_extent_grow(size_t chunks, size_t align, size_t slices, bool special);
/* Mapped slices, which read as zeros, of one chunk. False: there is no memory to know them, and they are unmapped. */
bool hak_arena_add_slices(char *base, size_t slices);

/* retain.c: told of every change of what is resident. */

/* Slices that were not resident are about to be used. `demand`: free memory could have served, had it been kept. */
void hak_retain_fetch_locked(size_t slices, bool demand);
/* Slices leave; `by_policy`: to be regretted, should demand fetch as many again soon. */
void hak_retain_purge_locked(size_t slices, bool by_policy);
/* The system did not take them. */
void hak_retain_unpurge_locked(size_t slices);
/* So many slices are in use now. */
void hak_retain_use_locked(size_t used);
/* The clock, read by a thread that is active. True: a window has ended. */
bool hak_retain_tick_locked(uint64_t now_ms);
/* So many free slices may stay resident. */
size_t hak_retain_target_locked(void);
/* So many of those that are resident may not. */
size_t hak_retain_surplus_locked(void);
/* So many are purged for a surplus after `given` slices became free: a small one takes some of what may stay with it,
 * so that small ones are rare. */
size_t hak_retain_batch_locked(size_t surplus, size_t given);

/* limit.c */

/* Whether so many more slices may be used within the limit; gives back others where that makes room. They are reserved
 * for the caller until it uses them, or says that it does not. */
bool hak_limit_reserve(size_t slices);
void hak_limit_unreserve(size_t slices);
void hak_limit_unreserve_locked(size_t slices);

/* release.c */

/* Whether there is a surplus: then a step is due. */
bool hak_release_due_locked(void);
/* An extent that is in no list is in transit now: to be given to hak_release_finish, without the lock, with as many
 * forks as there are now. Takes two spare descriptors. */
hak_chunk_t *hak_release_depart_locked(hak_extent_t extent, bool by_policy);
void hak_release_finish(hak_chunk_t *departed, uint32_t forks);
/* Free chunks that are resident move to the first of these, which are mapped, and which nobody else knows of. *filled:
 * how many did. False: nobody knows any more what lies there. */
bool hak_release_into(char *base, size_t chunks, size_t *filled);
/* Where all that is mapped is resident: what a mapping brought beyond what is taken of it. For a block that `grows`:
 * what it can use nothing of. */
void hak_release_after_take(bool grows);
/* Those of the slices that make up whole pages, which may be larger: of the rest, pages hold something else. */
hak_mask_t hak_release_whole_pages(hak_mask_t mask);
/* The chunk's slices in transit are free again; of these, `done` are clean now. */
void hak_release_out_of_transit_locked(hak_chunk_t *chunk, hak_mask_t done);

/* unmap.c: where no more can be mapped, what is mapped without need is what others lack. */

/* So many slices are clean in chunks that blocks have a part of. */
size_t hak_unmap_rest_locked(void);

/* The slices in transit of a chunk that was mapped in part are unmapped. Returns how many; the lock is free then. */
size_t hak_unmap_transit_and_unlock(hak_chunk_t *chunk);
/* So is what is free and clean in chunks that blocks have a part of. False: nothing was, for that is less than `least`
 * slices, or little of all, or because so much is mapped that it would take too many mappings. */
bool hak_unmap_rest(size_t least);
