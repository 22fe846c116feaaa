/* How much the bins of a thread may hold: limits set by options, and adaptive ones. */
#include "child.h"
#include "pages/arena.h"
#include "setting.h"
#include "system.h"
#include "system/options.h"
#include "threads/cache.h"
#include "two_bins.h"

enum { BYTES = 1024, BLOCKS = 6000 };

static size_t peak_bytes;

static void pass_through(hak_heap_t *from, hak_heap_t *to, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = bins_alloc(from, bytes);
  }
  size_t used_bytes = hak_retain_used_slices() << HAK_SLICE_SHIFT;
  peak_bytes = peak_bytes > used_bytes ? peak_bytes : used_bytes;
  for (size_t i = 0; i < count; i++) {
    bins_free(to, blocks[i]);
  }
}

/* Repeats the same demand. */
static void use_steadily(hak_heap_t *heap, size_t bytes, size_t count, int rounds) {
  while (rounds-- > 0) {
    pass_through(heap, heap, bytes, count);
    hak_verify_check(heap);
  }
}

static uint64_t refills_of(hak_heap_t *heap, size_t bytes) {
  return heap->info[hak_class_of(bytes)].asked_count;
}

/* A demand that exceeds the bin at first fits into it later. */
static void limits_grow_with_use(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  bins_budgets_add_up(&mine);
  use_steadily(&mine, BYTES, 1, 2);
  uint32_t start = bins_capacity(&mine, cls);
  CHECK(start > 0);
  size_t demand = 6 * (size_t)start;
  uint64_t none = refills_of(&mine, BYTES);
  use_steadily(&mine, BYTES, demand, 1);
  uint64_t at_first = refills_of(&mine, BYTES) - none;
  use_steadily(&mine, BYTES, demand, 20);
  uint64_t before = refills_of(&mine, BYTES);
  use_steadily(&mine, BYTES, demand, 1);
  CHECK(refills_of(&mine, BYTES) - before < at_first);
  uint32_t limit = bins_capacity(&mine, cls);
  CHECK(limit > start && limit <= (uint64_t)hak_option(HAK_OPTION_CACHE_BYTES) / BYTES);
  CHECK(bins_length(&mine, cls) <= limit);
  CHECK(bins_capacity(&mine, hak_class_of(2 * BYTES)) == bins_capacity(&other, hak_class_of(2 * BYTES)));
  bins_budgets_add_up(&mine);
}

static void growth_ends_at_the_option(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_CLASS_MAX=20K");
  open_both();
  for (size_t demand = 1; demand < 200; demand += 7) {
    use_steadily(&mine, BYTES, demand, 5);
    CHECK(bins_capacity(&mine, cls) <= 20);
  }
  bins_budgets_add_up(&mine);
}

/* Blocks in the bins of other classes do not count as use, and so enlarge no budget. */
static void caches_do_not_feed_each_other(void) {
  enum { DEMAND_BYTES = 1 << 20 };
  open_both();
  size_t most = 0;
  for (uint32_t cls = hak_class_of(BYTES); cls < HAK_CLASS_COUNT && hak_class_sizes[cls] <= DEMAND_BYTES / 4; cls++) {
    use_steadily(&mine, hak_class_sizes[cls], DEMAND_BYTES / hak_class_sizes[cls], 4);
    most += DEMAND_BYTES;
  }
  size_t kept = hak_retain_used_slices() << HAK_SLICE_SHIFT;
  CHECK(kept <= most / 2); /* otherwise it would keep all of it */
}

/* All adaptive classes of a thread together stay within three times the process's use, or a least budget. The large
 * ones stay within half of that. Runs stay within the use, or what the arena would retain plus 2 MiB. Each class may
 * exceed its bound by one block. */
static void growth_ends_at_the_budget(void) {
  open_both();
  size_t start_bytes = mine.budget_bytes, least_bytes = 1 << 20, first_blocks = 0;
  size_t retained = (size_t)hak_option(HAK_OPTION_RETAIN) + ((size_t)2 << 20);
  for (uint32_t cls = 5; cls < HAK_CLASS_COUNT; cls++) {
    size_t demand = ((size_t)2 << 20) / hak_class_sizes[cls];
    use_steadily(&mine, hak_class_sizes[cls], demand < BLOCKS ? demand : BLOCKS, 4);
    size_t part = 3 * peak_bytes, large_part = part / 2 + peak_bytes;
    CHECK(mine.budget_bytes <= (part > least_bytes ? part : least_bytes));
    first_blocks += hak_class_sizes[cls] > 4096 ? hak_class_sizes[cls] : 0;
    CHECK(mine.large_budget_bytes <= (large_part > retained ? large_part : retained) + first_blocks);
  }
  bins_budgets_add_up(&mine);
  CHECK(mine.budget_bytes > start_bytes && mine.large_budget_bytes > 0);
}

