/* Duty: purging: give free memory back to the system in steps. grow.c, which gets more, may move free memory instead.
 * Data: hak_purging; lock: the arena's. Layers below: mapping, chunks, retain. */
#pragma once

#include "mapping.h"

typedef struct hak_purging {
  hak_chunk_t *chunks; /* chunks with slices being purged */
  /* Extents being purged that are still mapped. Each has one or two spare descriptors; the list links the first. */
  hak_chunk_t *extents;
  _Atomic uint32_t forks; /* number of forks that led to this process; a fork ends all purging in the child */
} hak_purging_t;

extern hak_purging_t hak_purging;

/* Begin to purge an extent that is in no list. The caller then passes it to hak_purge_finish without the lock, with the
 * present count of forks. Takes two spare descriptors. */
hak_chunk_t *hak_purge_begin_locked(hak_extent_t extent, size_t row);
void hak_purge_finish(hak_chunk_t *held, uint32_t forks);
/* Move resident free chunks into a mapped range that only the caller knows. *filled: how many moved. False: the content
 * of the range is unknown. */
bool hak_purge_into(char *base, size_t chunks, size_t *filled);

/* huge_chunks.c and move.c */

extern size_t hak_huge_freed; /* number of huge blocks freed so far; lock: the arena's */

/* grow.c */

/* Reserve slices within the limit; purge free memory if that makes room. The reservation lasts until the caller uses
 * the slices or releases it. False: the limit has no room. */
bool hak_grow_reserve(size_t slices);
void hak_grow_unreserve(size_t slices);
/* Map memory for `chunks` chunks, aligned to `align` bytes. If there is no memory even for one chunk, map at least
 * `slices` slices. `special`: if slices, they are for slabs and should get mTHP; if chunks, they become one fresh
 * mapping. False: no memory. */
bool hak_grow(size_t chunks, size_t align, size_t slices, bool special);
