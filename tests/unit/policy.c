/* Capacities of a thread's cache: what a class starts with, what it earns and loses, what the options fix, and how much
 * a refill fetches. */
#include "cache.h"

#include "bins.h"
#include "child.h"
#include "setting.h"

enum { BYTES = 1024, START_BYTES = 8 << 10, TRANSFER_BYTES = 16 << 10, LENT_BYTES = 512 << 10 };

static hak_heap_t heap;

static uint32_t open_one(size_t bytes) {
  bins_open(&heap);
  hak_cache_set_open(1);
  return hak_class_of(bytes);
}

static uint32_t capacity(uint32_t cls) {
  return bins_capacity(&heap, cls);
}

/* As the cache does for a block that the bin has no room for. */
static hak_overflow_t overflow(uint32_t cls) {
  return hak_policy_overflow(&heap, cls);
}

/* The thread fetches so many of the blocks that overflowed before. */
static void earn(uint32_t cls, uint32_t blocks) {
  heap.info[cls].returned = blocks;
  hak_policy_fetched(&heap, cls, blocks);
}

static uint32_t refill(uint32_t cls) {
  uint32_t want = hak_policy_refill(&heap.info[cls], cls);
  hak_policy_fetched(&heap, cls, want);
  return want;
}

static void a_new_cache_has_nothing(void) {
  const uint32_t used = open_one(BYTES);
  CHECK(overflow(used) == HAK_OVERFLOW_GROWN);
  earn(used, 100);
  hak_policy_close(&heap);
  for (int life = 0; life < 2; life++) {
    hak_cache_open(&heap);
    for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
      CHECK(capacity(cls) == 0 && heap.info[cls].adaptive && !hak_policy_is_off(&heap.info[cls]));
      CHECK(heap.info[cls].returned == 0 && heap.info[cls].fetched == 0);
    }
    CHECK(heap.quota_bytes == 0 && heap.capacity_bytes == 0);
    bins_capacities_add_up(&heap);
  }
}

/* Each asks for half of what was fetched so far, but for the first, and up to an end. */
static void refills_grow(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    (void)open_one(BYTES);
    const size_t size = hak_class_sizes[cls];
    const uint32_t first = refill(cls), most = size > TRANSFER_BYTES ? 1 : (uint32_t)(TRANSFER_BYTES / size);
    CHECK(first == (size > BYTES ? 1 : BYTES / size));
    overflow(cls); /* without capacity a large block comes alone */
    uint32_t fetched = first;
    for (int i = 0; i < 100; i++) {
      uint32_t half = fetched / 2, want = refill(cls);
      CHECK(want == (half < first ? first : half < most ? half : most));
      fetched += want;
    }
  }
}

/* A thread that came for little shares slabs with others. */
static void a_slab_is_kept_for_what_was_fetched(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    (void)open_one(BYTES);
    size_t bytes = 0;
    for (; !hak_policy_keeps_current(&heap.info[cls], cls); bytes += refill(cls) * (size_t)hak_class_sizes[cls]) {
      CHECK(bytes < 2 * TRANSFER_BYTES);
    }
    CHECK(bytes >= 2 * TRANSFER_BYTES);
    for (int i = 0; i < 5000; i++) {
      (void)refill(cls);
      CHECK(hak_policy_keeps_current(&heap.info[cls], cls));
    }
  }
}

static void options_fix_capacities(void) {
  set_variable("HAKMEM_TINY_UNIFIED_C5=3");
  set_variable("HAKMEM_TINY_UNIFIED_C0=0");
  const uint32_t cls = open_one(BYTES), none = hak_class_of(16);
  CHECK(hak_policy_is_off(&heap.info[none]) && overflow(none) == HAK_OVERFLOW_NONE && heap.info[none].returned == 0);
  CHECK(!hak_policy_lend(&heap, cls, 1));
  for (int round = 0; round < 10; round++) {
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
    CHECK(refill(cls) <= 4); /* one is handed out */
    hak_policy_fetched(&heap, cls, 100);
    hak_policy_idle(&heap, cls);
    CHECK(capacity(cls) == 3);
  }
  CHECK(heap.quota_bytes == 0 && heap.capacity_bytes == 0);
  bins_capacities_add_up(&heap);
}

/* At its first overflow a class gets 8 KiB or a block; after that, half of the bin goes. Runs must be earned. */
static void a_class_starts_with_a_little(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    (void)open_one(BYTES);
    const uint32_t size = hak_class_sizes[cls], first = size > START_BYTES ? 1 : START_BYTES / size;
    CHECK(overflow(cls) == HAK_OVERFLOW_GROWN && capacity(cls) == first && heap.info[cls].returned == 0);
    CHECK(heap.quota_bytes == (size_t)first * size);
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF && capacity(cls) == first);
    CHECK(heap.info[cls].returned == first - first / 2);
    bins_capacities_add_up(&heap);
  }
  const uint32_t run = HAK_RUN_FIRST;
  CHECK(overflow(run) == HAK_OVERFLOW_NONE && capacity(run) == 0 && heap.info[run].returned == 1);
}

