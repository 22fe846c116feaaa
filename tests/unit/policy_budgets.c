/* How much a thread's caches may hold: as a part of what it has in use, and where nothing is. */
#include "arena.h"
#include "bins.h"
#include "cache.h"
#include "child.h"
#include "setting.h"

enum { BYTES = 1024 };

static hak_heap_t heap;

static uint32_t open_one(size_t bytes) {
  bins_open(&heap);
  return hak_class_of(bytes);
}

static uint32_t capacity(uint32_t cls) {
  return bins_capacity(&heap, cls);
}

/* The class is fetched from so often, by a thread that returned more. */
static void want(uint32_t cls, int times) {
  heap.info[cls].returned = 100000;
  for (int i = 0; i < times; i++) {
    hak_policy_fetched(&heap, cls, 1);
  }
}

/* The same until no budget grants more. */
static void want_much(uint32_t cls) {
  heap.info[cls].returned = 100000;
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
  hak_cache_set_open(1);
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) { /* the process has nothing in use: the least budget holds */
    heap.info[c].returned = 1 << 20;
    for (int round = 0; round < 5000; round++) {
      hak_policy_fetched(&heap, c, c < hak_class_of(4097) ? 16 : 1);
    }
    CHECK(heap.budget_bytes <= 1 << 20);
  }
  size_t first_blocks = 0; /* each class of slabs has one, whatever it costs */
  for (uint32_t c = hak_class_of(4097); c < HAK_RUN_FIRST; c++) {
    CHECK(capacity(c) >= 1);
    first_blocks += hak_class_sizes[c];
  }
  size_t runs = run_bytes();
  CHECK(runs > 1 << 20 && runs <= 2 << 20);
  CHECK(heap.large_budget_bytes - runs <= (hak_option_slices(HAK_OPTION_RETAIN) << HAK_SLICE_SHIFT) + first_blocks);
  bins_budgets_add_up(&heap);
}

/* Of many threads none keeps much where the process has nothing in use; some of them may sleep. */
static void many_threads_share_the_least_budget(void) {
  for (size_t threads = 1; threads <= 4096; threads *= 2) {
    const size_t share = (64 << 20) / threads, most = share > 1 << 20 ? 1 << 20 : share < 128 << 10 ? 128 << 10 : share;
    const uint32_t cls = open_one(BYTES);
    hak_cache_set_open(threads);
    want_much(cls);
    CHECK(heap.budget_bytes <= most && heap.budget_bytes > most - 16 * BYTES);
    hak_policy_close(&heap);
  }
}

/* Of the smallest blocks the option would allow more. */
static void no_cache_holds_more_than_a_magazine(void) {
  const uint32_t cls = open_one(16);
  hak_cache_set_open(1);
  use_mib(64);
  heap.info[cls].returned = 1 << 20;
  for (int i = 0; i < 3 * HAK_MAGAZINE_MAX / 64; i++) {
    hak_policy_fetched(&heap, cls, 64);
  }
  CHECK(capacity(cls) == HAK_MAGAZINE_MAX);
}

/* Caches share one and a half times what the process has in use, and of blocks up to 4 KiB three times. */
static void caches_share_the_budget(void) {
  const uint32_t large = open_one(40 << 10), small = hak_class_of(4096);
  CHECK(large == HAK_RUN_FIRST - 1);
  use_mib(128);
  hak_cache_set_open(3 * (64 << 20) / (80 << 10) + 1);
  want(large, 2);
  CHECK(capacity(large) == 1); /* 128 MiB / as many, and half of that, is less than two blocks */
  hak_cache_set_open(3 * (64 << 20) / (80 << 10) - 1);
  want(large, 2);
  CHECK(capacity(large) == 2);
  hak_cache_set_open(3 * 32);
  want_much(small);
  CHECK(heap.budget_bytes <= 4 << 20 && capacity(small) > 1000);
  bins_budgets_add_up(&heap);
}

