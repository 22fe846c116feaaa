/* Capacities: what a new cache grants, what is earned and lost, what the options fix, and how much a refill fetches. */
#include "cache.h"

#include "arena.h"
#include "child.h"
#include "lists.h"
#include "setting.h"

enum { BYTES = 1024, GRANT_BYTES = 32 << 10 };

static hak_heap_t heap;

static uint32_t open_one(size_t bytes) {
  lists_open(&heap, 1);
  return hak_class_of(bytes);
}

static int32_t capacity(uint32_t cls) {
  return lists_capacity(&heap, cls);
}

/* As the cache does for a block that the list has no room for. */
static hak_overflow_t overflow(uint32_t cls) {
  return hak_policy_overflow(&heap, cls);
}

static void a_new_cache_has_little(void) {
  (void)open_one(BYTES);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    size_t bytes = (size_t)capacity(cls) * hak_class_sizes[cls];
    CHECK(bytes <= 8 << 10 && !hak_policy_is_off(&heap.info[cls]));
    CHECK((capacity(cls) >= 2) == (hak_class_sizes[cls] <= 4096));
  }
  CHECK(heap.granted_bytes == 0);
  lists_budgets_add_up(&heap);
}

/* And opened again after much use, it has as little. */
static void the_next_thread_begins_anew(void) {
  const uint32_t cls = open_one(BYTES);
  int32_t start = capacity(cls);
  size_t budget = heap.budget_bytes;
  CHECK(heap.large_budget_bytes == 0);
  heap.info[cls].returned = 100;
  hak_policy_fetched(&heap, cls, 100);
  CHECK(capacity(cls) == start + 100);
  CHECK(overflow(hak_class_of(8192)) == HAK_OVERFLOW_HALF && heap.granted_bytes > 0);
  hak_cache_open(&heap);
  CHECK(capacity(cls) == start && heap.granted_bytes == 0);
  CHECK(heap.budget_bytes == budget && heap.large_budget_bytes == 0);
  lists_budgets_add_up(&heap);
}

static void refills_double(void) {
  const uint32_t cls = open_one(64);
  hak_bin_info_t *info = &heap.info[cls];
  uint32_t want = 0, last = 0;
  for (int refill = 1; refill <= 10; refill++, last = want) {
    want = hak_policy_refill(info, cls);
    CHECK(want == (refill == 1 ? 1024 / 64 : last * 2 < 16384 / 64 ? last * 2 : 16384 / 64));
    CHECK(hak_policy_keeps_current(info) == (refill >= 3));
  }
  for (uint32_t c = hak_class_of(16384); c < HAK_RUN_FIRST; c++) {
    CHECK(hak_policy_refill(&heap.info[c], c) == 1);
    CHECK(hak_policy_refill(&heap.info[c], c) == 1);
  }
}

/* A class without any capacity gets the one block that was asked for. */
static void a_refill_fetches_what_can_be_kept(void) {
  set_variable("HAKMEM_TINY_UNIFIED_C5=3");
  const uint32_t cls = open_one(BYTES);
  for (int refill = 0; refill < 10; refill++) {
    CHECK(hak_policy_refill(&heap.info[cls], cls) <= 4);
  }
  const uint32_t middle = hak_class_of(5000);
  for (int refill = 0; refill < 10; refill++) {
    CHECK(hak_policy_refill(&heap.info[middle], middle) == 1);
    CHECK(!hak_policy_keeps_current(&heap.info[middle]));
  }
}

static void options_fix_capacities(void) {
  set_variable("HAKMEM_TINY_UNIFIED_C5=3");
  set_variable("HAKMEM_TINY_UNIFIED_C0=0");
  const uint32_t cls = open_one(BYTES), none = hak_class_of(16);
  CHECK(hak_policy_is_off(&heap.info[none]) && overflow(none) == HAK_OVERFLOW_NONE && heap.info[none].returned == 0);
  for (int round = 0; round < 10; round++) {
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
    hak_policy_fetched(&heap, cls, 100);
    hak_policy_idle(&heap, cls);
    CHECK(capacity(cls) == 3);
  }
  CHECK(heap.granted_bytes == 0);
  lists_budgets_add_up(&heap);
}

/* The first blocks of classes that start with nothing: one each, and all of them within a limit. */
static void grants_are_few(void) {
  size_t granted = 0;
  (void)open_one(BYTES);
  for (uint32_t cls = hak_class_of(4097); cls < HAK_CLASS_COUNT; cls++) {
    size_t bytes = hak_class_sizes[cls];
    bool fits = granted + bytes <= GRANT_BYTES;
    CHECK(overflow(cls) == (fits ? HAK_OVERFLOW_HALF : HAK_OVERFLOW_NONE));
    CHECK(capacity(cls) == fits && heap.info[cls].returned == !fits);
    granted += fits ? bytes : 0;
    CHECK(heap.granted_bytes == granted);
  }
  CHECK(granted > GRANT_BYTES / 2);
  lists_budgets_add_up(&heap);
  for (uint32_t cls = hak_class_of(4097); cls < HAK_CLASS_COUNT; cls++) {
    hak_policy_idle(&heap, cls);
    CHECK(capacity(cls) == 0);
  }
  CHECK(heap.granted_bytes == 0); /* others may have it now */
}

