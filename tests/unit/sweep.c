/* Pages inside nearly empty slabs go back to the system; the blocks in use keep their contents. */
#include <string.h>
#include <sys/mman.h>

#include "blocks.h"
#include "blocks/freed.h"
#include "blocks/slab.h"
#include "child.h"
#include "pages/arena.h"
#include "pages/pagemap.h"
#include "pattern.h"
#include "steps.h"
#include "system.h"
#include "system/os.h"

enum { BLOCK_BYTES = 128, BLOCKS = HAK_SLAB_BYTES / BLOCK_BYTES };

static void *blocks[BLOCKS];
static size_t page;

static size_t resident_pages(char *at, size_t bytes) {
  unsigned char resident[HAK_SLAB_BYTES / 4096];
  size_t pages = 0;
  CHECK(mincore(at, bytes, resident) == 0);
  for (size_t i = 0; i < bytes / page; i++) {
    pages += resident[i] & 1;
  }
  return pages;
}

/* A slab of which only the first `out` blocks are handed out. */
static hak_slab_t *slab_with(uint32_t out, uint32_t bump) {
  hak_slab_t *slab = hak_slab_acquire(hak_class_of(BLOCK_BYTES));
  CHECK(slab != NULL && slab->bump == 0);
  uint32_t taken = blocks_take(slab, blocks, bump);
  CHECK(taken == bump);
  for (uint32_t i = 0; i < taken; i++) {
    pattern_fill(blocks[i], BLOCK_BYTES, i);
  }
  hak_slab_drop(slab);
  blocks_give(blocks + out, taken - out);
  return slab;
}

static void contents_are_unharmed(uint32_t out) {
  for (uint32_t i = 0; i < out; i++) {
    CHECK(pattern_holds(blocks[i], BLOCK_BYTES, BLOCK_BYTES, i));
  }
}

static void sparse_slabs_give_pages_back(void) {
  hak_slab_t *slab = slab_with(2, BLOCKS);
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == HAK_SLAB_BYTES / page);
  CHECK(hak_sweep_sparse());
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == 1);
  contents_are_unharmed(2);
  hak_sweep_check();
  CHECK(!hak_sweep_sparse()); /* nothing has changed */
  CHECK(hak_slab_acquire(slab->cls) == slab);
  static void *again[BLOCKS];
  uint32_t taken = blocks_take(slab, again, BLOCKS);
  CHECK(taken == BLOCKS - 2);
  for (uint32_t i = 0; i < taken; i++) {
    memset(again[i], 'x', BLOCK_BYTES);
  }
  contents_are_unharmed(2);
}

static void pages_never_handed_out_go_too(void) {
  const uint32_t bump = BLOCKS / 2;
  hak_slab_t *slab = slab_with(1, bump);
  memset(slab->base + HAK_SLAB_BYTES - page, 1, page); /* a stray write */
  CHECK(hak_sweep_sparse());
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == 1);
  CHECK(hak_slab_acquire(slab->cls) == slab);
  CHECK(blocks_take(slab, blocks + 1, BLOCKS) == bump - 1);
  CHECK(blocks_take(slab, blocks + bump, BLOCKS) == BLOCKS - bump);
}

static void a_page_with_a_block_stays(void) {
  hak_slab_t *slab = slab_with(0, BLOCKS - 1); /* empty, so it is released at once */
  CHECK(slab->cls == HAK_CLASS_NONE);
  slab = slab_with(1, BLOCKS);
  uint32_t per_page = (uint32_t)page / BLOCK_BYTES;
  CHECK(hak_slab_acquire(slab->cls) == slab);
  void *again[BLOCKS];
  uint32_t taken = blocks_take(slab, again, BLOCKS), back = 0;
  /* keep the last block of the second page and the first block of the last page */
  for (uint32_t i = 0; i < taken; i++) {
    if (again[i] != blocks[2 * per_page - 1] && again[i] != blocks[BLOCKS - per_page]) {
      again[back++] = again[i];
    }
  }
  pattern_fill(blocks[2 * per_page - 1], BLOCK_BYTES, 2 * per_page - 1);
  pattern_fill(blocks[BLOCKS - per_page], BLOCK_BYTES, BLOCKS - per_page);
  blocks_give(again, back);
  hak_slab_drop(slab);
  CHECK(hak_sweep_sparse());
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == 3);
  contents_are_unharmed(1);
  CHECK(pattern_holds(blocks[2 * per_page - 1], BLOCK_BYTES, BLOCK_BYTES, 2 * per_page - 1));
  CHECK(pattern_holds(blocks[BLOCKS - per_page], BLOCK_BYTES, BLOCK_BYTES, BLOCKS - per_page));
}

