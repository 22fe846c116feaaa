/* Duty: mapping: get address space from the system and give it back. mapping.c maps, huge_pages.c chooses the size of
 * pages, unmap.c unmaps what nothing needs when mapping fails.
 * Data: hak_mapping; lock: the arena's. Layers below: chunks, options, os. */
#pragma once

#include "arena.h"
#include "chunks.h"

/* An address range that the arena believes to be unmapped. */
typedef struct hak_range {
  char *base;
  size_t bytes; /* 0: the entry is empty */
} hak_range_t;

enum { HAK_UNMAPPED_RANGES = 32 };

typedef struct hak_address_space {
  /* Address hint for new memory that fits in none of `unmapped`; everything below it was never mapped. */
  char *hint;
  _Atomic(char *) part_end;                  /* end of the last mapping of less than a chunk */
  hak_range_t unmapped[HAK_UNMAPPED_RANGES]; /* to be used again */
  size_t lost_bytes;                         /* unmapped, but not in `unmapped`: only the kernel can reuse them */
} hak_address_space_t;

extern hak_address_space_t hak_mapping;

/* Remember an unmapped range as a place for later mappings. */
void hak_mapping_remember_locked(char *base, size_t bytes);
/* Map memory, aligned to `align` bytes. NULL: there is none. */
char *hak_mapping_new(size_t bytes, size_t align, bool for_slabs);
/* Take the lock, with the leaves and descriptors that listing a mapped range needs. False: the range was unmapped
 * again, or was never mapped (NULL). */
bool hak_mapping_lock(char *base, size_t bytes);
void hak_mapping_count_locked(size_t slices);
/* List mapped slices of one chunk, which read as zeros. False: there is no memory for descriptors, and the slices are
 * unmapped. */
bool hak_mapping_list_slices(char *base, size_t slices);
/* Map and list at least `slices` slices within one chunk. False: no memory. */
bool hak_mapping_slices(size_t slices);

/* Choose the size of pages for a new mapping. */
void hak_huge_pages_advise(char *base, size_t bytes, bool for_slabs);

/* The slices of the mask that make up whole pages, which may be larger than a slice. */
hak_mask_t hak_unmap_whole_pages(hak_mask_t mask);
/* Take slices out of a chunk's masks before they are unmapped, so that the child of a fork does not use them either. */
void hak_unmap_forget_locked(hak_chunk_t *chunk, hak_mask_t mask);
/* Unmap the slices that were taken out once the chunk is listed again, and unlock. False: some of them could not be
 * unmapped, and are free. */
bool hak_unmap_and_unlock(hak_chunk_t *chunk, hak_mask_t mask);
/* Number of clean free slices in chunks that also hold blocks. */
size_t hak_unmap_clean_locked(void);
/* Unmap the clean free slices of chunks that also hold blocks. False: nothing was unmapped, because there are fewer
 * than `least`, or too few for the effort, or the process would run out of mappings. */
bool hak_unmap_clean(size_t least);