/* A class that may have less starts with all of that. */
static void the_option_bounds_the_start(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=4K");
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    (void)open_one(BYTES);
    CHECK(overflow(cls) == (hak_class_sizes[cls] <= 4096 ? HAK_OVERFLOW_GROWN : HAK_OVERFLOW_NONE));
    CHECK(capacity(cls) == 4096 / hak_class_sizes[cls]);
    earn(cls, 1);
    CHECK(capacity(cls) == 4096 / hak_class_sizes[cls]);
  }
}

/* What overflowed and was fetched again has room the next time; what did not overflow earns nothing. */
static void what_is_fetched_again_is_earned(void) {
  const uint32_t cls = open_one(100000);
  hak_cache_set_open(1000); /* no quota for a block of that size */
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 0);
  CHECK(overflow(cls) == HAK_OVERFLOW_NONE);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1 && heap.quota_bytes == 0);
  bins_capacities_add_up(&heap);
}

/* Until it allocates. */
static void the_fourth_overflow_in_a_row_says_that_a_thread_only_frees(void) {
  const uint32_t cls = open_one(BYTES);
  earn(cls, 100);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++) {
      CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
    }
    heap.info[cls].returned = 0;
    CHECK(overflow(cls) == HAK_OVERFLOW_FREES && heap.info[cls].returned == 100 && capacity(cls) == 100);
    (void)hak_policy_refill(&heap.info[cls], cls);
  }
}

/* Where there is neither quota nor budget for the class, too: it is to give up its slab. */
static void it_does_so_without_capacity(void) {
  const uint32_t cls = open_one(HAK_SMALL_MAX);
  hak_cache_set_open(1000);
  for (uint32_t i = 1; i <= 10; i++) {
    CHECK(overflow(cls) == (i > 3 ? HAK_OVERFLOW_FREES : HAK_OVERFLOW_NONE));
    CHECK(capacity(cls) == 0 && heap.info[cls].returned == i);
  }
}

/* Returns the capacity at which it stays. */
static uint32_t gathers(uint32_t cls, bool taken_up) {
  uint32_t before;
  do {
    before = capacity(cls);
    for (int i = 0; i < 5; i++) {
      if (overflow(cls) == HAK_OVERFLOW_FREES) {
        hak_policy_passed(&heap, cls, taken_up);
      }
    }
  } while (capacity(cls) != before);
  return before;
}

/* A thread that only frees gathers batches for those that take them. Where nobody does it gathers what it had, but no
 * more than a batch. Of runs, which nobody takes from it, it gathers none. */
static void who_only_frees_gathers_batches(void) {
  const uint32_t cls = open_one(BYTES), other = hak_class_of(2 * BYTES), small = hak_class_of(128);
  const uint32_t run = hak_class_of(100000);
  CHECK(gathers(other, false) == START_BYTES / (2 * BYTES) && gathers(run, false) == 0);
  CHECK(gathers(cls, true) == TRANSFER_BYTES / BYTES && gathers(small, true) == TRANSFER_BYTES / 128);
  earn(cls, 1000);
  CHECK(gathers(cls, true) == 1000 + TRANSFER_BYTES / BYTES && gathers(cls, false) == TRANSFER_BYTES / BYTES);
  hak_policy_set_capacity(&heap, small, 1);
  CHECK(gathers(small, false) == 1);
  bins_capacities_add_up(&heap);
}

/* Takes runs of so many MiB in a period, within which it looks so often. */
static bool slows_after(uint32_t mib, uint64_t ms, uint32_t looks) {
  const uint32_t run = HAK_CLASS_COUNT - 1; /* 1 MiB */
  for (uint32_t i = 0; i < mib; i++) {
    hak_policy_fetched(&heap, run, 1);
    if (looks > 0 && i % (mib / looks + 1) == 0) {
      CHECK(!hak_policy_slows(&heap, i / 32, false));
    }
  }
  return hak_policy_slows(&heap, ms, true);
}

/* No thread writes 32 MiB in a millisecond: most pages of what it fetches so fast are untouched, and it may keep more.
 * The time that it waited for locks does not count, nor what the clock may be behind. */
static void who_fetches_runs_fast_keeps_several(void) {
  enum { LEAST_MS = 10 };
  const uint32_t run = hak_class_of(100000);
  (void)open_one(BYTES);
  CHECK(!slows_after(32 * 109, 100, 0) && !heap.takes_fast);
  earn(run, 1);
  earn(run, 1);
  CHECK(capacity(run) == 1);
  CHECK(!slows_after(32 * (100 + LEAST_MS), 100, 0) && heap.takes_fast);
  earn(run, 3);
  CHECK(capacity(run) == 4 && heap.capacity_bytes == hak_class_sizes[run]);
  bins_capacities_add_up(&heap);
  CHECK(!slows_after(32 * 110, 100, 10) && heap.takes_fast);
  CHECK(slows_after(32 * 109, 100, 0) && !heap.takes_fast && !slows_after(0, 100, 0));
  hak_lock_waited_ns = 60 * 1000000;
  CHECK(!slows_after(32 * 50, 100, 0) && heap.takes_fast && hak_lock_waited_ns == 0);
  for (uint32_t i = 0; i < 32 * LEAST_MS; i++) { /* known at once, and kept until the period ends */
    hak_policy_fetched(&heap, HAK_CLASS_COUNT - 1, 1);
  }
  CHECK(!hak_policy_slows(&heap, 0, false) && !hak_policy_slows(&heap, 200, false) && heap.takes_fast);
  hak_policy_close(&heap);
  CHECK(!heap.takes_fast && heap.run_bytes == 0);
}

