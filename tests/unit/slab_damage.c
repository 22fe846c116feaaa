/* Misuse that slabs notice: blocks that return twice, blocks that were never handed out, and blocks written to while
 * free, which are reported when they are handed out. Each crime is committed in a child, on the slab that the parent
 * set up. */
#include <string.h>

#include "blocks.h"
#include "blocks/slab.h"
#include "child.h"
#include "inspect/stats.h"
#include "pages/pagemap.h"

#define CORRUPTED "double free or corrupted free block"
#define TWICE "double free"
#define INVALID "invalid pointer"

enum { BLOCKS = 64, FREE = 5, OUT = 9 };

static const uint32_t one_block = 1U << HAK_SLAB_COUNT_SHIFT; /* one block in hak_slab_t.control */
static hak_slab_t *slab;
static hak_free_block_t *block[BLOCKS]; /* the first 32 were handed out; FREE is in the slab, OUT is not */

static void return_three(hak_free_block_t *first, hak_free_block_t *second, hak_free_block_t *third) {
  hak_free_block_t *const some[] = {first, second, third};
  hak_sweep_return(some, 3, slab->cls, "test");
}

static void return_alone_twice(void) {
  hak_sweep_return_one(block[FREE], slab->cls, "test");
}

static void return_among_others_twice(void) {
  return_three(block[OUT], block[FREE], block[OUT + 1]);
}

static void return_twice_at_once(void) {
  return_three(block[OUT], block[OUT + 1], block[OUT]);
}

static void return_twice_in_a_row(void) {
  return_three(block[OUT], block[OUT], block[OUT + 1]);
}

/* The block was freed again while another thread had taken its word. */
static void put_back_twice(void) {
  hak_slab_put_back(slab, 0, (uint64_t)1 << FREE, "test");
}

static void return_alone_what_was_never_out(void) {
  hak_sweep_return_one(block[BLOCKS - 1], slab->cls, "test");
}

static void return_among_others_what_was_never_out(void) {
  return_three(block[OUT], block[BLOCKS - 1], block[OUT + 1]);
}

/* All blocks of a slab were returned, and the slab was given back. Then one block is returned again. */
static void return_to_another_class(void) {
  uint32_t cls = slab->cls;
  for (size_t i = 0; i < BLOCKS / 2; i++) {
    if (i != FREE) {
      hak_sweep_return_one(block[i], cls, "test");
    }
  }
  hak_slab_drop(slab);
  CHECK(hak_slab_acquire(cls + 1) == slab);
  hak_sweep_return((hak_free_block_t *const[]){block[OUT]}, 1, cls, "test");
}

static void return_alone_to_no_slab(void) {
  uint32_t cls = slab->cls;
  slab->cls = HAK_CLASS_NONE;
  hak_sweep_return_one(block[OUT], cls, "test");
}

/* Takes blocks one by one, as some paths do. */
static void take(uint32_t blocks) {
  hak_free_block_t *taken;
  for (uint32_t i = 0; i < blocks; i++) {
    CHECK(hak_slab_take(slab, &taken, 1, false) == 1);
    if (!hak_is_marked_free(taken)) {
      hak_freed_damaged("malloc", taken);
    }
    hak_mark_taken(taken);
  }
}

/* Takes a block without a cache; there is only one slab. */
static void take_one_damaged(void) {
  memset(block[FREE], 'x', sizeof(hak_free_block_t));
  hak_slab_drop(slab);
  (void)hak_freed_take_one(hak_class_of(HAK_SLAB_BYTES / BLOCKS));
}

static void take_one_handed_out(void) {
  hak_mark_taken(block[FREE]);
  hak_slab_drop(slab);
  (void)hak_freed_take_one(hak_class_of(HAK_SLAB_BYTES / BLOCKS));
}

static void take_damaged(void) {
  memset(block[FREE], 'x', sizeof(hak_free_block_t));
  take(1);
}

static void take_handed_out(void) {
  hak_mark_taken(block[FREE]);
  take(1);
}

static void take_zeros(void) {
  memset(block[FREE], 0, sizeof(hak_free_block_t));
  take(1);
}

static void take_new_but_written(void) {
  block[32]->tag = 1;
  take(2);
}

/* The slab's memory may have held other blocks. Their old contents are no sign of damage, whatever they are. */
static void take_new_from_old_memory(void) {
  const uintptr_t self = (uintptr_t)block[32], words[] = {0x7878787878787878U, self, hak_key, self ^ hak_key, 0, 1};
  slab->zeroed = false;
  take(1); /* FREE */
  for (size_t tag = 0; tag < sizeof words / sizeof words[0]; tag++) {
    hak_free_block_t *taken;
    slab->bump = BLOCKS / 2;
    block[32]->tag = words[tag];
    CHECK(hak_slab_take(slab, &taken, 1, false) == 1 && taken == block[32] && hak_is_marked_free(taken));
  }
}

static void return_all_but(size_t first, size_t second) {
  for (size_t i = 0; i < BLOCKS / 2; i++) {
    if (i != first && i != second) {
      hak_sweep_return_one(block[i], slab->cls, "test");
    }
  }
}