static void what_is_fetched_again_is_earned(void) {
  const uint32_t cls = open_one(100000);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 0); /* it returned nothing yet */
  CHECK(overflow(cls) == HAK_OVERFLOW_NONE);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1);
  lists_budgets_add_up(&heap);
}

static void what_is_earned_has_limits(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=64K");
  const uint32_t cls = open_one(BYTES);
  heap.info[cls].returned = 1000;
  for (int round = 0; round < 1000; round++) {
    hak_policy_fetched(&heap, cls, 1);
  }
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
  size_t first_blocks = 0; /* each class has one, whatever it costs */
  for (uint32_t c = hak_class_of(4097); c < HAK_CLASS_COUNT; c++) {
    CHECK(capacity(c) >= 1);
    first_blocks += hak_class_sizes[c];
  }
  CHECK(heap.large_budget_bytes <= (hak_option_slices(HAK_OPTION_RETAIN) << HAK_SLICE_SHIFT) + first_blocks);
  lists_budgets_add_up(&heap);
}

/* Caches share what the process has in use. */
static void caches_share_the_budget(void) {
  bool zeroed;
  const uint32_t cls = open_one(HAK_CACHED_MAX), small = hak_class_of(4096);
  for (int i = 0; i < 64; i++) {
    CHECK(hak_arena_take(HAK_CHUNK_SLICES, 1, &zeroed) != NULL);
  }
  heap.info[cls].returned = heap.info[small].returned = 10000;
  hak_cache_set_open(128);
  hak_policy_fetched(&heap, cls, 1);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1); /* 128 MiB / 128 */
  hak_cache_set_open(64);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 2);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 2);
  hak_cache_set_open(16);
  for (int i = 0; i < 10000; i++) {
    hak_policy_fetched(&heap, small, 16);
  }
  CHECK(heap.budget_bytes <= 8 << 20 && capacity(small) <= (4 << 20) / 4096); /* the option holds first */
  CHECK(capacity(small) > 1000);
  lists_budgets_add_up(&heap);
}

/* What threads may keep of large blocks, the arena does not: as long as they are there. */
static void the_arena_keeps_the_rest(void) {
  set_number("WARM_POOL_SIZE", 0);
  set_number("RETAIN", 8 << 20);
  size_t retained = hak_arena_totals().target_slices;
  CHECK(retained == (8 << 20) >> HAK_SLICE_SHIFT);
  for (int thread = 0; thread < 20; thread++) {
    const uint32_t cls = open_one(HAK_CACHED_MAX);
    heap.info[cls].returned = 3;
    hak_policy_fetched(&heap, cls, 1);
    hak_policy_fetched(&heap, cls, 2);
    CHECK(capacity(cls) == 3);
    CHECK(hak_arena_totals().target_slices == retained - 3 * (HAK_CACHED_MAX >> HAK_SLICE_SHIFT));
    if (thread % 2 == 0) {
      hak_cache_close(&heap, "free");
      CHECK(hak_arena_totals().target_slices == retained);
    }
  }
}

static void who_only_frees_loses(void) {
  const uint32_t cls = open_one(BYTES);
  heap.info[cls].returned = 100;
  hak_policy_fetched(&heap, cls, 100);
  int32_t grown = capacity(cls);
  for (int i = 0; i < 3; i++) {
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF && capacity(cls) == grown);
  }
  CHECK(overflow(cls) == HAK_OVERFLOW_FREES && capacity(cls) == grown / 2);
  (void)hak_policy_refill(&heap.info[cls], cls); /* it allocates: the count begins anew */
  CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
  for (int i = 0; i < 20; i++) {
    (void)overflow(cls);
  }
  CHECK(capacity(cls) == (8 << 10) / BYTES);
  heap.heap_shrinks = true;
  for (int i = 0; i < 20; i++) {
    (void)overflow(cls);
  }
  CHECK(capacity(cls) == (4 << 10) / BYTES);
  lists_budgets_add_up(&heap);
}

static void idle_classes_lose_what_they_earned(void) {
  const uint32_t cls = open_one(BYTES);
  int32_t start = capacity(cls);
  heap.info[cls].returned = 100;
  hak_policy_fetched(&heap, cls, 100);
  for (int i = 0; i < 5; i++) {
    (void)hak_policy_refill(&heap.info[cls], cls);
  }
  CHECK(hak_policy_keeps_current(&heap.info[cls]));
  hak_policy_idle(&heap, cls);
  CHECK(capacity(cls) == start && !hak_policy_keeps_current(&heap.info[cls]));
  lists_budgets_add_up(&heap);
}

int main(void) {
  child_succeeds(a_new_cache_has_little);
  child_succeeds(the_next_thread_begins_anew);
  child_succeeds(refills_double);
  child_succeeds(a_refill_fetches_what_can_be_kept);
  child_succeeds(options_fix_capacities);
  child_succeeds(grants_are_few);
  child_succeeds(what_is_fetched_again_is_earned);
  child_succeeds(what_is_earned_has_limits);
  child_succeeds(caches_share_the_budget);
  child_succeeds(the_arena_keeps_the_rest);
  child_succeeds(who_only_frees_loses);
  child_succeeds(idle_classes_lose_what_they_earned);
  return 0;
}
