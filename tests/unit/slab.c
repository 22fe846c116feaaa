/* Slabs: their blocks, their states, and their return to the arena. */
#include "blocks/slab.h"

#include <string.h>

#include "blocks.h"
#include "child.h"
#include "inspect/stats.h"
#include "pages/arena.h"
#include "pages/pagemap.h"
#include "pattern.h"
#include "prng.h"
#include "setting.h"
#include "system.h"

static void *blocks[4 * HAK_BLOCKS_MAX];

static uint32_t control_of(const hak_slab_t *slab) {
  return atomic_load(&slab->control);
}

static uint32_t count_of(const hak_slab_t *slab) {
  return control_of(slab) >> HAK_SLAB_COUNT_SHIFT;
}

static hak_slab_t *acquire(uint32_t cls) {
  hak_slab_t *slab = hak_slab_acquire(cls);
  CHECK(slab != NULL);
  CHECK(slab->cls == cls && (control_of(slab) & HAK_SLAB_CURRENT) && !(control_of(slab) & HAK_SLAB_LISTED));
  return slab;
}

static uint32_t take_all(hak_slab_t *slab, void **into) {
  return blocks_take(slab, into, HAK_BLOCKS_MAX);
}

static void every_block_is_handed_out_once(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_slab_t *slab = acquire(cls);
    uint32_t taken = 0, want = 1;
    CHECK(hak_pagemap_class(slab->base) == cls && hak_pagemap_class(slab->base + HAK_SLAB_BYTES) == HAK_CLASS_NONE);
    CHECK(slab->blocks == ((uint32_t)slab->slices << HAK_SLICE_SHIFT) / hak_class_sizes[cls]);
    for (uint32_t count; (count = blocks_take(slab, blocks + taken, want)) > 0; want = want * 2 + 1) {
      taken += count;
      want = want < HAK_BLOCKS_MAX / 2 ? want : HAK_BLOCKS_MAX / 2 - 1;
    }
    CHECK(taken == slab->blocks && slab->bump == taken && count_of(slab) == 0);
    for (uint32_t i = 0; i < taken; i++) { /* new blocks come in ascending order */
      CHECK((char *)blocks[i] == slab->base + (size_t)i * hak_class_sizes[cls]);
    }
    hak_sweep_check();
    hak_slab_drop(slab);
    CHECK(control_of(slab) == 0 && slab->cls == cls); /* detached */
    blocks_give(blocks, taken);
    CHECK(slab->cls == HAK_CLASS_NONE && hak_pagemap_class(slab->base) == HAK_CLASS_NONE);
    CHECK(hak_retain_used_slices() == 0);
    hak_sweep_check();
  }
}

/* A thread gets whole cache lines as long as there are some. Parts of lines come last. */
static void lines_are_not_shared(void) {
  static hak_free_block_t *taken[HAK_BLOCKS_MAX];
  for (uint32_t cls = 1; hak_class_sizes[cls] < HAK_CACHE_LINE; cls++) {
    uint32_t bytes = hak_class_sizes[cls], group = bytes == 32 ? 2 : 4, count, new = 0;
    hak_slab_t *slab = acquire(cls);
    CHECK(hak_slab_take(slab, taken, 10 * group + 1, true) == 10 * group);
    hak_sweep_return(taken + 1, 2 * group - 1, cls, "test"); /* all blocks of two groups except one */
    CHECK(hak_slab_take(slab, taken, group + 1, true) == group &&
          hak_block_index(taken[0], slab->inverse) / group == 8);
    while ((count = hak_slab_take(slab, taken, 3 * group, true)) > 0 && slab->bump > 10 * group + new) {
      new += count;
      CHECK(count % group == 0 || slab->bump == slab->blocks);
    }
    CHECK(count == group - 1 && new == slab->blocks - 10 * group); /* the rest of the first group */
    CHECK(hak_slab_take(slab, taken, 1, true) == 0 && count_of(slab) == 0);
    hak_slab_drop(slab);
  }
}