/* The bound of a class holds all the same; and below a memory limit there is none of this. */
static void several_runs_have_bounds(void) {
  const uint32_t run = HAK_CLASS_COUNT - 1;
  (void)open_one(BYTES);
  heap.takes_fast = true;
  for (int i = 0; i < 20; i++) {
    earn(run, 1);
  }
  CHECK(capacity(run) == 8 && heap.capacity_bytes == hak_class_sizes[run]);
  hak_policy_close(&heap);
  set_variable("HAKMEM_MEMORY_LIMIT=1G");
  hak_cache_open(&heap);
  heap.takes_fast = true;
  earn(run, 1);
  earn(run, 1);
  CHECK(capacity(run) == 1);
}

/* Also where it had no capacity left. What it overflowed with counts: it is earned again when it is wanted again. */
static void an_idle_class_has_nothing(void) {
  const uint32_t cls = open_one(BYTES), first = hak_policy_refill(&heap.info[cls], cls);
  for (int times = 0; times < 2; times++) {
    CHECK(overflow(cls) == HAK_OVERFLOW_GROWN);
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
    earn(cls, 100);
    (void)overflow(cls);
    if (times == 1) {
      hak_policy_set_capacity(&heap, cls, 0);
    }
    uint32_t returned = heap.info[cls].returned;
    CHECK(returned > 0 && hak_policy_keeps_current(&heap.info[cls], cls));
    hak_policy_idle(&heap, cls);
    CHECK(capacity(cls) == 0 && heap.quota_bytes == 0 && heap.info[cls].returned == returned);
    CHECK(!hak_policy_keeps_current(&heap.info[cls], cls) && hak_policy_refill(&heap.info[cls], cls) == first);
    bins_capacities_add_up(&heap);
  }
}

static void what_is_lent_comes_back(void) {
  const uint32_t cls = open_one(200);
  CHECK(!hak_policy_lend(&heap, hak_class_of(16), 4)); /* it is closed */
  CHECK(overflow(cls) == HAK_OVERFLOW_GROWN);
  const uint32_t before = capacity(cls), most = LENT_BYTES / hak_class_sizes[cls];
  for (int times = 0; times < 2; times++) { /* all of it is to be had again */
    CHECK(!hak_policy_lend(&heap, cls, most + 1) && hak_policy_lend(&heap, cls, most));
    CHECK(capacity(cls) == before + most && heap.info[cls].lent == most && !hak_policy_lend(&heap, cls, 10));
    bins_capacities_add_up(&heap);
    hak_policy_take_back(&heap, cls);
    CHECK(capacity(cls) == before && heap.info[cls].lent == 0);
    hak_policy_take_back(&heap, cls);
    CHECK(capacity(cls) == before);
  }
  CHECK(hak_policy_lend(&heap, cls, most));
  hak_policy_set_capacity(&heap, cls, most / 2); /* half of what was lent went unused */
  hak_policy_take_back(&heap, cls);
  CHECK(capacity(cls) == 0 && hak_policy_lend(&heap, cls, most));
  hak_policy_idle(&heap, cls);
  CHECK(capacity(cls) == 0 && heap.info[cls].lent == 0 && hak_policy_lend(&heap, cls, most));
  hak_policy_close(&heap);
  hak_cache_open(&heap);
  heap.info[cls].closed = false;
  CHECK(hak_policy_lend(&heap, cls, most));
  bins_capacities_add_up(&heap);
}

int main(void) {
  child_succeeds(a_new_cache_has_nothing);
  child_succeeds(refills_grow);
  child_succeeds(a_slab_is_kept_for_what_was_fetched);
  child_succeeds(options_fix_capacities);
  child_succeeds(a_class_starts_with_a_little);
  child_succeeds(the_option_bounds_the_start);
  child_succeeds(what_is_fetched_again_is_earned);
  child_succeeds(the_fourth_overflow_in_a_row_says_that_a_thread_only_frees);
  child_succeeds(it_does_so_without_capacity);
  child_succeeds(who_only_frees_gathers_batches);
  child_succeeds(who_fetches_runs_fast_keeps_several);
  child_succeeds(several_runs_have_bounds);
  child_succeeds(an_idle_class_has_nothing);
  child_succeeds(what_is_lent_comes_back);
  return 0;
}
