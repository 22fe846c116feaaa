/* Runs in a thread's bins: they are kept after the thread has fetched again what it returned, handed out without the
 * arena, and given back when there are too many. */
#include <string.h>
#include <unistd.h>

#include "blocks/blocks.h"
#include "child.h"
#include "hakmem.h"
#include "pages/arena.h"
#include "pages/pagemap.h"
#include "setting.h"
#include "system.h"
#include "system/options.h"
#include "threads/cache.h"
#include "threads/depot.h"
#include "two_bins.h"

enum { BYTES = 100000, BLOCKS = 200 };

static size_t slices_of(uint32_t cls) {
  return hak_class_sizes[cls] >> HAK_SLICE_SHIFT;
}

/* In the first round, the block goes back to the arena, since its class has shown no need. In the second, it stays. */
static void a_run_that_is_wanted_again_stays(void) {
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    size_t bytes = hak_class_sizes[cls];
    open_both();
    hak_policy_set_open(1);
    bins_free(&mine, bins_alloc(&mine, bytes));
    CHECK(bytes <= BINS_UNEARNED_BLOCK || (bins_empty(&mine, cls) && hak_arena_runs(cls) == 0));
    void *block = bins_alloc(&mine, bytes);
    CHECK(hak_pagemap_class(block) == cls && hak_arena_runs(cls) == 1);
    bins_free(&mine, block);
    CHECK(mine.bin[cls].head == block && hak_pagemap_class(block) == cls);
    size_t used = hak_retain_used_slices();
    for (int i = 0; i < 100; i++) {
      CHECK(bins_alloc(&mine, bytes - (size_t)i) == block);
      CHECK(hak_retain_used_slices() == used && hak_arena_runs(cls) == 1);
      bins_free(&mine, block);
    }
    hak_verify_check(&mine);
    bins_return(&mine, &other);
    CHECK(bins_empty(&mine, cls) && hak_arena_runs(cls) == 0 && hak_pagemap_class(block) == HAK_CLASS_NONE);
    CHECK(hak_retain_used_slices() == 0);
  }
  hak_arena_check();
}

/* A thread that takes and returns many at a time ends up with room for them. */
static void capacity_follows_use(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  for (int round = 0; round < 30; round++) {
    alloc_many(&mine, BYTES, 20);
    free_many(&mine, 20);
    hak_verify_check(&mine);
  }
  CHECK(bins_capacity(&mine, cls) >= 8);
  size_t kept = bins_length(&mine, cls);
  CHECK(kept >= 4 && kept <= bins_capacity(&mine, cls));
  CHECK(hak_retain_used_slices() == kept * slices_of(cls));
}

/* In a process with one thread, the runs go back to the arena. */
static void what_others_made_goes_back(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  alloc_many(&other, BYTES, BLOCKS);
  free_many(&mine, BLOCKS);
  hak_verify_check(&mine);
  CHECK(bins_length(&mine, cls) == 0 && hak_arena_runs(cls) == 0 && hak_retain_used_slices() == 0);
  CHECK(!mine.info[cls].buffers_remote && mine.info[cls].remote_count == 0);
}

/* With another thread in the process, runs that exceed a bin wait in the depot for any thread that asks for that size.
 * They do not go through the arena. No run waits there for long. */
static void another_thread_gets_what_was_returned(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  hak_policy_set_open(2);
  alloc_many(&other, BYTES, 4);
  free_many(&mine, 4);
  CHECK(bins_length(&mine, cls) + hak_depot_count(cls) == 4 && hak_depot_count(cls) > 0 && hak_arena_runs(cls) == 4);
  for (size_t waiting = hak_depot_count(cls); waiting > 0; waiting--) {
    char *block = bins_alloc(&other, BYTES);
    CHECK(block && hak_depot_count(cls) == waiting - 1 && hak_arena_runs(cls) == 4);
    memset(block, 'y', BYTES);
  }
  alloc_many(&other, BYTES, 4);
  free_many(&mine, 4);
  CHECK(hak_depot_count(cls) > 0);
  hak_depot_begin();
  hak_depot_begin();
  CHECK(hak_depot_count(cls) == 0);
}

static void a_class_without_a_cache_has_no_depot(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_CLASS_MAX=64K");
  open_both();
  hak_policy_set_open(2);
  alloc_many(&other, BYTES, 4);
  free_many(&mine, 4);
  CHECK(hak_depot_count(cls) == 0 && hak_arena_runs(cls) == 0);
}