static void an_untouched_slab_goes_at_once(void) {
  hak_slab_t *slab = acquire(5);
  hak_slab_drop(slab);
  CHECK(slab->cls == HAK_CLASS_NONE && hak_retain_used_slices() == 0);
}

static void what_returns_can_be_taken_again(void) {
  hak_slab_t *slab = acquire(1);
  uint32_t taken = take_all(slab, blocks);
  Prng prng = prng_seeded(1);
  for (int round = 0; round < 200; round++) {
    uint32_t n = 1 + prng_below(&prng, 100);
    for (uint32_t i = 0; i < n; i++) { /* a random part of the blocks to the end */
      uint32_t at = prng_below(&prng, taken - i);
      void *block = blocks[at];
      blocks[at] = blocks[taken - 1 - i];
      blocks[taken - 1 - i] = block;
    }
    blocks_give(blocks + taken - n, n);
    CHECK(count_of(slab) == n);
    uint32_t back = 0;
    while (back < n) {
      back += blocks_take(slab, blocks + taken - n + back, 1 + prng_below(&prng, n - back));
    }
    CHECK(back == n && count_of(slab) == 0);
  }
  hak_sweep_check();
  hak_slab_drop(slab);
  blocks_give(blocks, taken);
  CHECK(hak_retain_used_slices() == 0);
}

static void the_slab_that_waited_longest_is_next(void) {
  enum { SLABS = 4 };
  const uint32_t cls = hak_class_of(1024);
  hak_slab_t *slabs[SLABS];
  void *held[SLABS][HAK_SLAB_BYTES / 1024];
  uint32_t count = 0;
  for (int i = 0; i < SLABS; i++) {
    slabs[i] = acquire(cls);
    count = take_all(slabs[i], held[i]);
    hak_slab_drop(slabs[i]);
    CHECK(!(control_of(slabs[i]) & HAK_SLAB_LISTED));
  }
  for (int i = SLABS - 1; i >= 0; i--) { /* the first return lists a slab; later ones do not move it */
    blocks_give(held[i], 1);
    CHECK(control_of(slabs[i]) & HAK_SLAB_LISTED);
  }
  blocks_give(held[SLABS - 1] + 1, 1);
  hak_sweep_check();
  blocks_give(held[1] + 1, count - 1); /* leaves the middle of the list */
  CHECK(slabs[1]->cls == HAK_CLASS_NONE);
  hak_sweep_check();
  CHECK(acquire(cls) == slabs[3] && acquire(cls) == slabs[2] && acquire(cls) == slabs[0]);
  hak_slab_drop(slabs[2]);
  hak_slab_drop(slabs[3]);
  CHECK(acquire(cls) == slabs[2]);
  hak_sweep_check();
}

static void a_slab_in_use_is_not_released(void) {
  hak_slab_t *slab = acquire(20);
  uint32_t taken = take_all(slab, blocks);
  blocks_give(blocks, taken);
  CHECK(slab->cls == 20 && count_of(slab) == taken && hak_retain_used_slices() == HAK_SLAB_SLICES);
  CHECK(!(control_of(slab) & HAK_SLAB_LISTED));
  hak_slab_drop(slab);
  CHECK(slab->cls == HAK_CLASS_NONE && hak_retain_used_slices() == 0);
}

/* Returns more blocks, words and slabs than are gathered at a time, in random order. */
static void one_return_goes_to_many_slabs(void) {
  enum { SLABS = 4 };
  uint32_t taken = 0;
  for (int i = 0; i < SLABS; i++) {
    hak_slab_t *slab = acquire(1);
    taken += take_all(slab, blocks + taken);
    hak_slab_drop(slab);
  }
  Prng prng = prng_seeded(2);
  for (uint32_t i = taken - 1; i > 0; i--) {
    uint32_t at = prng_below(&prng, i + 1);
    void *block = blocks[i];
    blocks[i] = blocks[at];
    blocks[at] = block;
  }
  blocks_give(blocks, taken / 2);
  hak_sweep_check();
  hak_slab_totals_t totals[HAK_BIN_COUNT];
  hak_stats_slabs(totals);
  CHECK(totals[1].slabs == SLABS && totals[1].bump_blocks == taken && totals[1].free_blocks == taken / 2);
  blocks_give(blocks + taken / 2, taken - taken / 2);
  hak_stats_slabs(totals);
  CHECK(totals[1].slabs == 0 && totals[1].bump_blocks == 0 && hak_retain_used_slices() == 0);
}

