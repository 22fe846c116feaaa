/* Runs in a thread's lists: kept once the thread has taken again what it returned, handed out without the arena, given
 * back when there are too many. */
#include <string.h>

#include "arena.h"
#include "cache.h"
#include "child.h"
#include "hakmem.h"
#include "lists.h"
#include "pagemap.h"
#include "run.h"
#include "setting.h"
#include "system.h"

enum { BYTES = 100000, BLOCKS = 200 };

static hak_heap_t mine, other;
static char *blocks[BLOCKS];

static void open_both(void) {
  lists_open(&mine, 1);
  lists_open(&other, 2);
}

static void alloc_many(hak_heap_t *heap, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = lists_alloc(heap, bytes);
    memset(blocks[i], 'x', bytes);
  }
}

static void free_many(hak_heap_t *heap, size_t count) {
  for (size_t i = 0; i < count; i++) {
    lists_free(heap, blocks[i]);
  }
}

static size_t slices_of(uint32_t cls) {
  return hak_class_sizes[cls] >> HAK_SLICE_SHIFT;
}

/* The first time round the block goes back to the arena; the second, it stays. */
static void a_run_that_is_wanted_again_stays(void) {
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    size_t bytes = hak_class_sizes[cls];
    open_both();
    void *large = lists_alloc(&other, 8 << 20); /* so that there is some to share */
    lists_free(&mine, lists_alloc(&mine, bytes));
    CHECK(mine.bin[cls].head == HAK_LIST_END && hak_run_out(cls) == 0);
    void *block = lists_alloc(&mine, bytes);
    CHECK(hak_class_at(block) == cls && hak_run_out(cls) == 1);
    lists_free(&mine, block);
    CHECK(mine.bin[cls].head == block && hak_class_at(block) == cls);
    size_t used = hak_arena_used_slices();
    for (int i = 0; i < 100; i++) {
      CHECK(lists_alloc(&mine, bytes - (size_t)i) == block);
      CHECK(hak_arena_used_slices() == used && hak_run_out(cls) == 1);
      lists_free(&mine, block);
    }
    hak_cache_check(&mine);
    lists_free(&other, large);
    lists_return(&mine, &other);
    CHECK(mine.bin[cls].head == HAK_LIST_END && hak_run_out(cls) == 0 && hak_class_at(block) == HAK_CLASS_NONE);
    CHECK(hak_arena_used_slices() == 0);
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
    hak_cache_check(&mine);
  }
  CHECK(lists_capacity(&mine, cls) >= 8);
  size_t kept = (size_t)lists_length(&mine, cls);
  CHECK(kept >= 4 && kept <= (size_t)lists_capacity(&mine, cls));
  CHECK(hak_arena_used_slices() == kept * slices_of(cls));
}

/* A thread that only frees gives them back: they are large, and nobody else finds them in its list. */
static void what_others_made_goes_back(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  alloc_many(&other, BYTES, BLOCKS);
  free_many(&mine, BLOCKS);
  hak_cache_check(&mine);
  CHECK(lists_length(&mine, cls) == 0 && hak_run_out(cls) == 0 && hak_arena_used_slices() == 0);
  CHECK(!mine.info[cls].closed && mine.info[cls].outgoing_count == 0);
}

static void no_more_is_kept_than_the_option_says(void) {
  set_variable("HAKMEM_CACHE_CLASS_MAX=256K");
  open_both();
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    for (int round = 0; round < 10; round++) {
      alloc_many(&mine, hak_class_sizes[cls], 10);
      free_many(&mine, 10);
      CHECK((size_t)lists_length(&mine, cls) * hak_class_sizes[cls] <= 256 << 10);
    }
  }
  hak_cache_check(&mine);
}

static void without_caches_nothing_is_kept(void) {
  set_variable("HAKMEM_TINY_UNIFIED_CACHE=0");
  open_both();
  for (int round = 0; round < 10; round++) {
    alloc_many(&mine, BYTES, 10);
    free_many(&mine, 10);
    CHECK(hak_arena_used_slices() == 0);
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
  CHECK(lists_length(&mine, hak_class_of(BYTES)) == 1);
}

static void an_orphan_returns_its_runs(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  for (int round = 0; round < 30; round++) {
    alloc_many(&mine, BYTES, 10);
    free_many(&mine, 10);
  }
  int32_t kept = lists_length(&mine, cls);
  CHECK(kept >= 3);
  mine.bin[cls].head->link->tag = 0; /* it stopped in the middle of something */
  hak_cache_close_orphan(&mine);
  CHECK(mine.bin[cls].head == HAK_LIST_END && hak_run_out(cls) == (size_t)kept - 1);
  hak_arena_check();
}

static void set_up_damage(void) {
  open_both();
  for (int round = 0; round < 30; round++) {
    alloc_many(&mine, BYTES, 8);
    free_many(&mine, 8);
  }
  hak_free_block_t *block = mine.bin[hak_class_of(BYTES)].head;
  for (size_t i = 0; i < 3; i++, block = block->link) {
    CHECK(block != NULL);
    blocks[i] = (char *)block;
  }
}

static void alloc_over_damage(void) {
  memset(blocks[0], 'x', sizeof(hak_free_block_t));
  (void)lists_alloc(&mine, BYTES);
}

static void flush_over_damage(void) {
  memset(blocks[1], 'x', sizeof(hak_free_block_t));
  hak_cache_flush(&mine, "some_function");
}

static void free_twice(void) {
  lists_free(&mine, blocks[0]);
}

/* The list is full: the block leaves it, with others, to make room for itself. */
static void free_a_second_time(void) {
  lists_free(&mine, blocks[1]);
}

static void free_inside(void) {
  lists_free(&mine, blocks[0] + HAK_SLICE_BYTES / 2);
}

static void free_at_a_slice(void) {
  lists_free(&mine, blocks[0] + HAK_SLICE_BYTES);
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
  child_is_stopped(flush_over_damage, "some_function", corrupted, blocks[1]);
  child_is_stopped(free_twice, "free", twice, blocks[0]);
  child_is_stopped(free_a_second_time, "free", twice, blocks[1]);
  child_is_stopped(free_inside, "free", inside, blocks[0] + HAK_SLICE_BYTES / 2);
  child_is_stopped(free_at_a_slice, "free", inside, blocks[0] + HAK_SLICE_BYTES);
  bool zeroed;
  void *next = hak_run_take(hak_class_of(BYTES), HAK_BLOCK_MIN, &zeroed);
  hak_run_give(next, hak_class_of(BYTES), "test");
  child_is_stopped(give_twice, "some_function", twice, next);
}

int main(void) {
  system_set_clock_ms(1000000); /* no list becomes idle on a slow machine */
  child_succeeds(a_run_that_is_wanted_again_stays);
  child_succeeds(capacity_follows_use);
  child_succeeds(what_others_made_goes_back);
  child_succeeds(no_more_is_kept_than_the_option_says);
  child_succeeds(without_caches_nothing_is_kept);
  child_succeeds(calloc_clears_what_was_used);
  child_succeeds(an_orphan_returns_its_runs);
  set_up_damage();
  damage_is_noticed();
  return 0;
}
