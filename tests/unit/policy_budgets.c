/* How much a thread's caches may hold: bounds of a class, of a thread among others, and below a memory limit. */
#include "bins.h"
#include "cache.h"
#include "child.h"
#include "setting.h"

enum { BYTES = 1024, BUDGET_BYTES = 16 << 20, LEAST_BYTES = 128 << 10, QUOTA_PART = 8 };

static hak_heap_t heap, other;

static uint32_t open_one(size_t bytes) {
  bins_open(&heap);
  hak_cache_set_open(1);
  return hak_class_of(bytes);
}

/* More than any bound allows overflowed, and is fetched again. */
static void want_much(hak_heap_t *of, uint32_t cls, uint32_t at_a_time) {
  of->info[cls].returned = 1U << 30;
  for (uint32_t i = 0; i < 2 * HAK_MAGAZINE_MAX; i += at_a_time) {
    hak_policy_fetched(of, cls, at_a_time);
  }
}

static size_t bytes_of(uint32_t cls) {
  return (size_t)bins_capacity(&heap, cls) * hak_class_sizes[cls];
}

static void a_class_has_a_bound(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=64K");
  (void)open_one(BYTES);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    want_much(&heap, cls, 1);
    uint32_t most = (64 << 10) / hak_class_sizes[cls];
    CHECK(bins_capacity(&heap, cls) == (most > 1 && hak_class_is_run(cls) ? 1 : most));
  }
  bins_capacities_add_up(&heap);
}

/* Of the smallest blocks the option would allow more. */
static void no_cache_holds_more_than_a_magazine(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=64M");
  const uint32_t cls = open_one(16);
  want_much(&heap, cls, 64);
  CHECK(bins_capacity(&heap, cls) == HAK_MAGAZINE_MAX);
}

static size_t share(size_t all, size_t threads, size_t least) {
  return all / threads > least ? all / threads : least;
}

/* All classes of a thread share its part of the budget, but for a small least. */
static void threads_share_the_budget(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=64M");
  for (size_t threads = 1; threads <= 4096; threads *= 2) {
    const size_t most = share(BUDGET_BYTES, threads, LEAST_BYTES);
    const uint32_t cls = open_one(BYTES);
    hak_cache_set_open(threads);
    want_much(&heap, hak_class_of(HAK_CACHED_MAX), 1);
    want_much(&heap, hak_class_of(16), 1);
    want_much(&heap, cls, 1);
    CHECK(heap.capacity_bytes <= most && heap.capacity_bytes > most - BYTES);
    hak_cache_set_open(2 * threads); /* what a thread has stays until it is idle */
    want_much(&heap, cls, 1);
    CHECK(heap.capacity_bytes <= most && heap.capacity_bytes > most - BYTES);
    hak_policy_idle(&heap, cls);
    bins_capacities_add_up(&heap);
    hak_policy_close(&heap);
  }
}

/* Each of them may sleep. */
static void threads_share_the_quota(void) {
  for (size_t threads = 1; threads <= 4096; threads *= 2) {
    const size_t most = share(BUDGET_BYTES, threads, LEAST_BYTES) / QUOTA_PART;
    (void)open_one(BYTES);
    hak_cache_set_open(threads);
    for (uint32_t round = 0; round < 20; round++) { /* batches of a thread that only frees come from there, too */
      for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
        (void)hak_policy_overflow(&heap, cls);
        CHECK(heap.quota_bytes <= most && heap.capacity_bytes == heap.quota_bytes);
      }
    }
    CHECK(threads < 8 || heap.quota_bytes > most / 2);
    bins_capacities_add_up(&heap);
    for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
      hak_policy_idle(&heap, cls);
    }
    CHECK(heap.quota_bytes == 0 && hak_policy_overflow(&heap, 1) == HAK_OVERFLOW_GROWN);
    hak_policy_close(&heap);
  }
}

/* Where there is a limit, the caches of all threads have a quarter of it. */
static void caches_leave_room_below_a_limit(void) {
  enum { LIMIT = 4 << 20 };
  set_variable("HAKMEM_MEMORY_LIMIT=4M");
  const uint32_t cls = open_one(BYTES), next = hak_class_of(4096);
  bins_open(&other);
  want_much(&other, cls, 1);
  CHECK(other.capacity_bytes == LIMIT / 4);
  CHECK(hak_policy_overflow(&heap, cls) == HAK_OVERFLOW_NONE);
  hak_policy_set_capacity(&other, cls, LIMIT / 8 / BYTES);
  want_much(&heap, next, 1);
  CHECK(bytes_of(next) == LIMIT / 8);
  hak_policy_close(&other); /* as far as others go, it has nothing */
  want_much(&heap, next, 1);
  CHECK(bytes_of(next) == LIMIT / 4);
  bins_capacities_add_up(&heap);
}

/* It stopped amid a change: its own sum or that of all is behind. */
static void an_orphan_leaves_others_their_room(void) {
  set_variable("HAKMEM_MEMORY_LIMIT=4M");
  const uint32_t cls = open_one(200);
  bins_open(&other);
  other.capacity_bytes += 1 << 20;
  other.info[cls].lent = 100;
  hak_policy_close(&other);
  CHECK(hak_policy_overflow(&heap, cls) == HAK_OVERFLOW_GROWN && hak_policy_lend(&heap, cls, 1));
}

int main(void) {
  child_succeeds(a_class_has_a_bound);
  child_succeeds(no_cache_holds_more_than_a_magazine);
  child_succeeds(threads_share_the_budget);
  child_succeeds(threads_share_the_quota);
  child_succeeds(caches_leave_room_below_a_limit);
  child_succeeds(an_orphan_leaves_others_their_room);
  return 0;
}
