/* Capacities of a thread's cache: what a class starts with, what it earns and loses, what the options fix, and how much
 * a refill fetches. */
#include "cache.h"

#include "bins.h"
#include "child.h"
#include "depot.h"
#include "setting.h"

enum { BYTES = 1024, START_BYTES = 8 << 10, BATCH_BYTES = 32 << 10, REFILL_BYTES = 16 << 10, LENT_BYTES = 512 << 10 };

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
    const uint32_t first = refill(cls), most = size > REFILL_BYTES ? 1 : (uint32_t)(REFILL_BYTES / size);
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
      CHECK(bytes < 2 * REFILL_BYTES);
    }
    CHECK(bytes >= 2 * REFILL_BYTES);
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

/* At its first overflow a class gets 8 KiB or a block; after that, half of the bin goes. */
static void a_class_starts_with_a_little(void) {
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    (void)open_one(BYTES);
    const uint32_t size = hak_class_sizes[cls], first = size > START_BYTES ? 1 : START_BYTES / size;
    CHECK(overflow(cls) == HAK_OVERFLOW_GROWN && capacity(cls) == first && heap.info[cls].returned == 0);
    CHECK(heap.quota_bytes == (size_t)first * size);
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF && capacity(cls) == first);
    CHECK(heap.info[cls].returned == first - first / 2);
    bins_capacities_add_up(&heap);
  }
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
static uint32_t gathers(uint32_t cls) {
  for (int i = 0; i < 20; i++) {
    (void)overflow(cls);
  }
  uint32_t batch = capacity(cls);
  CHECK(overflow(cls) == HAK_OVERFLOW_FREES && capacity(cls) == batch);
  return batch;
}

/* A thread that only frees gathers batches for others; next to nothing where the heap shrinks and nobody takes them. Of
 * runs, which nobody takes from it, it gathers none. */
static void who_only_frees_gathers_batches(void) {
  const uint32_t cls = open_one(BYTES), other = hak_class_of(2 * BYTES), small = hak_class_of(128);
  const uint32_t run = hak_class_of(100000);
  CHECK(gathers(cls) == BATCH_BYTES / BYTES && gathers(other) == BATCH_BYTES / (2 * BYTES));
  CHECK(gathers(small) == BATCH_BYTES / 128 && gathers(run) == 1);
  heap.heap_shrinks = true;
  hak_free_block_t *block = hak_slab_take_one(cls);
  hak_mark_free(block);
  CHECK(hak_depot_put(cls, &block, 1) == 0 && hak_depot_take(cls, &block, 1) == 1);
  CHECK(hak_policy_passes_on(&heap, cls) && !hak_policy_passes_on(&heap, other) && !hak_policy_passes_on(&heap, run));
  CHECK(gathers(cls) == BATCH_BYTES / BYTES && gathers(other) == 1 && gathers(small) == BYTES / 128);
  hak_policy_set_capacity(&heap, small, 1);
  CHECK(gathers(small) == 1 && gathers(run) == 1); /* it gets no more for that */
  hak_depot_begin();
  CHECK(!hak_policy_passes_on(&heap, cls) && gathers(cls) == 1);
  bins_capacities_add_up(&heap);
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
  child_succeeds(an_idle_class_has_nothing);
  child_succeeds(what_is_lent_comes_back);
  return 0;
}
