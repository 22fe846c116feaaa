/* Gates TINY_C3..C6_INLINE_SLOTS: the array in front of a list. Every test goes over all classes that have one. */
#include "slots.h"

#include <string.h>

#include "arena.h"
#include "child.h"
#include "hakmem.h"
#include "lists.h"
#include "setting.h"
#include "system.h"

enum { BLOCKS = 3000, SOME = HAK_SLOTS_MAX + 5 };

static const char twice[] = "double free";
static hak_heap_t mine, other;
static void *blocks[BLOCKS];
static uint32_t cls;
static hak_slots_t *slots;

static void open_both(void) {
  lists_open(&mine, 1);
  lists_open(&other, 2);
}

static void alloc_many(size_t count) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = lists_alloc(&mine, hak_class_sizes[cls]);
    memset(blocks[i], 'x', hak_class_sizes[cls]);
  }
}

static void free_many(size_t count) {
  for (size_t i = 0; i < count; i++) {
    lists_free(&mine, blocks[i]);
    hak_cache_check(&mine);
  }
}

/* Blocks of nobody lie in front of the test's own. */
static void start(uint32_t with_class) {
  cls = with_class;
  slots = hak_slots_of(&mine, cls);
  open_both();
  alloc_many(SOME);
  while (mine.bin[cls].head || hak_slots_newest(slots)) {
    (void)lists_alloc(&mine, hak_class_sizes[cls]);
  }
}

static void for_each_class(void (*test)(void)) {
  uint32_t classes = 0;
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    if (hak_slots_serve(c)) {
      start(c);
      test();
      hak_cache_flush(&mine, "test");
      hak_cache_flush(&other, "test");
      hak_cache_check(&mine);
      classes++;
    }
  }
  CHECK(classes > 0 && classes % HAK_SLOTS_CLASS_STEP == 0 && classes <= HAK_SLOTS_ARRAYS);
}

static void gates_say_which_classes(void) {
  for (uint32_t c = 0; c < HAK_BIN_COUNT; c++) {
    bool wanted = (HAK_SLOTS_BANDS >> hak_class_bands[c] & 1) != 0;
    CHECK(hak_slots_serve(c) == (wanted && c != HAK_CLASS_NONE && c != HAK_CLASS_LARGE));
  }
}

static void the_newest_comes_first(void) {
  int32_t room = hak_bin_room(&mine.bin[cls]);
  free_many(HAK_SLOTS_MAX);
  CHECK(hak_slots_held(slots) == HAK_SLOTS_MAX && !mine.bin[cls].head && hak_bin_room(&mine.bin[cls]) == room);
  for (size_t i = HAK_SLOTS_MAX; i-- > 0;) {
    CHECK(lists_newest(&mine, cls) == blocks[i]);
    CHECK(lists_alloc(&mine, hak_class_sizes[cls]) == blocks[i]);
    hak_cache_check(&mine);
  }
  CHECK(hak_slots_held(slots) == 0);
}

static void the_list_takes_what_does_not_fit(void) {
  free_many(HAK_SLOTS_MAX + 1);
  CHECK(hak_slots_held(slots) == HAK_SLOTS_MAX && mine.bin[cls].head == blocks[HAK_SLOTS_MAX]);
  CHECK(lists_blocks(&mine, cls) == HAK_SLOTS_MAX + 1);
  for (size_t i = HAK_SLOTS_MAX; i-- > 0;) {
    CHECK(lists_alloc(&mine, hak_class_sizes[cls]) == blocks[i]);
  }
  CHECK(lists_alloc(&mine, hak_class_sizes[cls]) == blocks[HAK_SLOTS_MAX]);
  CHECK(lists_blocks(&mine, cls) == 0);
}

static void a_flush_empties_it(void) {
  free_many(SOME);
  hak_cache_flush(&mine, "test");
  CHECK(hak_slots_held(slots) == 0 && lists_blocks(&mine, cls) == 0);
  hak_slab_check();
  alloc_many(SOME);
  free_many(SOME);
}

static void a_thread_that_only_frees_keeps_no_more(void) {
  alloc_many(BLOCKS);
  free_many(BLOCKS);
  CHECK(mine.shelf[cls].streak > 0 && lists_blocks(&mine, cls) <= lists_limit(&mine, cls) + HAK_SLOTS_MAX);
  for (uint32_t i = hak_slots_held(slots); i > 0; i--) {
    CHECK(slots->block[i] != blocks[i - 1]); /* what was in it at first went back */
  }
}

static void an_orphan_returns_what_it_can(void) {
  free_many(HAK_SLOTS_MAX);
  ((hak_free_block_t *)blocks[1])->tag = 0;
  ((hak_free_block_t *)blocks[3])->tag = (uintptr_t)blocks[3];
  hak_slab_totals_t totals[HAK_BIN_COUNT];
  hak_slab_totals(totals);
  size_t before = totals[cls].free_blocks;
  hak_cache_close_orphan(&mine);
  hak_slab_totals(totals);
  CHECK(totals[cls].free_blocks == before + HAK_SLOTS_MAX - 2 && hak_slots_held(slots) == 0);
  hak_slab_check();
  hak_cache_open(&mine);
}

static void at_once(void) {
  lists_free(&mine, blocks[0]);
  lists_free(&mine, blocks[0]);
}

