/* Runs of units: where they lie, whether they are zeroed, and that they do not overlap. */
#include "arena.h"

#include <string.h>

#include "check.h"
#include "child.h"
#include "os.h"
#include "pattern.h"
#include "setting.h"
#include "system.h"
#include "window.h"

enum { SLOT = HAK_SLOT_UNITS };

static size_t take(size_t units) {
  bool zeroed;
  size_t first = hak_arena_take(units, 1, &zeroed);
  CHECK(first != HAK_ARENA_NONE && first + units <= hak_window.units);
  CHECK(!zeroed || all_zero(hak_window_address(first), units << HAK_UNIT_SHIFT));
  memset(hak_window_address(first), 1, units << HAK_UNIT_SHIFT);
  return first;
}

static bool is_zeroed_at(size_t expected_first) {
  bool zeroed;
  CHECK(hak_arena_take(1, 1, &zeroed) == expected_first);
  return zeroed;
}

static void lowest_comes_first(void) {
  for (size_t i = 0; i < SLOT + 3; i++) {
    CHECK(take(1) == i);
  }
  hak_arena_give(9, 1);
  hak_arena_give(4, 3);
  CHECK(take(3) == 4);
  CHECK(take(2) == SLOT + 3);
  CHECK(take(1) == 9);
  hak_arena_check();
  CHECK(hak_arena_used_units() == SLOT + 5);
}

/* A unit that was used is resident: it goes before all that would become resident. */
static void dirty_units_are_used_again(void) {
  retain_everything();
  for (size_t i = 0; i < 10; i++) {
    take(1);
  }
  hak_arena_give(2, 1);
  CHECK(hak_arena_purge(0));
  hak_arena_give(7, 1);
  CHECK(hak_arena_totals().dirty_units == 1);
  CHECK(!is_zeroed_at(7));
  CHECK(hak_arena_totals().dirty_units == 0);
  CHECK(is_zeroed_at(2));
  CHECK(is_zeroed_at(10));
  hak_arena_check();
}

static void a_run_tells_whether_it_is_zeroed(void) {
  bool zeroed;
  retain_everything();
  CHECK(take(4) == 0);
  hak_arena_give(3, 1);
  CHECK(hak_arena_take(2, 1, &zeroed) == 3 && !zeroed);
  CHECK(hak_arena_take(2, 1, &zeroed) == 5 && zeroed);
}

static void runs_are_aligned(void) {
  bool zeroed;
  CHECK(take(1) == 0);
  for (size_t align = 2; align <= 8 * SLOT; align *= 2) {
    for (size_t units = 1; units <= 2 * SLOT; units = units * 2 + 1) {
      size_t first = hak_arena_take(units, align, &zeroed);
      CHECK(first != HAK_ARENA_NONE && zeroed);
      CHECK(((uintptr_t)hak_window_address(first) >> HAK_UNIT_SHIFT) % align == 0);
      memset(hak_window_address(first), 1, units << HAK_UNIT_SHIFT);
    }
  }
  hak_arena_check();
}

static void long_runs_begin_a_slot(void) {
  retain_everything();
  CHECK(take(1) == 0);
  CHECK(take(SLOT) == SLOT);
  CHECK(take(SLOT + 1) == 2 * (size_t)SLOT);
  CHECK(take(3 * SLOT) == 4 * (size_t)SLOT);
  CHECK(take(SLOT - 1) == 1); /* what is left of the slots serves shorter runs */
  CHECK(take(SLOT - 1) == 3 * (size_t)SLOT + 1);
  hak_arena_give(4 * (size_t)SLOT, 3 * SLOT);
  hak_arena_check();
  CHECK(take(2 * SLOT) == 4 * (size_t)SLOT);
  CHECK(take(SLOT) == 6 * (size_t)SLOT);
  hak_arena_check();
}

static void part_of_a_run_can_be_given(void) {
  retain_everything();
  CHECK(take(3 * SLOT) == 0);
  hak_arena_give(SLOT - 1, SLOT + 2);
  hak_arena_check();
  CHECK(hak_arena_used_units() == 2 * SLOT - 2);
  CHECK(take(SLOT) == SLOT && take(1) == SLOT - 1 && take(1) == 2 * SLOT);
}