static void no_more_is_kept_than_the_option_says(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=256K");
  open_both();
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    for (int round = 0; round < 10; round++) {
      alloc_many(&mine, hak_class_sizes[cls], 10);
      free_many(&mine, 10);
      CHECK(bins_length(&mine, cls) * hak_class_sizes[cls] <= 256 << 10);
    }
  }
  hak_verify_check(&mine);
}

/* A thread uses all sizes in turn, a few blocks of each, and then frees all. It keeps what the arena would retain, and
 * half of its last use. */
static void many_classes_keep_little(void) {
  enum { AT_A_TIME = 4 };
  open_both();
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    for (int round = 0; round < 10; round++) {
      alloc_many(&mine, hak_class_sizes[cls], AT_A_TIME);
      free_many(&mine, AT_A_TIME);
    }
  }
  CHECK(hak_retain_used_slices() << HAK_SLICE_SHIFT <=
        hak_option_size(HAK_OPTION_RETAIN) + AT_A_TIME / 2 * HAK_CACHED_MAX);
  hak_verify_check(&mine);
}

static void without_caches_nothing_is_kept(void) {
  set_variable("HAKMEM_CACHE=0");
  open_both();
  for (int round = 0; round < 10; round++) {
    alloc_many(&mine, BYTES, 10);
    free_many(&mine, 10);
    CHECK(hak_retain_used_slices() == 0);
  }
}

static void calloc_clears_what_was_used(void) {
  open_both();
  hak_heap = &mine;
  for (int round = 0; round < 4; round++) {
    char *block = hak_calloc(1, BYTES);
    CHECK(block != NULL);
    for (size_t i = 0; i < BYTES; i++) {
      CHECK(block[i] == 0);
    }
    memset(block, 'x', BYTES);
    hak_free(block);
  }
  CHECK(bins_length(&mine, hak_class_of(BYTES)) == 1);
}

static void an_orphan_returns_its_runs(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  for (int round = 0; round < 30; round++) {
    alloc_many(&mine, BYTES, 10);
    free_many(&mine, 10);
  }
  uint32_t kept = bins_length(&mine, cls);
  CHECK(kept >= 3);
  atomic_store(&mine.bin[cls].top, mine.bin[cls].top - 1); /* a block was about to be handed out */
  hak_cache_close(&mine, NULL);
  CHECK(bins_empty(&mine, cls) && hak_arena_runs(cls) == 1);
  hak_arena_check();
}

static void set_up_damage(void) {
  open_both();
  for (int round = 0; round < 30; round++) {
    alloc_many(&mine, BYTES, 8);
    free_many(&mine, 8);
  }
  CHECK(bins_blocks(&mine, hak_class_of(BYTES), (hak_free_block_t **)(void *)blocks, 3) >= 3);
}

static void alloc_over_damage(void) {
  memset(blocks[0], 'x', sizeof(hak_free_block_t));
  (void)bins_alloc(&mine, BYTES);
}

static void verify_over_damage(void) {
  memset(blocks[1], 'x', sizeof(hak_free_block_t));
  hak_verify_cache(&mine, "some_function");
}

static void take_below_damage(void) {
  memset(blocks[1], 'x', sizeof(hak_free_block_t));
  CHECK(bins_alloc(&mine, BYTES) == blocks[0]);
  (void)bins_alloc(&mine, BYTES);
}

/* a, b, a: there is room for it again. */
static void free_below_the_newest_with_room(void) {
  for (size_t i = 0; i < 2; i++) {
    CHECK(bins_alloc(&mine, BYTES) == blocks[i]);
  }
  bins_free(&mine, blocks[1]);
  bins_free(&mine, blocks[2]);
  CHECK(bins_alloc(&mine, BYTES) == blocks[2] && bins_alloc(&mine, BYTES) == blocks[1]);
  (void)bins_alloc(&mine, BYTES);
}

static void flush_what_is_there_twice(void) {
  CHECK(bins_alloc(&mine, BYTES) == blocks[0]);
  bins_free(&mine, blocks[2]);
  hak_cache_flush(&mine, "some_function");
}

static void free_twice(void) {
  bins_free(&mine, blocks[0]);
  _exit(0); /* without the check at exit, which would notice it, too */
}

