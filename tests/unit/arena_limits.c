/* The arena without memory, under a limit, and with a damaged count. */
#include <string.h>

#include "arena.h"
#include "arena_internal.h"
#include "check.h"
#include "child.h"
#include "os.h"
#include "setting.h"
#include "system.h"
#include "window.h"

enum { SLOT = HAK_SLOT_UNITS };

static size_t take(size_t units) {
  bool zeroed;
  size_t first = hak_arena_take(units, 1, &zeroed);
  if (first != HAK_ARENA_NONE) {
    memset(hak_window_address(first), 1, units << HAK_UNIT_SHIFT);
  }
  return first;
}

static void limit_units(size_t units) {
  set_number("MEMORY_LIMIT", (uint64_t)units << HAK_UNIT_SHIFT);
}

/* Every mapping call on the way to the first unit fails once; the next attempt goes on from there. */
static void the_first_unit_can_be_tried_again(void) {
  uint32_t failures = 0;
  for (bool done = false; !done; failures += !done) {
    CHECK(failures < 20);
    system_refuse(SYSTEM_MMAP, failures, 1);
    done = take(1) == 0;
    CHECK(done || hak_arena_used_units() == 0);
  }
  CHECK(failures > 0);
  system_allow();
  CHECK(take(1) == 1);
  hak_arena_check();
}

static void without_memory_there_are_no_units(void) {
  CHECK(take(SLOT - 1) == 0);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  CHECK(take(2) == HAK_ARENA_NONE && take(SLOT) == HAK_ARENA_NONE && take(3 * SLOT) == HAK_ARENA_NONE);
  CHECK(!hak_arena_extend(0, SLOT - 1, 2));
  CHECK(take(1) == SLOT - 1); /* is mapped */
  CHECK(take(1) == HAK_ARENA_NONE);
  system_allow();
  CHECK(take(1) == SLOT);
  hak_arena_check();
  CHECK(hak_arena_totals().used_units == SLOT + 1);
}

/* Free slots that are kept may stand in the way of a mapping: they are given back and it is tried again. */
static void what_is_kept_is_given_for_what_is_asked(void) {
  retain_everything();
  CHECK(take(SLOT) == 0);
  hak_arena_give(0, SLOT);
  CHECK(hak_arena_totals().dirty_units == SLOT);
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(take(2 * SLOT) == 0);
  CHECK(hak_arena_totals().slots_unmapped == 1);
  hak_arena_check();
}

static void mapped_in_part_stays_usable(void) {
  bool zeroed;
  CHECK(take(2 * SLOT) == 0);
  hak_arena_give(0, 2 * SLOT);
  (void)hak_arena_purge(0);
  CHECK(take(1) == 0);
  hak_arena_give(0, 1);
  hak_arena_check();
  system_refuse(SYSTEM_MPROTECT, 0, SYSTEM_ALL);
  CHECK(hak_arena_take(hak_window.units / 2, 1, &zeroed) == HAK_ARENA_NONE);
  system_allow();
  hak_arena_check();
  CHECK(take(SLOT) == 0);
}

static void a_limit_is_kept(void) {
  retain_everything();
  limit_units(10);
  CHECK(take(11) == HAK_ARENA_NONE && take(SLOT * 2) == HAK_ARENA_NONE);
  CHECK(take(8) == 0 && take(3) == HAK_ARENA_NONE && take(2) == 8 && take(1) == HAK_ARENA_NONE);
  CHECK(!hak_arena_extend(8, 2, 1));
  hak_arena_give(0, 8);
  CHECK(hak_arena_extend(8, 2, 3) && !hak_arena_extend(8, 5, 6));
  CHECK(hak_arena_extend(8, 5, 5));
  hak_arena_check();
  limit_units(0);
  CHECK(take(2 * SLOT) != HAK_ARENA_NONE);
}

/* Free units that stay resident count, and go when they stand in the way. */
static void what_is_kept_counts_against_the_limit(void) {
  retain_everything();
  limit_units(12);
  CHECK(take(12) == 0);
  hak_arena_give(2, 10);
  CHECK(hak_arena_totals().dirty_units == 10);
  CHECK(take(10) == 2); /* the same units: nothing would have to go, but a run does not know before */
  CHECK(hak_arena_totals().used_units == 12);
  hak_arena_give(2, 10);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  hak_arena_totals_t totals = hak_arena_totals();
  if (totals.dirty_units == 10) {
    CHECK(take(5) == HAK_ARENA_NONE);
    CHECK(!hak_arena_extend(0, 2, 5));
  }
  system_allow();
  CHECK(take(5) == 2);
  totals = hak_arena_totals();
  CHECK(totals.used_units + totals.dirty_units <= 12);
  hak_arena_check();
}

static void a_slot_that_cannot_be_unmapped_is_emptied(void) {
  hak_os_counts_t before, after;
  retain_everything();
  CHECK(take(2 * SLOT) == 0);
  hak_arena_give(0, 2 * SLOT);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  hak_os_read_counts(&before);
  CHECK(hak_arena_purge(0));
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 2);
  CHECK(hak_arena_totals().dirty_units == 0 && hak_arena_totals().mapped_slots == 2);
  hak_arena_check();
}

static void what_cannot_be_given_back_stays(void) {
  retain_everything();
  CHECK(take(SLOT) == 0);
  hak_arena_give(4, SLOT - 4);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  CHECK(!hak_arena_purge(0));
  CHECK(hak_arena_totals().dirty_units == SLOT - 4);
  system_refuse(SYSTEM_MADVISE, 0, 1);
  hak_arena_give(1, 1);
  CHECK(hak_arena_purge(0)); /* of two runs, the second */
  CHECK(hak_arena_totals().dirty_units == 1);
  hak_arena_check();
}

static void damage_used_count(void) {
  CHECK(take(1) == 0);
  hak_arena.used_units++;
  hak_arena_check();
}

static void damage_dirty_count(void) {
  CHECK(take(1) == 0);
  hak_arena.dirty_units++;
  hak_arena_check();
}

static void damage_slot_count(void) {
  CHECK(take(1) == 0);
  hak_arena.mapped_slots++;
  hak_arena_check();
}

static void damage_class_map(void) {
  CHECK(take(1) == 0);
  hak_window.classes[5] = 1; /* of a free unit */
  hak_arena_check();
}

static void damage_mask(void) {
  CHECK(take(1) == 0);
  hak_window.slots[0].aged = 2; /* but not dirty */
  hak_arena_check();
}

int main(void) {
  child_succeeds(the_first_unit_can_be_tried_again);
  child_succeeds(without_memory_there_are_no_units);
  child_succeeds(what_is_kept_is_given_for_what_is_asked);
  child_succeeds(mapped_in_part_stays_usable);
  child_succeeds(a_limit_is_kept);
  child_succeeds(what_is_kept_counts_against_the_limit);
  child_succeeds(a_slot_that_cannot_be_unmapped_is_emptied);
  child_succeeds(what_cannot_be_given_back_stays);
  child_breaks_invariant(damage_used_count);
  child_breaks_invariant(damage_dirty_count);
  child_breaks_invariant(damage_slot_count);
  child_breaks_invariant(damage_class_map);
  child_breaks_invariant(damage_mask);
  return 0;
}