static void a_run_grows_where_units_are_free(void) {
  CHECK(take(4) == 0 && take(1) == 4);
  CHECK(!hak_arena_extend(0, 4, 1));
  hak_arena_give(4, 1);
  CHECK(hak_arena_extend(0, 4, 1));
  CHECK(hak_arena_extend(0, 5, SLOT - 5));
  CHECK(hak_arena_totals().mapped_slots == 1);
  CHECK(hak_arena_extend(0, SLOT, 2 * SLOT + 1)); /* into slots that are mapped for it */
  CHECK(hak_arena_totals().mapped_slots == 4);
  CHECK(hak_arena_used_units() == 3 * SLOT + 1);
  CHECK(take(1) == 3 * (size_t)SLOT + 1);
  CHECK(!hak_arena_extend(0, 3 * SLOT + 1, 1));
  CHECK(!hak_arena_extend(0, 3 * SLOT + 1, SLOT));
  CHECK(!hak_arena_extend(0, 3 * SLOT + 1, hak_window.units));
  hak_arena_check();
}

static void free_units_are_known(void) {
  CHECK(take(2) == 0);
  CHECK(!hak_arena_is_free(0) && !hak_arena_is_free(1) && hak_arena_is_free(2));
  CHECK(hak_arena_is_free(SLOT) && hak_arena_is_free(hak_window.units - 1));
  hak_arena_give(0, 1);
  CHECK(hak_arena_is_free(0));
}

static void totals_add_up(void) {
  retain_everything();
  CHECK(take(2 * SLOT + 5) == 0);
  hak_arena_give(2 * (size_t)SLOT, 5);
  hak_arena_totals_t totals = hak_arena_totals();
  CHECK(totals.used_units == 2 * SLOT && totals.dirty_units == 5);
  CHECK(totals.mapped_slots == 3 && totals.slots_used == 3 && totals.slots_mapped == 3 && totals.slots_unmapped == 0);
  CHECK(hak_arena_purge(0));
  totals = hak_arena_totals();
  CHECK(totals.dirty_units == 0 && totals.mapped_slots == 2 && totals.slots_used == 3);
  CHECK(totals.slots_mapped == 3 && totals.slots_unmapped == 1);
  CHECK(take(SLOT) == 2 * (size_t)SLOT);
  totals = hak_arena_totals();
  CHECK(totals.slots_mapped == 4 && totals.mapped_slots == 3);
  hak_arena_check();
}

static void more_than_the_window_is_not_to_be_had(void) {
  bool zeroed;
  CHECK(take(1) == 0);
  CHECK(hak_arena_take(hak_window.units + 1, 1, &zeroed) == HAK_ARENA_NONE);
  CHECK(hak_arena_take(hak_window.units, 1, &zeroed) == HAK_ARENA_NONE);
  CHECK(hak_arena_take(1, hak_window.units * 16, &zeroed) == HAK_ARENA_NONE ||
        hak_arena_used_units() == 2); /* the window may happen to hold one such address */
  CHECK(hak_arena_take(SIZE_MAX >> HAK_UNIT_SHIFT, 1, &zeroed) == HAK_ARENA_NONE);
  hak_arena_check();
}

static void dense_heaps_ask_for_huge_pages(void) {
  hak_os_counts_t before, after;
  set_variable("HAKMEM_HUGE_PAGES=dense");
  hak_options.huge_pages_from_units = SLOT;
  CHECK(take(SLOT) == 0);
  hak_os_read_counts(&before);
  CHECK(take(1) == SLOT);
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 1);
  CHECK(hak_options_set("HUGE_PAGES", "off") == 0);
  CHECK(take(SLOT) == 2 * (size_t)SLOT);
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 1);
}

static void unlock_in_child(void) {
  hak_arena_fork_unlock(true);
  CHECK(take(1) == 1);
  hak_arena_check();
}

static void it_survives_a_fork(void) {
  CHECK(take(1) == 0);
  hak_arena_fork_lock();
  child_succeeds(unlock_in_child);
  hak_arena_fork_unlock(false);
  CHECK(take(1) == 1);
}

int main(void) {
  child_succeeds(lowest_comes_first);
  child_succeeds(dirty_units_are_used_again);
  child_succeeds(a_run_tells_whether_it_is_zeroed);
  child_succeeds(runs_are_aligned);
  child_succeeds(long_runs_begin_a_slot);
  child_succeeds(part_of_a_run_can_be_given);
  child_succeeds(a_run_grows_where_units_are_free);
  child_succeeds(free_units_are_known);
  child_succeeds(totals_add_up);
  child_succeeds(more_than_the_window_is_not_to_be_had);
  child_succeeds(dense_heaps_ask_for_huge_pages);
  child_succeeds(it_survives_a_fork);
  return 0;
}
