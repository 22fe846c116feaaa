/* How long the lists of a thread may get: what the options fix, and what adapts; and damage that lists notice. */
#include <string.h>

#include "arena.h"
#include "cache.h"
#include "child.h"
#include "options.h"
#include "setting.h"
#include "system.h"
#include "two_lists.h"

enum { BYTES = 1024, BLOCKS = 6000 };

static size_t peak_bytes;

static void pass_through(hak_heap_t *from, hak_heap_t *to, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = lists_alloc(from, bytes);
  }
  size_t used_bytes = hak_arena_used_slices() << HAK_SLICE_SHIFT;
  peak_bytes = peak_bytes > used_bytes ? peak_bytes : used_bytes;
  for (size_t i = 0; i < count; i++) {
    lists_free(to, blocks[i]);
  }
}

/* The same demand again and again. */
static void use_steadily(hak_heap_t *heap, size_t bytes, size_t count, int rounds) {
  while (rounds-- > 0) {
    pass_through(heap, heap, bytes, count);
    hak_cache_check(heap);
  }
}

static uint64_t refills_of(hak_heap_t *heap, size_t bytes) {
  return heap->info[hak_class_of(bytes)].asked_count;
}

/* A demand that does not fit at first is served from the list later. */
static void limits_grow_with_use(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  lists_budgets_add_up(&mine);
  int32_t start = lists_capacity(&mine, cls);
  size_t demand = 6 * (size_t)start;
  use_steadily(&mine, BYTES, demand, 1);
  uint64_t at_first = refills_of(&mine, BYTES);
  use_steadily(&mine, BYTES, demand, 20);
  uint64_t before = refills_of(&mine, BYTES);
  use_steadily(&mine, BYTES, demand, 1);
  CHECK(refills_of(&mine, BYTES) - before < at_first);
  int32_t limit = lists_capacity(&mine, cls);
  CHECK(limit > start && limit <= hak_option(HAK_OPTION_CACHE_BYTES) / BYTES);
  CHECK(lists_length(&mine, cls) <= limit);
  CHECK(lists_capacity(&mine, hak_class_of(2 * BYTES)) == lists_capacity(&other, hak_class_of(2 * BYTES)));
  lists_budgets_add_up(&mine);
}

static void growth_ends_at_the_option(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_CLASS_MAX=20K");
  open_both();
  for (size_t demand = 1; demand < 200; demand += 7) {
    use_steadily(&mine, BYTES, demand, 5);
    CHECK(lists_capacity(&mine, cls) <= 20);
  }
  lists_budgets_add_up(&mine);
}

/* All adaptive classes of a thread together stay within what the process has in use, or a least budget; the large ones
 * within the same once more, or what the arena would retain, but for one block each. */
static void growth_ends_at_the_budget(void) {
  open_both();
  size_t start_bytes = mine.budget_bytes, least_bytes = 1 << 20, first_blocks = 0;
  size_t retained = (size_t)hak_option(HAK_OPTION_RETAIN);
  for (uint32_t cls = 5; cls < HAK_CLASS_COUNT; cls++) {
    size_t demand = ((size_t)2 << 20) / hak_class_sizes[cls];
    use_steadily(&mine, hak_class_sizes[cls], demand < BLOCKS ? demand : BLOCKS, 4);
    CHECK(mine.budget_bytes <= (peak_bytes > least_bytes ? peak_bytes : least_bytes));
    first_blocks += hak_class_sizes[cls] > 4096 ? hak_class_sizes[cls] : 0;
    size_t part = peak_bytes;
    CHECK(mine.large_budget_bytes <= (part > retained ? part : retained) + first_blocks);
  }
  lists_budgets_add_up(&mine);
  CHECK(mine.budget_bytes > start_bytes && mine.large_budget_bytes > 0);
}

/* A thread that only frees has no use for what it caches. */
static void limits_shrink_where_nothing_is_allocated(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  size_t demand = 6 * (size_t)lists_capacity(&mine, cls);
  use_steadily(&mine, BYTES, demand, 10);
  int32_t grown = lists_capacity(&mine, cls);
  pass_through(&other, &mine, BYTES, BLOCKS);
  hak_cache_check(&mine);
  lists_budgets_add_up(&mine);
  int32_t least = lists_capacity(&mine, cls);
  CHECK(least < grown && least >= 1);
  CHECK(lists_length(&mine, cls) <= least && !mine.info[cls].current);
  use_steadily(&mine, BYTES, demand, 10);
  CHECK(lists_capacity(&mine, cls) > least); /* and it can change its mind */
}

static void a_fixed_capacity_stays(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_TINY_UNIFIED_C5=3");
  open_both();
  CHECK(lists_capacity(&mine, cls) == 3 && !mine.info[cls].adaptive);
  for (int round = 0; round < 10; round++) {
    pass_through(&mine, &mine, BYTES, 500);
    CHECK(lists_length(&mine, cls) <= 3);
    pass_through(&other, &mine, BYTES, 500);
    CHECK(lists_capacity(&mine, cls) == 3 && lists_length(&mine, cls) <= 3);
  }
  hak_cache_check(&mine);
  lists_budgets_add_up(&mine);
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    CHECK(mine.info[c].adaptive == (hak_class_bands[c] != 5));
  }
}

static void holds_nothing(hak_heap_t *heap, uint32_t cls) {
  CHECK(lists_capacity(heap, cls) == 0 && heap->bin[cls].head == HAK_LIST_END && !heap->info[cls].current);
  CHECK(heap->info[cls].outgoing_count == 0);
}

