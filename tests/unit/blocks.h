/* Blocks as the slabs hand them out and take them back. */
#ifndef HAK_TEST_BLOCKS_H
#define HAK_TEST_BLOCKS_H

#include "blocks/slab.h"
#include "check.h"
#include "pages/pagemap.h"

/* Takes up to `want` blocks to `into`, in the order in which they are handed out. Returns their number. */
static inline uint32_t blocks_take(hak_slab_t *slab, void **into, uint32_t want) {
  static hak_free_block_t *taken[HAK_BLOCKS_MAX];
  CHECK(want <= HAK_BLOCKS_MAX);
  uint32_t count = hak_slab_take(slab, taken, want, false);
  CHECK(count <= want);
  for (uint32_t i = 0; i < count; i++) {
    hak_free_block_t *block = taken[count - 1 - i];
    CHECK(hak_is_marked_free(block));
    into[i] = hak_mark_taken(block);
  }
  return count;
}

static inline void blocks_give(void *const *from, uint32_t count) {
  static hak_free_block_t *given[4 * HAK_BLOCKS_MAX];
  CHECK(count <= sizeof given / sizeof(void *));
  for (uint32_t i = 0; i < count; i++) {
    given[i] = from[i];
    hak_mark_free(given[i]);
  }
  if (count > 0) {
    hak_sweep_return(given, count, hak_pagemap_slab(given[0])->cls, "test");
  }
}

#endif