static void alloc_all(void) {
  for (size_t i = 0; i < SOME; i++) {
    (void)lists_alloc(&mine, hak_class_sizes[cls]);
  }
}

static void with_another_between(void) {
  free_many(2);
  lists_free(&mine, blocks[0]);
  alloc_all();
}

/* The array is full when the copy comes, which goes to the list. */
static void once_more_in_the_list(void) {
  free_many(HAK_SLOTS_MAX + 1);
  lists_free(&mine, blocks[0]);
  alloc_all();
}

/* The list has the block, then the array gets room, and the block. */
static void once_more_in_the_array(void) {
  free_many(HAK_SLOTS_MAX + 1);
  (void)lists_alloc(&mine, hak_class_sizes[cls]);
  lists_free(&mine, blocks[HAK_SLOTS_MAX]);
  alloc_all();
}

static void noticed_by_a_flush(void) {
  free_many(2);
  lists_free(&mine, blocks[0]);
  hak_cache_flush(&mine, "free");
}

static void noticed_at_exit(void) {
  free_many(2);
  lists_free(&mine, blocks[0]);
  hak_cache_verify(&mine, "free");
}

static void noticed_in_the_list_at_exit(void) {
  free_many(HAK_SLOTS_MAX + 1);
  (void)lists_alloc(&mine, hak_class_sizes[cls]);
  lists_free(&mine, blocks[HAK_SLOTS_MAX]);
  hak_cache_verify(&mine, "free");
}

static void by_two_threads(void) {
  lists_free(&other, blocks[0]);
  lists_free(&mine, blocks[0]);
  hak_cache_flush(&mine, "free");
  hak_cache_flush(&other, "free");
}

static void realloc_of_a_free_block(void) {
  free_many(2);
  (void)hak_realloc(blocks[0], 1);
}

static void a_tag_overwritten(void) {
  free_many(2);
  memset(blocks[1], 'y', 16);
  alloc_all();
}

static void every_second_free_is_noticed(void) {
  child_is_stopped(at_once, "free", twice, blocks[0]);
  child_is_stopped(with_another_between, "malloc", twice, blocks[0]);
  child_is_stopped(once_more_in_the_list, "malloc", twice, blocks[0]);
  child_is_stopped(once_more_in_the_array, "malloc", twice, blocks[HAK_SLOTS_MAX]);
  child_is_stopped(noticed_by_a_flush, "free", twice, blocks[0]);
  child_is_stopped(noticed_at_exit, "free", twice, blocks[0]);
  child_is_stopped(noticed_in_the_list_at_exit, "free", twice, blocks[HAK_SLOTS_MAX]);
  child_is_stopped(by_two_threads, "free", twice, blocks[0]);
  child_is_stopped(realloc_of_a_free_block, "realloc", twice, blocks[0]);
  child_is_stopped(a_tag_overwritten, "malloc", "double free or corrupted free block", blocks[1]);
}

static void looking_changes_nothing(void) {
  free_many(SOME);
  hak_cache_verify(&mine, "test");
  hak_cache_check(&mine);
  for (size_t i = 0; i < HAK_SLOTS_MAX; i++) {
    CHECK(hak_cache_holds(&mine, cls, blocks[i]));
  }
  CHECK(!hak_cache_holds(&other, cls, blocks[0]));
}

static void check_over_damage(void) {
  free_many(3);
  ((hak_free_block_t *)blocks[1])->tag++;
  hak_cache_check(&mine);
}

static void damage_breaks_an_invariant(void) {
  child_breaks_invariant(check_over_damage);
}

/* Where an option says how many blocks a thread may have, nothing is added to them. */
static void a_fixed_capacity_closes_it(void) {
  for (int band = 3; band <= 6; band++) {
    char setting[64];
    snprintf(setting, sizeof setting, "HAKMEM_TINY_UNIFIED_C%d=3", band);
    set_variable(setting);
    open_both();
    for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
      if (hak_class_bands[c] == band && hak_slots_serve(c)) {
        cls = c;
        alloc_many(SOME);
        free_many(SOME);
        CHECK(lists_blocks(&mine, c) <= 3 && hak_slots_held(hak_slots_of(&mine, c)) == 0);
      }
    }
    hak_cache_flush(&mine, "test");
  }
}

static void an_idle_array_is_returned(void) {
  system_set_clock_ms(1000000);
  set_variable("HAKMEM_TINY_UNIFIED_C7=0");
  start(HAK_SLOTS_FIRST);
  free_many(HAK_SLOTS_MAX);
  for (int hour = 0; hour < 3; hour++) {
    system_advance_clock_ms(3600000);
    for (int i = 0; i < 1000; i++) {
      lists_free(&mine, lists_alloc(&mine, 4096));
    }
  }
  CHECK(hak_slots_held(slots) == 0);
}

int main(void) {
  gates_say_which_classes();
  child_succeeds(a_fixed_capacity_closes_it);
  child_succeeds(an_idle_array_is_returned);
  for_each_class(the_newest_comes_first);
  for_each_class(the_list_takes_what_does_not_fit);
  for_each_class(a_flush_empties_it);
  for_each_class(a_thread_that_only_frees_keeps_no_more);
  for_each_class(an_orphan_returns_what_it_can);
  for_each_class(looking_changes_nothing);
  for_each_class(every_second_free_is_noticed);
  for_each_class(damage_breaks_an_invariant);
  return 0;
}