static void capacity_zero_caches_nothing(void) {
  set_variable("HAKMEM_TINY_UNIFIED_C0=0");
  set_variable("HAKMEM_TINY_UNIFIED_C5=0");
  open_both();
  pass_through(&mine, &mine, BYTES, 200);
  pass_through(&other, &mine, 32, 200);
  holds_nothing(&mine, hak_class_of(BYTES));
  holds_nothing(&mine, hak_class_of(32));
  lists_return(&mine, &other);
  CHECK(hak_arena_used_slices() == 0);
  hak_cache_check(&mine);
}

static void without_caches_nothing_is_cached(void) {
  set_variable("HAKMEM_TINY_UNIFIED_CACHE=0");
  set_variable("HAKMEM_TINY_UNIFIED_C5=100");
  open_both();
  CHECK(mine.budget_bytes == 0);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(!mine.info[cls].adaptive);
    pass_through(&mine, &mine, hak_class_sizes[cls], 20);
    holds_nothing(&mine, cls);
  }
  CHECK(hak_arena_used_slices() == 0);
}

/* The end of the process may come in a signal handler, when a list is about to be shortened. */
static void a_list_may_be_longer_than_its_capacity(void) {
  enum { MANY = 18000, BYTES_EACH = 16 };
  static void *many[MANY];
  const uint32_t cls = hak_class_of(BYTES_EACH);
  set_variable("HAKMEM_TINY_UNIFIED_C0=20000");
  open_both();
  for (size_t i = 0; i < MANY; i++) {
    many[i] = lists_alloc(&mine, BYTES_EACH);
  }
  for (size_t i = 0; i < MANY; i++) {
    lists_free(&mine, many[i]);
  }
  CHECK(lists_length(&mine, cls) > MANY / 2 + HAK_BLOCKS_MAX);
  atomic_store(&mine.info[cls].capacity, MANY / 2);
  hak_cache_verify(&mine, "test");
}

static hak_bin_t *bin;

static void set_up_damage(void) {
  set_variable("HAKMEM_TINY_UNIFIED_C5=8");
  open_both();
  bin = &mine.bin[hak_class_of(BYTES)];
  for (size_t i = 0; i < 20; i++) {
    blocks[i] = lists_alloc(&mine, BYTES);
  }
  lists_drain(&mine, hak_class_of(BYTES));
  for (size_t i = 0; i < 8; i++) {
    lists_free(&mine, blocks[i]);
  }
  CHECK(lists_length(&mine, hak_class_of(BYTES)) == 8 && hak_bin_room(bin) == 0);
}

/* blocks[7] is the newest, and an overflow returns 7 .. 4. */
static void overflow_over_damaged_newest(void) {
  memset(blocks[7], 'x', sizeof(hak_free_block_t));
  lists_free(&mine, blocks[8]);
}

static void overflow_over_damaged_last_returned(void) {
  memset(blocks[4], 'x', sizeof(hak_free_block_t));
  lists_free(&mine, blocks[8]);
}

static void free_again_what_leaves(void) {
  lists_free(&mine, blocks[5]);
}

static void free_again_what_stays_first(void) {
  lists_free(&mine, blocks[3]);
}

static void verify_what_was_freed_again(void) {
  hak_bin_set_room(bin, 1);
  lists_free(&mine, blocks[5]);
  hak_cache_verify(&mine, "some_function");
}

static void flush_over_damage(void) {
  memset(blocks[3], 'x', sizeof(hak_free_block_t));
  hak_cache_flush(&mine, "some_function");
}

static void alloc_over_damage(void) {
  memset(blocks[7], 'x', sizeof(hak_free_block_t));
  (void)lists_alloc(&mine, BYTES);
}

static void check_over_wrong_room(void) {
  hak_bin_set_room(bin, 1);
  hak_cache_check(&mine);
}

static void check_over_damage(void) {
  ((hak_free_block_t *)blocks[2])->tag++;
  hak_cache_check(&mine);
}

static void damage_is_noticed(void) {
  static const char corrupted[] = "double free or corrupted free block";
  child_is_stopped(overflow_over_damaged_newest, "free", corrupted, blocks[7]);
  child_is_stopped(overflow_over_damaged_last_returned, "free", corrupted, blocks[4]);
  child_is_stopped(free_again_what_leaves, "free", "double free", blocks[5]);
  child_is_stopped(free_again_what_stays_first, "free", "double free", blocks[3]);
  child_is_stopped(verify_what_was_freed_again, "some_function", "double free", blocks[5]);
  child_is_stopped(flush_over_damage, "some_function", corrupted, blocks[3]);
  child_is_stopped(alloc_over_damage, "malloc", corrupted, blocks[7]);
  child_breaks_invariant(check_over_wrong_room);
  child_breaks_invariant(check_over_damage);
}

int main(void) {
  system_set_clock_ms(1000000); /* no list becomes idle on a slow machine */
  child_succeeds(limits_grow_with_use);
  child_succeeds(growth_ends_at_the_option);
  child_succeeds(growth_ends_at_the_budget);
  child_succeeds(limits_shrink_where_nothing_is_allocated);
  child_succeeds(a_fixed_capacity_stays);
  child_succeeds(capacity_zero_caches_nothing);
  child_succeeds(without_caches_nothing_is_cached);
  child_succeeds(a_list_may_be_longer_than_its_capacity);
  set_up_damage();
  damage_is_noticed();
  return 0;
}
