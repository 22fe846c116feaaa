/* How much a thread's cache may hold: in proportion to its use, and with nothing in use. */
#include "bins.h"
#include "child.h"
#include "pages/arena.h"
#include "setting.h"
#include "threads/cache.h"

enum { BYTES = 1024 };

static hak_heap_t heap;

static uint32_t open_one(size_t bytes) {
  bins_open(&heap);
  return hak_class_of(bytes);
}

static uint32_t capacity(uint32_t cls) {
  return bins_capacity(&heap, cls);
}

/* Simulates so many refills by a thread that returned more blocks than it fetches. */
static void want(uint32_t cls, int times) {
  heap.info[cls].overflowed = 100000;
  for (int i = 0; i < times; i++) {
    hak_policy_fetched(&heap, cls, 1);
  }
}

/* The same until no budget allows more. */
static void want_much(uint32_t cls) {
  heap.info[cls].overflowed = 100000;
  for (int i = 0; i < 10000; i++) {
    hak_policy_fetched(&heap, cls, 16);
  }
}

static void use_mib(size_t mib) {
  bool zeroed;
  for (; mib > 0; mib -= 2) {
    CHECK(hak_arena_take(HAK_CHUNK_SLICES, 1, &zeroed) != NULL);
  }
}

static size_t run_bytes(void) {
  size_t bytes = 0;
  for (uint32_t c = HAK_RUN_FIRST; c < HAK_CLASS_COUNT; c++) {
    bytes += capacity(c) * hak_class_sizes[c];
  }
  return bytes;
}

static void what_is_earned_has_limits(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=64K");
  const uint32_t cls = open_one(BYTES);
  want(cls, 1000);
  CHECK(capacity(cls) == 64);
  set_variable("HAKMEM_CACHE_CLASS_MAX=64M");
  hak_cache_open(&heap);
  hak_policy_set_open(1);
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) { /* with nothing in use, the least budget is the bound */
    heap.info[c].overflowed = 1 << 20;
    for (int round = 0; round < 5000; round++) {
      hak_policy_fetched(&heap, c, c < hak_class_of(4097) ? 16 : 1);
    }
    CHECK(heap.budget_bytes <= 1 << 20);
  }
  size_t first_blocks = 0; /* each class of slabs may have one block, whatever its size */
  for (uint32_t c = hak_class_of(4097); c < HAK_RUN_FIRST; c++) {
    CHECK(capacity(c) >= 1);
    first_blocks += hak_class_sizes[c];
  }
  CHECK(heap.large_budget_bytes <= (hak_option_slices(HAK_OPTION_RETAIN) << HAK_SLICE_SHIFT) + first_blocks);
  bins_budgets_add_up(&heap);
}

/* If the process has nothing in use, none of many threads keeps much, since some of them may sleep. */
static void many_threads_share_the_least_budget(void) {
  for (size_t threads = 1; threads <= 4096; threads *= 2) {
    const size_t most = threads <= 16 ? 1 << 20 : threads <= 128 ? (16 << 20) / threads : 128 << 10;
    const uint32_t cls = open_one(BYTES);
    hak_policy_set_open(threads);
    want_much(cls);
    CHECK(heap.budget_bytes <= most && heap.budget_bytes > most - 16 * BYTES);
    hak_policy_close(&heap);
  }
}

/* For the smallest blocks, the option alone would allow more. */
static void no_cache_holds_more_than_a_magazine(void) {
  const uint32_t cls = open_one(16);
  hak_policy_set_open(1);
  use_mib(64);
  heap.info[cls].overflowed = 1 << 20;
  for (int i = 0; i < 3 * HAK_MAGAZINE_MAX / 64; i++) {
    hak_policy_fetched(&heap, cls, 64);
  }
  CHECK(capacity(cls) == HAK_MAGAZINE_MAX);
}

/* All caches together may hold twice the memory in use, and as much again in blocks up to 4 KiB. */
static void caches_share_the_budget(void) {
  const uint32_t large = open_one(40 << 10), small = hak_class_of(4096);
  CHECK(large == HAK_RUN_FIRST - 1);
  use_mib(128);
  hak_policy_set_open(2 * (128 << 20) / (80 << 10) + 1);
  want(large, 2);
  CHECK(capacity(large) == 1); /* each thread's share of 256 MiB is less than two blocks */
  hak_policy_set_open(2 * (128 << 20) / (80 << 10) - 1);
  want(large, 2);
  CHECK(capacity(large) == 2);
  hak_policy_set_open(2 * 32);
  want_much(small);
  CHECK(heap.budget_bytes <= 4 << 20 && capacity(small) > 1000);
  bins_budgets_add_up(&heap);
}