/* What other threads may hold is not in use: they may sleep for ever. */
static void no_cache_pays_for_another(void) {
  static hak_heap_t other;
  const uint32_t cls = open_one(BYTES);
  bins_open(&other);
  hak_cache_set_open(1);
  use_mib(16);
  hak_policy_set_capacity(&other, cls, (16 << 20) / BYTES);
  want_much(cls);
  CHECK(heap.budget_bytes <= 1 << 20); /* the least */
  hak_policy_set_capacity(&other, cls, (8 << 20) / BYTES);
  want_much(cls);
  CHECK(heap.budget_bytes > 1 << 20);
  bins_budgets_add_up(&heap);
}

/* An eighth of what is in use, of all classes together, and the first of each as long as they are within that. */
static void of_runs_a_thread_keeps_less(void) {
  const uint32_t cls = open_one(HAK_CACHED_MAX), next = hak_class_of(896 << 10), last = HAK_RUN_FIRST;
  use_mib(128);
  hak_cache_set_open(9);
  want(cls, 10);
  CHECK(capacity(cls) == 1); /* 128 MiB / 9, an eighth of it */
  hak_cache_set_open(8);
  want(cls, 10);
  CHECK(capacity(cls) == 2);
  want(next, 10);
  CHECK(capacity(next) == 1 && run_bytes() == (2 << 20) + (896 << 10));
  hak_cache_set_open(42); /* 3 MiB, and a little: room for one more of 160 KiB */
  want(hak_class_of(192 << 10), 10);
  CHECK(capacity(hak_class_of(192 << 10)) == 0);
  want(hak_class_of(160 << 10), 10);
  CHECK(capacity(hak_class_of(160 << 10)) == 1);
  want(last, 10);
  CHECK(capacity(last) == 0);
  hak_policy_idle(&heap, cls);
  hak_policy_idle(&heap, next);
  hak_cache_set_open(1);
  want(last, 20);
  CHECK(capacity(last) == 20);
  bins_budgets_add_up(&heap);
}

static bool calms_after(uint64_t ms) {
  static uint64_t now_ms = 1000;
  now_ms += ms;
  return hak_policy_calms(&heap, now_ms);
}

/* As long as it fetches them faster than any thread can write, and for two looks more: half as much again as it has in
 * use. */
static void in_haste_a_thread_keeps_more_runs(void) {
  enum { PER_MS = 32, CLOCK_MS = 10, LOOK_MS = 250 }; /* MiB; what the clock may be behind */
  const uint32_t cls = open_one(HAK_CACHED_MAX);
  use_mib(128);
  hak_cache_set_open(64);
  CHECK(!calms_after(LOOK_MS));
  want(cls, CLOCK_MS * PER_MS);
  CHECK(!calms_after(1));
  want(cls, PER_MS - 1);
  CHECK(!calms_after(0));
  want(cls, 1);
  CHECK(capacity(cls) == 1); /* till now too little for the time */
  CHECK(!calms_after(0));
  want(cls, 10);
  CHECK(capacity(cls) == 3);
  CHECK(!calms_after(LOOK_MS - 1));
  want(cls, CLOCK_MS * PER_MS);
  CHECK(!calms_after(0)); /* still in haste */
  CHECK(!calms_after(LOOK_MS) && !calms_after(LOOK_MS - 1) && calms_after(1) && !calms_after(LOOK_MS));
  hak_policy_idle(&heap, cls);
  want(cls, CLOCK_MS * PER_MS);
  CHECK(capacity(cls) == 1);
  CHECK(!calms_after(0));
  hak_policy_close(&heap); /* by the next thread nothing was fetched */
  for (int looks = 0; looks < 3; looks++) {
    CHECK(!calms_after(LOOK_MS));
  }
}

