/* Somebody else's mappings inside the window are never touched, handed out or taken for ours. */
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "check.h"
#include "child.h"
#include "large.h"
#include "pattern.h"
#include "window.h"

enum { SLOT = HAK_SLOT_UNITS, MAPPINGS_MAX = 4 };

static struct {
  char *at;
  size_t bytes;
} theirs[MAPPINGS_MAX];
static size_t mappings;

static char *map_theirs(size_t unit, size_t bytes) {
  char *at = hak_window_address(unit);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == at);
  pattern_fill(at, bytes, unit);
  theirs[mappings].at = at;
  theirs[mappings++].bytes = bytes;
  return at;
}

static void theirs_are_unharmed(void) {
  for (size_t i = 0; i < mappings; i++) {
    CHECK(pattern_holds(theirs[i].at, theirs[i].bytes, theirs[i].bytes, hak_unit_of(theirs[i].at)));
  }
  hak_arena_check();
}

static size_t take(size_t units) {
  bool zeroed;
  size_t first = hak_arena_take(units, 1, &zeroed);
  CHECK(first != HAK_ARENA_NONE);
  memset(hak_window_address(first), 1, units << HAK_UNIT_SHIFT);
  return first;
}

static void the_first_slot_is_theirs(void) {
  CHECK(hak_window_create());
  map_theirs(0, HAK_SLOT_BYTES);
  CHECK(take(1) == SLOT);
  CHECK(hak_arena_is_free(0) && hak_arena_is_free(SLOT - 1));
  CHECK(hak_class_at(theirs[0].at) == HAK_CLASS_NONE);
  CHECK(hak_arena_totals().mapped_slots == 1 && hak_arena_totals().slots_used == 2);
  theirs_are_unharmed();
}

static void units_are_found_around_them(void) {
  CHECK(hak_window_create());
  map_theirs(SLOT + 3, HAK_UNIT_BYTES);
  for (size_t i = 0; i < SLOT; i++) {
    CHECK(take(1) == i);
  }
  CHECK(take(1) == 2 * (size_t)SLOT);
  CHECK(hak_arena_is_free(SLOT + 3) && hak_arena_is_free(SLOT));
  CHECK(hak_window.slots[1].state == HAK_SLOT_FOREIGN);
  theirs_are_unharmed();
}

static void long_runs_are_found_around_them(void) {
  CHECK(hak_window_create());
  map_theirs(2 * SLOT, HAK_UNIT_BYTES);
  map_theirs(5 * SLOT + 31, HAK_UNIT_BYTES);
  CHECK(take(3 * SLOT) == 6 * (size_t)SLOT);
  CHECK(take(2 * SLOT) == 0);
  CHECK(take(SLOT + 5) == 3 * (size_t)SLOT);
  CHECK(take(SLOT) == 9 * (size_t)SLOT);
  theirs_are_unharmed();
}

static void a_run_does_not_grow_into_them(void) {
  CHECK(hak_window_create());
  map_theirs(2 * SLOT, HAK_SLOT_BYTES);
  CHECK(take(SLOT) == 0);
  CHECK(!hak_arena_extend(0, SLOT, SLOT + 1));
  CHECK(!hak_arena_extend(0, SLOT, SLOT + 1));
  CHECK(hak_arena_extend(0, SLOT, SLOT));
  CHECK(!hak_arena_extend(0, 2 * SLOT, 1));
  theirs_are_unharmed();
}

static void nothing_of_theirs_is_given_back(void) {
  CHECK(hak_window_create());
  map_theirs(SLOT, HAK_SLOT_BYTES);
  CHECK(take(SLOT) == 0);
  CHECK(take(SLOT) == 2 * (size_t)SLOT);
  hak_arena_give(0, SLOT);
  hak_arena_give(2 * (size_t)SLOT, SLOT);
  (void)hak_arena_purge(0);
  CHECK(hak_arena_totals().dirty_units == 0);
  theirs_are_unharmed();
  CHECK(take(2 * SLOT) == 2 * (size_t)SLOT);
  theirs_are_unharmed();
}

/* A slot that was ours, and went to somebody else while it was unmapped. */
static void an_unmapped_slot_may_be_lost(void) {
  CHECK(take(2 * SLOT) == 0);
  hak_arena_give(SLOT, SLOT);
  (void)hak_arena_purge(0);
  CHECK(hak_window.slots[1].state == HAK_SLOT_UNMAPPED);
  map_theirs(SLOT + 7, HAK_UNIT_BYTES);
  CHECK(!hak_arena_extend(0, SLOT, 1));
  CHECK(take(1) == 2 * (size_t)SLOT);
  theirs_are_unharmed();
}

static void *address;

static void free_theirs(void) {
  hak_large_diagnose("free", address);
}

static void a_pointer_to_theirs_is_invalid(void) {
  CHECK(hak_window_create());
  address = map_theirs(0, HAK_SLOT_BYTES);
  child_is_stopped(free_theirs, "free", "invalid pointer", address);
  CHECK(take(1) == SLOT);
  child_is_stopped(free_theirs, "free", "invalid pointer", address);
  address = (char *)address + HAK_UNIT_BYTES;
  child_is_stopped(free_theirs, "free", "invalid pointer", address);
}

int main(void) {
  child_succeeds(the_first_slot_is_theirs);
  child_succeeds(units_are_found_around_them);
  child_succeeds(long_runs_are_found_around_them);
  child_succeeds(a_run_does_not_grow_into_them);
  child_succeeds(nothing_of_theirs_is_given_back);
  child_succeeds(an_unmapped_slot_may_be_lost);
  child_succeeds(a_pointer_to_theirs_is_invalid);
  return 0;
}
