/* Duty: mixed slabs, whose blocks have different classes. Mixed slabs hold the first blocks of each class in a thread,
 * so that the classes of a small heap share pages. Data: a thread fills a page of its own; the pages that nobody fills,
 * and all returned blocks, are under one lock. Layers below: arena, meta, types.
 *
 *   mixed slab   16 pages of 4 KiB    page   [unused][48][ 16 ][gap][   128   ][  64  ] ... at ─> [not handed out yet]
 *
 * The page map has the class MIXED for its slices, so each free of such a block takes the slow path. One byte for every
 * 16 bytes of the slab tells which class starts there. While there is memory, a returned block is not handed out
 * alone: when all blocks of a page are back, the whole page is empty. */
#pragma once

#include "system/system.h"

/* The page that a thread fills. All zeros: none. */
typedef struct hak_mixed_place {
  char *at, *end;  /* where the next block may begin; end of the page */
  uint32_t blocks; /* number of blocks of the page so far */
  bool zeroed;     /* the rest of the page reads as zeros */
} hak_mixed_place_t;

/* Take a block of the class, at most HAK_MIXED_BLOCK_MAX bytes, marked as free. NULL: no memory. */
hak_free_block_t *hak_mixed_take(hak_mixed_place_t *place, uint32_t cls);
/* The thread ends, or fills another page. */
void hak_mixed_leave(hak_mixed_place_t *place);
/* Return a block. Returns the number of slices that went back to the arena. */
size_t hak_mixed_put(hak_slab_t *slab, const void *block, uint32_t cls, const char *function);
/* Take returned blocks of the class from all mixed slabs, when there is no memory for a slab. Returns their number. */
uint32_t hak_mixed_take_back(uint32_t cls, hak_free_block_t **blocks, uint32_t want);
/* Whether bytes of the page beside the block, which belong to no block, were written. */
bool hak_mixed_find_damage(const void *block, uint32_t cls, hak_misuse_t *reason);
void hak_mixed_check(const hak_slab_t *slab);

extern hak_lock_t hak_mixed_lock;
