/* Duty: placement: which slices and chunks are free, and which of them a request gets. chunk_descriptors.c has spare
 * descriptors, extents.c free chunks, chunks.c the slices of SLICED chunks. No system call, except for descriptors.
 * Data: hak_placement and the chunks; lock: the arena's. Layers below: retain, mask, pagemap, meta. */
#pragma once

#include "pagemap.h"
#include "retain.h"

enum {
  HAK_DIRTY_LISTS = 16,  /* lists of SLICED chunks with free dirty slices, the fullest chunks first */
  HAK_EXTENT_LISTS = 32, /* lists by the logarithm of the number of chunks */
};

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

typedef struct hak_placement {
  hak_chunk_lists_t lists[2]; /* [1]: chunks for slabs */
  /* Lists of FREE extents; [1]: the dirty ones. */
  hak_chunk_t *extents[2][HAK_EXTENT_LISTS];
  uint32_t extents_listed[2];
  /* Spare descriptors, stocked while the lock is free. */
  hak_chunk_t *spare_chunks;
  hak_slabs_t *spare_slabs;
  size_t spare_chunks_count, spare_slabs_count;
  uint32_t first_slice; /* threads fill a chunk from this slice upwards, if it is free */
} hak_placement_t;

extern hak_placement_t hak_placement;

/* Take the lock, with enough descriptors for any one change of the lists. False: there is no memory for descriptors,
 * and the lock is not held. */
bool hak_chunk_lock_stocked(void);
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
  hak_mask_t zeros; /* see hak_chunk_t */
} hak_extent_t;

/* Put an extent into the lists, joined with its neighbours of the same kind. */
void hak_extent_put_locked(hak_extent_t extent);
/* Take an extent out of the lists, by its first descriptor. The page map then shows all of it as GONE. */
hak_extent_t hak_extent_cut_locked(hak_chunk_t *first);
/* Find an extent with an aligned range of `chunks`, *offset chunks from its start. With a `tail`, the range ends where
 * a chunk begins whose first `tail` slices are free. NULL: there is none. */
hak_chunk_t *hak_extent_find_locked(bool dirty, size_t chunks, size_t tail, size_t align, size_t *offset);
/* Take a part of an extent out, and put the remainder back into the lists. */
hak_extent_t hak_extent_take_locked(hak_chunk_t *first, size_t offset, size_t chunks);
/* The chunk directly behind an extent, if it is sliced and its first `tail` slices are free. */
hak_chunk_t *hak_extent_behind(const hak_chunk_t *first, size_t tail);
/* Turn a chunk that was taken out into a SLICED one; all its slices are free, and it is in no list. */
hak_chunk_t *hak_extent_slice_locked(hak_extent_t extent);
/* Turn any free chunk into a SLICED one, which takes descriptors. NULL: there is none. */
hak_chunk_t *hak_extent_slice_any_locked(bool for_slabs);

/* A place for slices; chunk NULL: there is none. */
typedef struct hak_place {
  hak_chunk_t *chunk;
  uint32_t first;
} hak_place_t;

/* Find free slices. `any`: memory is short, so clean slices in chunks of the other kind will do. */
hak_place_t hak_chunk_find_locked(size_t slices, size_t align, bool for_slabs, bool any);
/* Choose a place in a chunk that is all free. */
hak_place_t hak_chunk_place_in(hak_chunk_t *chunk, size_t slices, size_t align);
void hak_chunk_take_locked(hak_chunk_t *chunk, size_t first, size_t slices, bool *zeroed);
void hak_chunk_give_locked(hak_chunk_t *chunk, size_t first, size_t slices);
/* Put a SLICED chunk into the lists that match its masks, or make it FREE if all of it is free. */
void hak_chunk_list_locked(hak_chunk_t *chunk);
/* Take a SLICED chunk out of its lists; its free slices count in no total afterwards. */
void hak_chunk_unlist_locked(hak_chunk_t *chunk);