/* The bin is full, so the cache is searched for the block. */
/* Runs in a child: puts a block into the depot, which is then freed again. */
static void pass_one_on(void) {
  const uint32_t cls = hak_class_of(BYTES);
  bins_drain(&mine, cls);
  CHECK(hak_depot_put(cls, (hak_free_block_t *const *)(void *)&blocks[4], 1) == 0);
}

static void free_what_was_passed_on(void) {
  pass_one_on();
  hak_policy_set_capacity(&mine, hak_class_of(BYTES), 0);
  bins_free(&mine, blocks[4]);
}

static void alloc_what_went_back_meanwhile(void) {
  pass_one_on();
  bins_free(&mine, blocks[4]); /* there is room, so nothing is searched */
  hak_cache_flush(&mine, "test");
  (void)bins_alloc(&mine, BYTES);
}

static void alloc_what_was_damaged_on_the_way(void) {
  pass_one_on();
  memset(blocks[4], 'x', sizeof(hak_free_block_t));
  (void)bins_alloc(&mine, BYTES);
}

static void free_a_second_time(void) {
  const uint32_t cls = hak_class_of(BYTES);
  hak_policy_set_capacity(&mine, cls, bins_length(&mine, cls));
  bins_free(&mine, blocks[1]);
  _exit(0);
}

static void free_inside(void) {
  bins_free(&mine, (char *)blocks[0] + HAK_SLICE_BYTES / 2);
}

static void free_at_a_slice(void) {
  bins_free(&mine, (char *)blocks[0] + HAK_SLICE_BYTES);
}

static void give_twice(void) {
  const uint32_t cls = hak_class_of(BYTES);
  bool zeroed;
  blocks[3] = hak_run_take(cls, HAK_BLOCK_MIN, &zeroed);
  hak_run_give(blocks[3], cls, "some_function");
  hak_run_give(blocks[3], cls, "some_function");
}

static void damage_is_noticed(void) {
  static const char corrupted[] = "double free or corrupted free block", twice[] = "double free";
  static const char inside[] = "not the start of a block";
  child_is_stopped(alloc_over_damage, "malloc", corrupted, blocks[0]);
  child_is_stopped(verify_over_damage, "some_function", corrupted, blocks[1]);
  child_is_stopped(take_below_damage, "malloc", corrupted, blocks[1]);
  child_is_stopped(free_below_the_newest_with_room, "malloc", twice, blocks[2]);
  child_is_stopped(flush_what_is_there_twice, "some_function", twice, blocks[2]);
  child_is_stopped(free_twice, "free", twice, blocks[0]);
  child_is_stopped(free_a_second_time, "free", twice, blocks[1]);
  child_is_stopped(free_inside, "free", inside, (char *)blocks[0] + HAK_SLICE_BYTES / 2);
  child_is_stopped(free_at_a_slice, "free", inside, (char *)blocks[0] + HAK_SLICE_BYTES);
  bool zeroed;
  void *next = hak_run_take(hak_class_of(BYTES), HAK_BLOCK_MIN, &zeroed);
  blocks[4] = next;
  hak_mark_free(next);
  child_is_stopped(free_what_was_passed_on, "free", twice, next);
  child_is_stopped(alloc_what_went_back_meanwhile, "malloc", corrupted, next);
  child_is_stopped(alloc_what_was_damaged_on_the_way, "malloc", corrupted, next);
  hak_run_give(next, hak_class_of(BYTES), "test");
  child_is_stopped(give_twice, "some_function", twice, next);
}

int main(void) {
  system_set_clock_ms(1000000); /* no bin becomes idle on a slow machine */
  child_succeeds(a_run_that_is_wanted_again_stays);
  child_succeeds(capacity_follows_use);
  child_succeeds(what_others_made_goes_back);
  child_succeeds(another_thread_gets_what_was_returned);
  child_succeeds(a_class_without_a_cache_has_no_depot);
  child_succeeds(no_more_is_kept_than_the_option_says);
  child_succeeds(many_classes_keep_little);
  child_succeeds(without_caches_nothing_is_kept);
  child_succeeds(calloc_clears_what_was_used);
  child_succeeds(an_orphan_returns_its_runs);
  set_up_damage();
  damage_is_noticed();
  return 0;
}
