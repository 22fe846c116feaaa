/* Capacities: that of a new cache, how it grows and shrinks, the limits of the options, and the size of refills. */
#include "threads/cache.h"

#include "bins.h"
#include "blocks/blocks.h"
#include "child.h"
#include "setting.h"
#include "threads/depot.h"

enum { BYTES = 1024, UNEARNED_CLASS_BYTES = 8 << 10, BATCH_BYTES = 32 << 10 };

static hak_heap_t heap;

static uint32_t open_one(size_t bytes) {
  bins_open(&heap);
  return hak_class_of(bytes);
}

static uint32_t capacity(uint32_t cls) {
  return bins_capacity(&heap, cls);
}

/* Acts as the cache does for a block for which the bin has no room. */
static hak_overflow_t overflow(uint32_t cls) {
  return hak_policy_overflow(&heap, cls);
}

static void a_new_cache_has_nothing(void) {
  (void)open_one(BYTES);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(capacity(cls) == 0 && !hak_policy_is_off(&heap.info[cls]) && hak_bin_capacity(&heap.info[cls]) == 0);
  }
  CHECK(heap.slow_start_bytes == 0 && heap.budget_bytes == 0 && heap.large_budget_bytes == 0);
  bins_budgets_add_up(&heap);
}

/* A cache that is opened again after much use starts with the same small capacity. */
static void the_next_thread_begins_anew(void) {
  const uint32_t cls = open_one(BYTES);
  heap.info[cls].overflowed = 100;
  hak_policy_fetched(&heap, cls, 100);
  CHECK(capacity(cls) == 100);
  CHECK(overflow(hak_class_of(8192)) == HAK_OVERFLOW_GROWN && heap.slow_start_bytes > 0);
  hak_policy_close(&heap);
  hak_cache_open(&heap);
  CHECK(capacity(cls) == 0 && heap.slow_start_bytes == 0);
  CHECK(heap.budget_bytes == 0 && heap.large_budget_bytes == 0);
  bins_budgets_add_up(&heap);
}

/* Simulates a refill. Returns the number of blocks that it asks for. */
static uint32_t refill(uint32_t cls) {
  uint32_t want = hak_policy_refill(&heap.info[cls], cls);
  CHECK(want >= 1);
  hak_policy_fetched(&heap, cls, want);
  return want;
}

/* A refill fetches at most half of all blocks fetched so far, except the first one, and its size is bounded. */
static void refills_grow(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    (void)open_one(BYTES);
    uint64_t fetched = 0;
    uint32_t first = refill(cls), last = first;
    CHECK((size_t)first * hak_class_sizes[cls] <= 1024 || first == 1);
    for (int i = 0; i < 200; i++) {
      fetched += last;
      uint32_t want = refill(cls);
      CHECK(want >= last && (want <= fetched / 2 || want == first));
      last = want;
    }
    CHECK((size_t)last * hak_class_sizes[cls] <= 16 << 10 || last == 1);
    CHECK(last > first || hak_class_sizes[cls] > 4096);
  }
}

/* A thread shares slabs until it has made a few refills. */
static void a_slab_is_kept_after_some_refills(void) {
  const uint32_t cls = open_one(64);
  int refills = 0;
  for (; !hak_policy_keeps_current(&heap.info[cls], cls); refills++) {
    CHECK(refills < 30);
    (void)refill(cls);
  }
  CHECK(refills > 1);
  for (int i = 0; i < 1000; i++) {
    (void)refill(cls);
    CHECK(hak_policy_keeps_current(&heap.info[cls], cls));
  }
}

/* A class without capacity gets only the requested block. */
static void a_refill_fetches_what_can_be_kept(void) {
  set_variable("HAKMEM_CACHE_C5=3");
  const uint32_t cls = open_one(BYTES);
  for (int refill = 0; refill < 10; refill++) {
    CHECK(hak_policy_refill(&heap.info[cls], cls) <= 4);
  }
  const uint32_t middle = hak_class_of(5000);
  for (int i = 0; i < 10; i++) {
    CHECK(hak_policy_refill(&heap.info[middle], middle) == 1);
  }
}