/* Chunks of huge blocks and free ones have no slabs. */
static void totals_pass_over_other_chunks(void) {
  bool zeroed;
  hak_slab_totals_t totals[HAK_BIN_COUNT];
  CHECK(hak_freed_take_one(1) != NULL);
  CHECK(hak_huge_chunks_take(3, 5, HAK_CHUNK_BYTES, false, &zeroed) != NULL);
  void *given = hak_huge_chunks_take(2, 0, HAK_CHUNK_BYTES, false, &zeroed);
  CHECK(given != NULL);
  hak_huge_chunks_give(given);
  hak_stats_slabs(totals);
  CHECK(totals[1].slabs == 1 && totals[1].bump_blocks == 1 && totals[1].free_blocks == 0);
  hak_sweep_check();
}

/* A slab may reuse memory of another class, with old words in it. */
static void old_contents_do_no_harm(void) {
  retain_everything();
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_slab_t *slab = acquire(cls);
    CHECK(slab->zeroed ? all_zero(slab->base, HAK_SLAB_BYTES) : cls > 1);
    uint32_t taken = take_all(slab, blocks);
    CHECK(taken == slab->blocks);
    memset(slab->base, 0xff, HAK_SLAB_BYTES);
    hak_slab_drop(slab);
    blocks_give(blocks, taken);
  }
}

static void one_block_at_a_time(void) {
  enum { MOST = 3 * HAK_SLAB_BYTES / 2048 };
  const uint32_t cls = hak_class_of(2048);
  for (uint32_t i = 0; i < MOST; i++) {
    blocks[i] = hak_freed_take_one(cls);
    CHECK(blocks[i] != NULL && hak_pagemap_class(blocks[i]) == cls);
    CHECK(hak_is_marked_taken(blocks[i]) && !hak_is_marked_free(blocks[i]));
    memset(blocks[i], 1, 2048);
  }
  CHECK(hak_retain_used_slices() == 3 * HAK_SLAB_SLICES);
  hak_sweep_return_one(blocks[0], cls, "test");
  CHECK(hak_is_marked_free(blocks[0]));
  CHECK(hak_freed_take_one(cls) == blocks[0]);
  for (uint32_t i = 0; i < MOST; i++) {
    hak_sweep_return_one(blocks[i], cls, "test");
  }
  CHECK(hak_retain_used_slices() == 0);
  hak_sweep_check();
}

static void without_memory_there_is_no_slab(void) {
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  CHECK(hak_slab_acquire(3) == NULL && hak_freed_take_one(3) == NULL);
  system_allow();
  /* Both get a block of the first class that fills a slice: while memory is low, other sizes have no slabs. */
  CHECK(hak_freed_take_one(4) != NULL && hak_freed_take_one(3) != NULL);
}

static void nothing_is_returned(void) {
  hak_sweep_return(NULL, 0, 20, "test");
  CHECK(hak_retain_used_slices() == 0);
}

/* A return neither reads nor writes the block, whatever its owner wrote to it. */
static void a_return_touches_no_block(void) {
  hak_slab_t *slab = acquire(20);
  uint32_t taken = take_all(slab, blocks), bytes = hak_class_sizes[20];
  for (uint32_t i = 0; i < taken; i++) {
    pattern_fill(blocks[i], bytes, i);
  }
  hak_sweep_return((hak_free_block_t *const *)(void *)blocks, taken, 20, "test");
  for (uint32_t i = 0; i < taken; i++) {
    CHECK(pattern_holds(blocks[i], bytes, bytes, i));
  }
  hak_sweep_check();
}