/* An earlier slab at the same place had discarded pages, but this one has none. So zeros in a free block are damage. */
static void take_zeros_of_another_slab(void) {
  uint32_t cls = slab->cls;
  slab->discarded = true;
  return_all_but(FREE, FREE);
  hak_slab_drop(slab);
  CHECK(slab->cls == HAK_CLASS_NONE && hak_slab_acquire(cls) == slab);
  take(BLOCKS / 2);
  hak_sweep_return_one(block[FREE], slab->cls, "test");
  take_zeros();
}

/* A block that two threads free at once may be counted twice. */
static void a_wrong_count_gives_nothing_back(void) {
  uint32_t cls = slab->cls;
  atomic_fetch_add(&slab->control, one_block);
  return_all_but(FREE, OUT);
  CHECK(hak_slab_is_whole(slab)); /* by its count only */
  hak_slab_drop(slab);
  CHECK(slab->cls == cls && hak_pagemap_class(block[OUT]) == cls);
}

/* The block is marked as taken, so that a bin that also holds it notices. */
static void alone_it_is_marked(void) {
  hak_free_block_t *taken = hak_freed_take_one(slab->cls);
  CHECK(taken != NULL && hak_is_marked_taken(taken));
  hak_sweep_return_one(taken, slab->cls, "test");
  CHECK(hak_freed_take_one(slab->cls) == taken && hak_is_marked_taken(taken));
}

/* A thread may take a block whose bit is set before the count includes it. */
static void a_return_in_flight_counts_as_free(void) {
  hak_slab_totals_t totals[HAK_BIN_COUNT];
  atomic_fetch_sub(&slab->control, 2 * one_block);
  hak_stats_slabs(totals);
  CHECK(totals[slab->cls].free_blocks == totals[slab->cls].bump_blocks);
}

static void damage_count(void) {
  atomic_fetch_add(&slab->control, one_block);
  hak_sweep_check();
}

static void damage_bits(void) {
  atomic_fetch_or(&slab->bits[0], 1ULL << 40); /* not handed out */
  hak_sweep_check();
}

static void damage_bump(void) {
  slab->bump = slab->blocks + 1;
  hak_sweep_check();
}

static void damage_flags(void) {
  atomic_fetch_or(&slab->control, (uint32_t)HAK_SLAB_LISTED);
  hak_sweep_check();
}

static void damage_class(void) {
  slab->cls++;
  hak_sweep_check();
}

static void damage_list(void) {
  uint32_t cls = slab->cls;
  hak_slab_drop(slab);
  hak_slab_classes[cls].list[HAK_SLABS_DENSE].last = NULL;
  hak_sweep_check();
}

static void set_up(void) {
  hak_freed_start();
  slab = hak_slab_acquire(hak_class_of(HAK_SLAB_BYTES / BLOCKS));
  CHECK(slab != NULL && slab->zeroed && slab->blocks == BLOCKS);
  for (size_t i = 0; i < BLOCKS; i++) {
    block[i] = (hak_free_block_t *)(void *)(slab->base + i * slab->block_bytes);
  }
  void *taken[BLOCKS / 2];
  CHECK(blocks_take(slab, taken, BLOCKS / 2) == BLOCKS / 2 && taken[0] == block[0]);
  hak_sweep_return_one(block[FREE], slab->cls, "test");
  hak_sweep_check();
}

int main(void) {
  set_up();
  child_is_stopped(return_alone_twice, "test", TWICE, block[FREE]);
  child_is_stopped(return_among_others_twice, "test", TWICE, block[FREE]);
  child_is_stopped(return_twice_at_once, "test", TWICE, block[OUT]);
  child_is_stopped(return_twice_in_a_row, "test", TWICE, block[OUT]);
  child_is_stopped(put_back_twice, "test", TWICE, block[FREE]);
  child_is_stopped(return_alone_what_was_never_out, "test", INVALID, block[BLOCKS - 1]);
  child_is_stopped(return_among_others_what_was_never_out, "test", INVALID, block[BLOCKS - 1]);
  child_is_stopped(return_to_another_class, "test", TWICE, block[OUT]);
  child_is_stopped(return_alone_to_no_slab, "test", TWICE, block[OUT]);
  child_is_stopped(take_one_damaged, "malloc", CORRUPTED, block[FREE]);
  child_is_stopped(take_one_handed_out, "malloc", TWICE, block[FREE]);
  child_is_stopped(take_damaged, "malloc", CORRUPTED, block[FREE]);
  child_is_stopped(take_handed_out, "malloc", TWICE, block[FREE]);
  child_is_stopped(take_zeros, "malloc", CORRUPTED, block[FREE]);
  child_is_stopped(take_new_but_written, "malloc", CORRUPTED, block[32]);
  child_succeeds(take_new_from_old_memory);
  child_is_stopped(take_zeros_of_another_slab, "malloc", CORRUPTED, block[FREE]);
  child_succeeds(a_wrong_count_gives_nothing_back);
  child_succeeds(alone_it_is_marked);
  child_succeeds(a_return_in_flight_counts_as_free);
  child_breaks_invariant(damage_count);
  child_breaks_invariant(damage_bits);
  child_breaks_invariant(damage_bump);
  child_breaks_invariant(damage_flags);
  child_breaks_invariant(damage_class);
  child_breaks_invariant(damage_list);
  return 0;
}