static void options_fix_capacities(void) {
  set_variable("HAKMEM_CACHE_C5=3");
  set_variable("HAKMEM_CACHE_C0=0");
  const uint32_t cls = open_one(BYTES), none = hak_class_of(16);
  CHECK(hak_policy_is_off(&heap.info[none]) && overflow(none) == HAK_OVERFLOW_NONE && heap.info[none].overflowed == 0);
  for (int round = 0; round < 10; round++) {
    CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
    hak_policy_fetched(&heap, cls, 100);
    hak_policy_idle(&heap, cls);
    CHECK(capacity(cls) == 3);
  }
  CHECK(heap.slow_start_bytes == 0);
  bins_budgets_add_up(&heap);
}

/* With its first overflows, a class gets a little more capacity each time, up to a limit. Then half of the bin is
 * passed on. */
static void a_class_gets_some_room_without_a_need(void) {
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    (void)open_one(BYTES);
    size_t size = hak_class_sizes[cls];
    uint32_t last = 0;
    hak_overflow_t what = overflow(cls);
    CHECK(what == (size <= BINS_UNEARNED_BLOCK ? HAK_OVERFLOW_GROWN : HAK_OVERFLOW_NONE));
    for (; what == HAK_OVERFLOW_GROWN; what = overflow(cls)) {
      CHECK(capacity(cls) > last && (last == 0 || capacity(cls) <= 2 * last));
      CHECK(capacity(cls) * size <= UNEARNED_CLASS_BYTES || capacity(cls) == 1);
      CHECK(heap.slow_start_bytes == capacity(cls) * size && heap.info[cls].overflowed == 0);
      last = capacity(cls);
    }
    CHECK(capacity(cls) == last && heap.info[cls].overflowed > 0);
    CHECK(what == (last > 0 ? HAK_OVERFLOW_HALF : HAK_OVERFLOW_NONE));
    bins_budgets_add_up(&heap);
  }
}

/* The slow-start quota of all classes of a thread together is small. */
static void unearned_room_is_little(void) {
  (void)open_one(BYTES);
  for (int round = 0; round < 10; round++) {
    for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
      uint32_t before = capacity(cls);
      (void)hak_policy_refill(&heap.info[cls], cls); /* the thread does not only free */
      CHECK((overflow(cls) == HAK_OVERFLOW_GROWN) == (capacity(cls) > before));
      bins_budgets_add_up(&heap);
    }
  }
  CHECK(heap.slow_start_bytes > BINS_UNEARNED_BYTES / 2 && heap.slow_start_bytes <= BINS_UNEARNED_BYTES);
  CHECK(heap.budget_bytes + heap.large_budget_bytes == heap.slow_start_bytes);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    hak_policy_idle(&heap, cls);
    CHECK(capacity(cls) == 0);
  }
  CHECK(heap.slow_start_bytes == 0); /* other classes may get it now */
  CHECK(overflow(hak_class_of(BYTES)) == HAK_OVERFLOW_GROWN);
}

/* Any of many threads may sleep. Up to sixteen get 128 KiB each, more threads share the same sum, and none gets less
 * than 16 KiB. */
static void among_many_it_is_less(void) {
  static const struct {
    size_t threads, most_kib;
  } cases[] = {{16, 128}, {32, 64}, {64, 32}, {1000, 16}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    (void)open_one(BYTES);
    hak_policy_set_open(cases[i].threads);
    for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
      (void)overflow(cls);
    }
    CHECK(heap.slow_start_bytes <= cases[i].most_kib << 10 && heap.slow_start_bytes > (cases[i].most_kib - 8) << 10);
    hak_policy_close(&heap);
  }
}

static void the_option_holds_for_unearned_room_too(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=4K");
  (void)open_one(BYTES);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    while (overflow(cls) == HAK_OVERFLOW_GROWN) {
    }
    CHECK((size_t)capacity(cls) * hak_class_sizes[cls] <= 4 << 10);
  }
  bins_budgets_add_up(&heap);
}

static void what_is_fetched_again_is_earned(void) {
  const uint32_t cls = open_one(100000);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 0); /* it has returned no block yet */
  CHECK(overflow(cls) == HAK_OVERFLOW_NONE);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1);
  hak_policy_fetched(&heap, cls, 1);
  CHECK(capacity(cls) == 1);
  bins_budgets_add_up(&heap);
}