static void full_slabs_are_left_alone(void) {
  hak_slab_t *slab = slab_with(BLOCKS / 2, BLOCKS);
  CHECK(!hak_sweep_sparse());
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == HAK_SLAB_BYTES / page);
  CHECK(hak_slab_acquire(slab->cls) == slab); /* a slab in use is skipped */
  CHECK(!hak_sweep_sparse());
}

static void a_refusal_changes_nothing(void) {
  hak_slab_t *slab = slab_with(1, BLOCKS);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  CHECK(!hak_sweep_sparse());
  system_allow();
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == HAK_SLAB_BYTES / page);
  contents_are_unharmed(1);
  CHECK(hak_slab_acquire(slab->cls) == slab);
  CHECK(blocks_take(slab, blocks + 1, BLOCKS) == BLOCKS - 1);
}

static uint64_t madvise_calls(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.madvise;
}

/* When enough slabs have become sparse, a pass begins by itself. */
static void many_sparse_slabs_start_a_pass(void) {
  enum { SLABS = 512, LARGE_BYTES = 4096, PER_SLAB = HAK_SLAB_BYTES / LARGE_BYTES, FIRST_PART = PER_SLAB / 2 };
  static void *held[SLABS][PER_SLAB];
  for (int i = 0; i < SLABS; i++) {
    hak_slab_t *slab = hak_slab_acquire(hak_class_of(LARGE_BYTES));
    CHECK(slab != NULL && slab->bump == 0);
    CHECK(blocks_take(slab, held[i], PER_SLAB) == PER_SLAB);
    hak_slab_drop(slab);
  }
  uint64_t before = madvise_calls();
  for (int i = 0; i < SLABS && madvise_calls() == before; i++) {
    blocks_give(held[i], FIRST_PART);
    CHECK(madvise_calls() == before);
    blocks_give(held[i] + FIRST_PART, PER_SLAB - FIRST_PART - 1);
  }
  CHECK(madvise_calls() > before);
  hak_sweep_check();
}

static void go_through_all_classes(void) {
  for (int cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_sweep_step();
  }
}

/* Another pass is worth it when half of the blocks that were in use have come back. */
static void half_of_the_rest_is_worth_another_pass(void) {
  enum { OUT = HAK_SLAB_BYTES / 4096 };
  hak_slab_t *slab = slab_with(BLOCKS, BLOCKS);
  for (uint32_t i = 0; i < BLOCKS; i++) { /* one block a page stays in use */
    if (i % (BLOCKS / OUT) != 0) {
      hak_sweep_return_one(blocks[i], slab->cls, "test");
    }
  }
  CHECK(!hak_sweep_sparse());
  for (uint32_t i = 1; i < OUT; i++) {
    hak_sweep_return_one(blocks[(size_t)i * (BLOCKS / OUT)], slab->cls, "test");
    CHECK(hak_sweep_sparse() == (i == OUT / 2 || i == OUT * 3 / 4 || i == OUT * 7 / 8 || i == OUT - 1));
  }
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == 1);
  contents_are_unharmed(1);
}

static void count_nothing(unsigned step) {
  (void)step;
}

static void sweep_step(void *unused) {
  (void)unused;
  hak_sweep_step();
}

/* The number of instructions in the longest step of a pass, except the first steps, which sweep. */
static unsigned longest_idle_step(void) {
  enum { SWEEPING = 10 };
  unsigned longest = 0;
  hak_sweep_decay();
  for (int i = 0; i < HAK_RUN_FIRST + SWEEPING; i++) {
    if (i < SWEEPING) {
      hak_sweep_step();
    } else {
      unsigned step = steps_run(sweep_step, NULL, count_nothing);
      longest = step > longest ? step : longest;
    }
  }
  return longest;
}