/* It could not write what it waited for. */
static void a_thread_that_waits_is_in_haste_all_the_same(void) {
  enum { PER_MS = 32, CLOCK_MS = 10, LOOK_MS = 250 };
  const uint64_t ms_ns = 1000000;
  const uint32_t cls = open_one(HAK_CACHED_MAX);
  use_mib(128);
  hak_cache_set_open(64);
  CHECK(!calms_after(LOOK_MS));
  want(cls, (5 + CLOCK_MS) * PER_MS);
  hak_lock_waited_ns = 99 * ms_ns;
  CHECK(!calms_after(105));
  want(cls, 1);
  CHECK(capacity(cls) == 1);
  hak_lock_waited_ns = 100 * ms_ns;
  CHECK(!calms_after(0));
  want(cls, 10);
  CHECK(capacity(cls) == 3);
  CHECK(!calms_after(LOOK_MS) && hak_lock_waited_ns == 0); /* it counts from here */
  hak_lock_waited_ns = 100 * ms_ns;
  hak_policy_close(&heap);
  CHECK(hak_lock_waited_ns == 0);
}

/* Small blocks are none of these: who fetches many writes them. */
static void haste_is_of_runs(void) {
  const uint32_t cls = open_one(40 << 10);
  CHECK(!calms_after(1000));
  want_much(cls);
  CHECK(!calms_after(0));
  for (int looks = 0; looks < 3; looks++) {
    CHECK(!calms_after(250));
  }
}

/* Where nothing is in use, a thread's share of what would be retained, but no more than 2 MiB. */
static void of_runs_a_thread_keeps_a_little(void) {
  for (size_t threads = 1; threads <= 64; threads *= 2) {
    const size_t share = (8 << 20) / threads, most = share < 2 << 20 ? share : 2 << 20;
    (void)open_one(BYTES);
    hak_cache_set_open(threads);
    for (uint32_t c = HAK_RUN_FIRST; c < HAK_CLASS_COUNT; c++) {
      want(c, 10);
    }
    CHECK(run_bytes() <= most && run_bytes() > most - (128 << 10));
    hak_policy_close(&heap);
  }
}

/* However many threads there are: one that takes and returns a block has no other in use, and goes by the arena no
 * more. */
static void the_only_run_is_kept(void) {
  for (uint32_t c = HAK_RUN_FIRST; c < HAK_CLASS_COUNT; c++) {
    (void)open_one(BYTES);
    hak_cache_set_open(1000);
    want(c, 10);
    CHECK(capacity(c) == 1 && run_bytes() == hak_class_sizes[c]);
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

/* And all of them keep a quarter of a limit at most, beyond what each has without asking. */
static void caches_leave_room_below_a_limit(void) {
  enum { LIMIT = 64 << 20 };
  set_variable("HAKMEM_MEMORY_LIMIT=64M");
  const uint32_t large = open_one(40 << 10);
  use_mib(32);
  for (uint32_t c = large; c > large - 3; c--) {
    want(c, 1000);
    CHECK((size_t)capacity(c) * hak_class_sizes[c] <= 8 << 20); /* the option of a class */
  }
  CHECK(heap.large_budget_bytes > LIMIT / 4 - (40 << 10) && heap.large_budget_bytes <= LIMIT / 4 + (40 << 10));
  want(HAK_CLASS_COUNT - 1, 10);
  CHECK(run_bytes() == 2 << 20);
  hak_policy_idle(&heap, HAK_CLASS_COUNT - 1);
  hak_cache_set_open(1000);
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
  child_succeeds(of_runs_a_thread_keeps_less);
  child_succeeds(in_haste_a_thread_keeps_more_runs);
  child_succeeds(a_thread_that_waits_is_in_haste_all_the_same);
  child_succeeds(haste_is_of_runs);
  child_succeeds(of_runs_a_thread_keeps_a_little);
  child_succeeds(the_only_run_is_kept);
  child_succeeds(the_lean_profile_keeps_no_runs);
  child_succeeds(caches_leave_room_below_a_limit);
  return 0;
}