/* The memory that other caches may hold does not count as use, since their threads may sleep for ever. */
static void no_cache_pays_for_another(void) {
  static hak_heap_t other;
  const uint32_t cls = open_one(BYTES);
  bins_open(&other);
  hak_policy_set_open(1);
  use_mib(16);
  hak_policy_set_capacity(&other, cls, (16 << 20) / BYTES);
  want_much(cls);
  CHECK(heap.budget_bytes <= 1 << 20); /* the least budget */
  hak_policy_set_capacity(&other, cls, (8 << 20) / BYTES);
  want_much(cls);
  CHECK(heap.budget_bytes > 1 << 20);
  bins_budgets_add_up(&heap);
}

/* Runs and the other large blocks together may have half of the use. Not even the first run is exempt. */
static void runs_share_half_of_the_budget(void) {
  const uint32_t run = open_one(HAK_CACHED_MAX), large = hak_class_of(40 << 10);
  use_mib(128);
  hak_policy_set_open(32); /* 2 MiB */
  want(large, 10);
  CHECK(capacity(large) == 10);
  want(run, 10);
  CHECK(capacity(run) == 1);
  hak_policy_set_open(16);
  want(run, 10);
  CHECK(capacity(run) == 3);
  hak_policy_set_open(1000);
  want(HAK_RUN_FIRST, 10);
  CHECK(capacity(HAK_RUN_FIRST) == 0);
  bins_budgets_add_up(&heap);
}

/* With nothing in use, a thread may keep its share of the memory that the arena would retain. */
static void of_runs_a_thread_keeps_a_little(void) {
  for (size_t threads = 1; threads <= 64; threads *= 2) {
    const size_t most = (8 << 20) / threads;
    (void)open_one(BYTES);
    hak_policy_set_open(threads);
    for (uint32_t c = HAK_RUN_FIRST; c < HAK_CLASS_COUNT; c++) {
      want(c, 10);
    }
    CHECK(run_bytes() <= most && run_bytes() > most / 2);
    hak_policy_close(&heap);
  }
}

static void what_an_ended_thread_had_counts_no_more(void) {
  const uint32_t large = open_one(40 << 10);
  size_t before = 0;
  use_mib(16);
  for (int threads = 0; threads < 3; threads++) {
    (void)open_one(BYTES);
    for (uint32_t c = large; c > large - 3; c--) {
      want_much(c);
    }
    CHECK(heap.large_budget_bytes > 16 << 20 && (threads == 0 || heap.large_budget_bytes == before));
    before = heap.large_budget_bytes;
    hak_policy_close(&heap);
  }
}

/* All of them may sleep, each with the blocks that it freed last. */
static void of_thousands_of_threads_none_keeps_a_run(void) {
  for (uint32_t c = HAK_RUN_FIRST; c < HAK_CLASS_COUNT; c++) {
    (void)open_one(BYTES);
    hak_policy_set_open(1000);
    want(c, 10);
    CHECK(run_bytes() == 0);
    hak_policy_close(&heap);
  }
}

static void the_lean_profile_keeps_no_runs(void) {
  set_variable("HAKMEM_PROFILE=lean");
  (void)open_one(BYTES);
  use_mib(64);
  for (uint32_t c = HAK_RUN_FIRST; c < HAK_CLASS_COUNT; c++) {
    want(c, 10);
  }
  CHECK(run_bytes() == 0);
}

/* All caches together keep at most an eighth of a memory limit, apart from each thread's slow-start quota. */
static void caches_leave_room_below_a_limit(void) {
  enum { LIMIT = 128 << 20 };
  set_variable("HAKMEM_MEMORY_LIMIT=128M");
  const uint32_t large = open_one(40 << 10);
  use_mib(32);
  for (uint32_t c = large; c > large - 3; c--) {
    want(c, 1000);
    CHECK((size_t)capacity(c) * hak_class_sizes[c] <= 8 << 20); /* the option limits a class */
  }
  CHECK(heap.large_budget_bytes > LIMIT / 8 - (40 << 10) && heap.large_budget_bytes <= LIMIT / 8 + (40 << 10));
  want(HAK_CLASS_COUNT - 1, 10);
  CHECK(run_bytes() == 0);
  bins_budgets_add_up(&heap);
}

int main(void) {
  child_succeeds(what_is_earned_has_limits);
  child_succeeds(many_threads_share_the_least_budget);
  child_succeeds(no_cache_holds_more_than_a_magazine);
  child_succeeds(caches_share_the_budget);
  child_succeeds(no_cache_pays_for_another);
  child_succeeds(runs_share_half_of_the_budget);
  child_succeeds(of_runs_a_thread_keeps_a_little);
  child_succeeds(what_an_ended_thread_had_counts_no_more);
  child_succeeds(of_thousands_of_threads_none_keeps_a_run);
  child_succeeds(the_lean_profile_keeps_no_runs);
  child_succeeds(caches_leave_room_below_a_limit);
  return 0;
}