/* A thread that only frees loses the capacity that the class has now, or had before. */
static void who_only_frees_loses(void) {
  const uint32_t cls = open_one(BYTES);
  heap.info[cls].overflowed = 100;
  hak_policy_fetched(&heap, cls, 100);
  uint32_t grown = capacity(cls), halves = 0;
  for (; overflow(cls) == HAK_OVERFLOW_HALF; halves++) {
    CHECK(capacity(cls) == grown && halves < 10);
  }
  CHECK(halves > 1 && capacity(cls) < grown && capacity(cls) >= grown / 2);
  (void)hak_policy_refill(&heap.info[cls], cls); /* an allocation resets the count */
  CHECK(overflow(cls) == HAK_OVERFLOW_HALF);
  for (int i = 0; i < 20; i++) {
    (void)overflow(cls);
  }
  uint32_t batch = capacity(cls);
  CHECK(batch >= 1 && batch < grown / 2);
  CHECK(overflow(cls) == HAK_OVERFLOW_FREES && capacity(cls) == batch);
  bins_budgets_add_up(&heap);
}

static uint32_t gathers(uint32_t cls) {
  for (int i = 0; i < 20; i++) {
    (void)overflow(cls);
  }
  uint32_t least = capacity(cls);
  CHECK(overflow(cls) == HAK_OVERFLOW_FREES);
  CHECK(capacity(cls) == least);
  return least;
}

/* A thread that only frees collects batches for other threads, of the same size in every class. If the heap shrinks and
 * no thread takes the blocks, it keeps almost nothing. */
static void who_only_frees_gathers_batches(void) {
  const uint32_t cls = open_one(BYTES), other = hak_class_of(2 * BYTES), run = hak_class_of(100000);
  hak_policy_set_open(4);
  CHECK(gathers(cls) == BATCH_BYTES / BYTES && gathers(other) == BATCH_BYTES / (2 * BYTES) && gathers(run) == 0);
  heap.heap_shrinks = true;
  hak_free_block_t *block = hak_freed_take_one(cls);
  hak_mark_free(block);
  CHECK(hak_depot_put(cls, &block, 1) == 0 && hak_depot_take(cls, &block, 1) == 1);
  CHECK(hak_policy_passes_on(&heap, cls) && !hak_policy_passes_on(&heap, other) && !hak_policy_passes_on(&heap, run));
  CHECK(gathers(cls) == BATCH_BYTES / BYTES && gathers(other) == 1 && gathers(run) == 0);
  hak_depot_begin();
  CHECK(!hak_policy_passes_on(&heap, cls) && gathers(cls) == 1);
  bins_budgets_add_up(&heap);
}

/* The more threads there are, the less each one may hold of every class. */
static void batches_are_small_where_there_are_many_threads(void) {
  const uint32_t cls = open_one(BYTES);
  hak_policy_set_open(32);
  CHECK(gathers(cls) == BATCH_BYTES / BYTES / 2);
  hak_policy_set_open(1000);
  CHECK(gathers(cls) == BATCH_BYTES / BYTES / 8);
  bins_budgets_add_up(&heap);
}

/* The bound holds for all classes together, since the thread may sleep with them. */
static void all_batches_of_a_thread_share_a_budget(void) {
  for (size_t threads = 8; threads <= 512; threads *= 8) {
    const size_t most = threads <= 16 ? 1 << 20 : threads <= 128 ? (16 << 20) / threads : 128 << 10;
    (void)open_one(BYTES);
    hak_policy_set_open(threads);
    for (uint32_t c = 1; c < HAK_RUN_FIRST; c++) {
      (void)gathers(c);
    }
    size_t all = heap.budget_bytes + heap.large_budget_bytes;
    CHECK(all <= (heap.slow_start_bytes > most ? heap.slow_start_bytes : most) && all > most / 2);
    bins_budgets_add_up(&heap);
    hak_policy_close(&heap);
  }
}

static void idle_classes_lose_what_they_earned(void) {
  const uint32_t cls = open_one(BYTES);
  heap.info[cls].overflowed = 100;
  hak_policy_fetched(&heap, cls, 100);
  uint32_t first = hak_policy_refill(&(hak_bin_info_t){.fixed = false}, cls);
  for (int i = 0; i < 20; i++) {
    (void)refill(cls);
  }
  CHECK(hak_policy_keeps_current(&heap.info[cls], cls) && capacity(cls) >= 100);
  hak_policy_idle(&heap, cls);
  CHECK(capacity(cls) == 0 && !hak_policy_keeps_current(&heap.info[cls], cls));
  CHECK(hak_policy_refill(&heap.info[cls], cls) == first);
  bins_budgets_add_up(&heap);
}