/* A pass visits no slab that is not sparse, even if there are many with free blocks. */
static void a_step_is_as_short_in_a_large_heap(void) {
  enum { FEW = 16, MANY = 1024, SPARSE = MANY / 8 };
  static hak_slab_t *slabs[MANY], *sparse[SPARSE];
  unsigned with_few = 0;
  for (int i = 0; i < MANY; i++) {
    slabs[i] = hak_slab_acquire(hak_class_of(HAK_SMALL_MAX));
    CHECK(slabs[i] != NULL && blocks_take(slabs[i], blocks, 1) == 1);
  }
  for (int i = 0; i < MANY; i++) {
    hak_slab_drop(slabs[i]);
    if (i + 1 == FEW || i + 1 == MANY) {
      for (int j = 0; j < SPARSE; j++) {
        sparse[j] = slab_with(1, BLOCKS);
        CHECK(hak_slab_acquire(sparse[j]->cls) == sparse[j]); /* takes it, so that the next call gets another slab */
      }
      for (int j = 0; j < SPARSE; j++) {
        hak_slab_drop(sparse[j]);
      }
      unsigned longest = longest_idle_step();
      CHECK(longest > 0 || !STEPS_SUPPORTED);
      with_few = i + 1 == FEW ? longest : with_few;
      CHECK(longest <= with_few + with_few / 4);
      for (int j = 0; j < SPARSE; j++) {
        CHECK(resident_pages(sparse[j]->base, HAK_SLAB_BYTES) == 1); /* there was a pass */
        CHECK(hak_slab_acquire(hak_class_of(BLOCK_BYTES)) != NULL);
      }
    }
  }
}

enum { CHURN_SLABS = 256, CHURN_BYTES = 4096, PER_SLAB = HAK_SLAB_BYTES / CHURN_BYTES, ROUNDS = 20, DECAY_TIMES = 10 };

/* Takes so many blocks from one slab of the class under test. */
static void take_of_one(void **taken, uint32_t count) {
  hak_slab_t *slab = hak_slab_acquire(hak_class_of(CHURN_BYTES));
  CHECK(slab != NULL && blocks_take(slab, taken, count) == count);
  hak_slab_drop(slab);
  for (uint32_t i = 0; i < count; i++) {
    pattern_fill(taken[i], CHURN_BYTES, 1);
  }
}

/* In each round, slabs become sparse, and then either empty or full. If that happens soon, a pass would only cause page
 * faults. Slabs that stay sparse are swept later. */
static void passes_learn(bool become_full) {
  static void *held[CHURN_SLABS][PER_SLAB];
  uint32_t kept = 0; /* blocks of each slab that are kept from the round before */
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < CHURN_SLABS; i++) {
      take_of_one(held[i] + kept, PER_SLAB - kept);
    }
    for (int i = 0; i < CHURN_SLABS; i++) {
      blocks_give(held[i] + 1, PER_SLAB - 1);
    }
    go_through_all_classes();
    const hak_slab_t *slab = hak_pagemap_slab(held[0][0]);
    size_t resident = resident_pages(slab->base, HAK_SLAB_BYTES);
    if (round == 0) {
      CHECK(resident == 1); /* there are no counts yet, so the slabs were swept */
    }
    if (round + 1 == ROUNDS) {
      CHECK(resident == PER_SLAB * (CHURN_BYTES / page));
      for (int i = 0; i < DECAY_TIMES; i++) {
        hak_sweep_decay();
      }
      go_through_all_classes();
      CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == 1);
    }
    kept = become_full;
    for (int i = 0; i < CHURN_SLABS && !become_full && round + 1 < ROUNDS; i++) {
      blocks_give(held[i], 1);
    }
  }
}

static void slabs_that_soon_become_empty_are_left_alone(void) {
  passes_learn(false);
}

static void slabs_that_soon_become_full_are_left_alone(void) {
  passes_learn(true);
}

/* Slabs that became sparse, but are too few for a pass, are swept at the end of a decay time. */
static void a_decay_time_starts_a_pass(void) {
  hak_slab_t *slab = slab_with(2, BLOCKS);
  go_through_all_classes();
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == HAK_SLAB_BYTES / page);
  hak_sweep_decay();
  go_through_all_classes();
  CHECK(resident_pages(slab->base, HAK_SLAB_BYTES) == 1);
  contents_are_unharmed(2);
}

int main(void) {
  hak_freed_start();
  page = hak_os_page_bytes();
  if (page * 4 > HAK_SLAB_BYTES) {
    return 0; /* a slab has too few pages to be sparse */
  }
  child_succeeds(sparse_slabs_give_pages_back);
  child_succeeds(pages_never_handed_out_go_too);
  child_succeeds(a_page_with_a_block_stays);
  child_succeeds(full_slabs_are_left_alone);
  child_succeeds(a_refusal_changes_nothing);
  child_succeeds(half_of_the_rest_is_worth_another_pass);
  child_succeeds(a_step_is_as_short_in_a_large_heap);
  child_succeeds(a_decay_time_starts_a_pass);
  child_succeeds(many_sparse_slabs_start_a_pass);
  child_succeeds(slabs_that_soon_become_empty_are_left_alone);
  child_succeeds(slabs_that_soon_become_full_are_left_alone);
  return 0;
}