/* A thread that only frees does not need its cached blocks. */
static void limits_shrink_where_nothing_is_allocated(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  const size_t demand = 100;
  use_steadily(&mine, BYTES, demand, 10);
  uint32_t grown = bins_capacity(&mine, cls);
  pass_through(&other, &mine, BYTES, BLOCKS);
  hak_verify_check(&mine);
  bins_budgets_add_up(&mine);
  uint32_t least = bins_capacity(&mine, cls);
  CHECK(least < grown && least >= 1);
  CHECK(bins_length(&mine, cls) <= least && !mine.info[cls].current);
  use_steadily(&mine, BYTES, demand, 10);
  CHECK(bins_capacity(&mine, cls) > least); /* the capacity grows again with use */
}

static void a_fixed_capacity_stays(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_C5=3");
  open_both();
  CHECK(bins_capacity(&mine, cls) == 3 && mine.info[cls].fixed);
  for (int round = 0; round < 10; round++) {
    pass_through(&mine, &mine, BYTES, 500);
    CHECK(bins_length(&mine, cls) <= 3);
    pass_through(&other, &mine, BYTES, 500);
    CHECK(bins_capacity(&mine, cls) == 3 && bins_length(&mine, cls) <= 3);
  }
  hak_verify_check(&mine);
  bins_budgets_add_up(&mine);
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    CHECK(mine.info[c].fixed == (hak_class_bands[c] == 5));
  }
}

static void holds_nothing(hak_heap_t *heap, uint32_t cls) {
  CHECK(bins_capacity(heap, cls) == 0 && bins_empty(heap, cls) && !heap->info[cls].current);
  CHECK(heap->info[cls].remote_count == 0);
}

static void capacity_zero_caches_nothing(void) {
  set_variable("HAKMEM_CACHE_C0=0");
  set_variable("HAKMEM_CACHE_C5=0");
  open_both();
  pass_through(&mine, &mine, BYTES, 200);
  pass_through(&other, &mine, 32, 200);
  holds_nothing(&mine, hak_class_of(BYTES));
  holds_nothing(&mine, hak_class_of(32));
  bins_return(&mine, &other);
  CHECK(hak_retain_used_slices() == 0);
  hak_verify_check(&mine);
}

static void without_caches_nothing_is_cached(void) {
  set_variable("HAKMEM_CACHE=0");
  set_variable("HAKMEM_CACHE_C5=100");
  open_both();
  CHECK(mine.budget_bytes == 0);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(mine.info[cls].fixed);
    pass_through(&mine, &mine, hak_class_sizes[cls], 20);
    holds_nothing(&mine, cls);
  }
  CHECK(hak_retain_used_slices() == 0);
}

/* The process may end in a signal handler, while a bin is about to be shortened. */
static void a_bin_may_have_more_than_its_capacity(void) {
  enum { MANY = 5000, BYTES_EACH = 16 };
  const uint32_t cls = hak_class_of(BYTES_EACH);
  set_variable("HAKMEM_CACHE_C0=20000");
  open_both();
  use_steadily(&mine, BYTES_EACH, MANY, 1);
  uint32_t length = bins_length(&mine, cls);
  CHECK(length >= MANY);
  hak_policy_set_capacity(&mine, cls, MANY / 2);
  CHECK(bins_length(&mine, cls) == length && bins_room(&mine, cls) == 0);
  hak_verify_cache(&mine, "test");
  hak_verify_check(&mine);
  bins_free(&mine, bins_alloc(&mine, BYTES_EACH)); /* fits, since the malloc made room */
  bins_free(&mine, bins_alloc(&other, BYTES_EACH));
  CHECK(bins_length(&mine, cls) <= MANY / 2);
  hak_verify_check(&mine);
}

int main(void) {
  system_set_clock_ms(1000000); /* no bin becomes idle on a slow machine */
  child_succeeds(limits_grow_with_use);
  child_succeeds(growth_ends_at_the_option);
  child_succeeds(growth_ends_at_the_budget);
  child_succeeds(caches_do_not_feed_each_other);
  child_succeeds(limits_shrink_where_nothing_is_allocated);
  child_succeeds(a_fixed_capacity_stays);
  child_succeeds(capacity_zero_caches_nothing);
  child_succeeds(without_caches_nothing_is_cached);
  child_succeeds(a_bin_may_have_more_than_its_capacity);
  return 0;
}