/* Leaves only single slices free. One of them begins where a slab can begin. */
static char *leave_single_slices(void) {
  char *slices[HAK_CHUNK_SLICES], *left = NULL;
  bool zeroed;
  for (size_t i = 0; i < HAK_CHUNK_SLICES; i++) {
    slices[i] = hak_arena_take(1, 1, &zeroed);
    CHECK(slices[i] != NULL && hak_pagemap_chunk(slices[i]) == hak_pagemap_chunk(slices[0]));
  }
  for (size_t i = 0; i < HAK_CHUNK_SLICES; i++) {
    if (((uintptr_t)slices[i] & (4 * HAK_SLAB_BYTES - 1)) == 3 * HAK_SLICE_BYTES) {
      hak_arena_give(slices[i], 1);
    }
    left = !left && ((uintptr_t)slices[i] & (HAK_SLAB_BYTES - 1)) == 0 ? slices[i] : left;
  }
  hak_arena_give(left, 1);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  return left;
}

/* Without memory for a whole slab, a slab of one slice is made, if the blocks fill the slice. */
static void a_slab_may_be_one_slice(void) {
  retain_everything();
  char *slice = leave_single_slices();
  size_t used = hak_retain_used_slices();
  CHECK(hak_slab_acquire(hak_class_of(HAK_SMALL_MAX)) == NULL);
  for (uint32_t cls = 1; hak_class_sizes[cls] <= HAK_SLICE_BYTES; cls++) {
    if (HAK_SLICE_BYTES % hak_class_sizes[cls] != 0) {
      CHECK(hak_slab_acquire(cls) == NULL);
      continue;
    }
    hak_slab_t *slab = acquire(cls);
    CHECK(slab->base == slice && hak_retain_used_slices() == used + 1 && hak_slab_acquire(cls) == NULL);
    CHECK(hak_pagemap_class(slice) == cls && hak_pagemap_class(slice + HAK_SLICE_BYTES) == HAK_CLASS_NONE);
    uint32_t taken = take_all(slab, blocks);
    CHECK(taken == HAK_SLICE_BYTES / hak_class_sizes[cls] && slab->blocks == taken);
    for (uint32_t i = 0; i < taken; i++) {
      CHECK((char *)blocks[i] + hak_class_sizes[cls] <= slice + HAK_SLICE_BYTES);
    }
    hak_sweep_check();
    hak_slab_drop(slab);
    blocks_give(blocks, taken);
    CHECK(hak_pagemap_class(slice) == HAK_CLASS_NONE && hak_retain_used_slices() == used);
  }
  hak_arena_check();
}

static void the_key_stays(void) {
  uintptr_t key = hak_key;
  CHECK(key >> 63 == 1 && (key & ~((uintptr_t)1 << 63)) >> 32 != 0 && (key & UINT32_MAX) != 0);
  hak_freed_start();
  CHECK(hak_key == key);
}

int main(void) {
  hak_freed_start();
  child_succeeds(the_key_stays);
  child_succeeds(every_block_is_handed_out_once);
  child_succeeds(lines_are_not_shared);
  child_succeeds(an_untouched_slab_goes_at_once);
  child_succeeds(what_returns_can_be_taken_again);
  child_succeeds(the_slab_that_waited_longest_is_next);
  child_succeeds(a_slab_in_use_is_not_released);
  child_succeeds(one_return_goes_to_many_slabs);
  child_succeeds(totals_pass_over_other_chunks);
  child_succeeds(old_contents_do_no_harm);
  child_succeeds(one_block_at_a_time);
  child_succeeds(without_memory_there_is_no_slab);
  child_succeeds(nothing_is_returned);
  child_succeeds(a_return_touches_no_block);
  child_succeeds(a_slab_may_be_one_slice);
  return 0;
}