/* Slow start gives its quota again, even if the class lost its capacity before. */
static void what_was_unearned_is_to_be_had_again(void) {
  const uint32_t cls = open_one(BYTES);
  CHECK(overflow(cls) == HAK_OVERFLOW_GROWN && heap.slow_start_bytes > 0);
  hak_policy_set_capacity(&heap, cls, 0);
  hak_policy_idle(&heap, cls);
  CHECK(heap.slow_start_bytes == 0 && overflow(cls) == HAK_OVERFLOW_GROWN);
}

/* Overflows count even if the class has no capacity and the thread seems only to free. */
static void every_overflow_counts_for_capacity(void) {
  enum { OVERFLOWS = 6 };
  const uint32_t cls = open_one(50000);
  for (int i = 0; i < OVERFLOWS; i++) {
    CHECK(overflow(cls) != HAK_OVERFLOW_GROWN && capacity(cls) == 0);
  }
  hak_policy_fetched(&heap, cls, OVERFLOWS + 1);
  CHECK(capacity(cls) == OVERFLOWS);
}

static void what_is_lent_comes_back(void) {
  const uint32_t cls = open_one(200);
  CHECK(!hak_policy_add_quota(&heap, hak_class_of(16), 4)); /* the cache is closed */
  CHECK(overflow(cls) == HAK_OVERFLOW_GROWN);
  uint32_t before = capacity(cls), lent = 0;
  for (; hak_policy_add_quota(&heap, cls, 10); lent += 10) {
    CHECK(capacity(cls) == before + lent + 10 && heap.info[cls].sampler_quota == lent + 10);
    CHECK((size_t)lent * hak_class_sizes[cls] < 16 << 20);
    bins_budgets_add_up(&heap);
  }
  CHECK(lent > 0 && capacity(cls) == before + lent);
  hak_policy_drop_quota(&heap, cls);
  CHECK(capacity(cls) == before && heap.info[cls].sampler_quota == 0);
  CHECK(hak_policy_add_quota(&heap, cls, 10));
  hak_policy_set_capacity(&heap, cls, 4); /* the class lost a part of the quota since */
  hak_policy_drop_quota(&heap, cls);
  CHECK(capacity(cls) == 0);
  CHECK(hak_policy_add_quota(&heap, cls, 10));
  hak_policy_idle(&heap, cls);
  CHECK(capacity(cls) == 0 && heap.info[cls].sampler_quota == 0);
  CHECK(hak_policy_add_quota(&heap, cls, lent)); /* the whole quota is available again */
  bins_budgets_add_up(&heap);
}

static void several_threads_take_less_from_mixed_pages(void) {
  const uint32_t cls = open_one(64);
  hak_bin_info_t *info = &heap.info[cls];
  hak_policy_set_open(1);
  info->mixed_bytes = HAK_MIXED_BYTES - 64;
  CHECK(hak_policy_is_young(info, cls));
  hak_policy_set_open(2);
  CHECK(!hak_policy_is_young(info, cls));
  info->mixed_bytes = HAK_MIXED_BYTES / HAK_MIXED_PART - 64;
  CHECK(hak_policy_is_young(info, cls));
  info->mixed_bytes += 64;
  CHECK(!hak_policy_is_young(info, cls));
}

int main(void) {
  child_succeeds(a_new_cache_has_nothing);
  child_succeeds(the_next_thread_begins_anew);
  child_succeeds(refills_grow);
  child_succeeds(a_slab_is_kept_after_some_refills);
  child_succeeds(a_refill_fetches_what_can_be_kept);
  child_succeeds(options_fix_capacities);
  child_succeeds(a_class_gets_some_room_without_a_need);
  child_succeeds(unearned_room_is_little);
  child_succeeds(among_many_it_is_less);
  child_succeeds(the_option_holds_for_unearned_room_too);
  child_succeeds(what_is_fetched_again_is_earned);
  child_succeeds(who_only_frees_loses);
  child_succeeds(who_only_frees_gathers_batches);
  child_succeeds(batches_are_small_where_there_are_many_threads);
  child_succeeds(all_batches_of_a_thread_share_a_budget);
  child_succeeds(idle_classes_lose_what_they_earned);
  child_succeeds(what_was_unearned_is_to_be_had_again);
  child_succeeds(every_overflow_counts_for_capacity);
  child_succeeds(what_is_lent_comes_back);
  child_succeeds(several_threads_take_less_from_mixed_pages);
  return 0;
}
