/* The release policy: the allowance, what goes first, learning from regret, and decay. The clock stands still. */
#include <string.h>

#include "arena.h"
#include "check.h"
#include "child.h"
#include "os.h"
#include "setting.h"
#include "system.h"
#include "window.h"

enum { SLOT = HAK_SLOT_UNITS, DECAY_MS = 1000 };

typedef struct Policy {
  size_t warm_units, retain_units, percent, learned_units;
} Policy;

static void set_policy(Policy policy) {
  system_set_clock_ms(DECAY_MS - 1); /* counted from 0: the first epoch has not ended */
  set_number("WARM_POOL_SIZE", policy.warm_units);
  set_number("RETAIN", (uint64_t)policy.retain_units << HAK_UNIT_SHIFT);
  set_number("RETAIN_PERCENT", policy.percent);
  set_number("RETAIN_LEARNED", (uint64_t)policy.learned_units << HAK_UNIT_SHIFT);
  set_number("DECAY_MS", DECAY_MS);
}

static size_t take(size_t units) {
  bool zeroed;
  size_t first = hak_arena_take(units, 1, &zeroed);
  CHECK(first != HAK_ARENA_NONE);
  memset(hak_window_address(first), 1, units << HAK_UNIT_SHIFT);
  return first;
}

static size_t dirty_units(void) {
  hak_arena_check();
  return hak_arena_totals().dirty_units;
}

static bool is_zeroed_at(size_t expected_first) {
  bool zeroed;
  CHECK(hak_arena_take(1, 1, &zeroed) == expected_first);
  return zeroed;
}

static void the_allowance_is_the_largest(void) {
  set_policy((Policy){.warm_units = 7});
  CHECK(hak_arena_totals().allowance_units == 7);
  set_policy((Policy){.warm_units = 7, .retain_units = 9});
  CHECK(hak_arena_totals().allowance_units == 9);
  set_policy((Policy){.warm_units = 7, .retain_units = 3, .percent = 50});
  CHECK(hak_arena_totals().allowance_units == 7);
  take(2 * SLOT);
  CHECK(hak_arena_totals().allowance_units == SLOT);
  set_policy((Policy){0});
  CHECK(hak_arena_totals().allowance_units == 0);
}

static void beyond_the_allowance_half_of_it_stays(void) {
  set_policy((Policy){.retain_units = 8});
  CHECK(take(2 * SLOT) == 0);
  hak_arena_give(0, 4);
  hak_arena_give(SLOT, 4);
  CHECK(dirty_units() == 8);
  hak_arena_give(SLOT + 4, 1);
  CHECK(dirty_units() == 4);
  for (size_t i = 0; i < 4; i++) {
    CHECK(!is_zeroed_at(i)); /* the highest addresses went */
  }
  CHECK(is_zeroed_at(SLOT));
}

static void with_no_allowance_all_goes(void) {
  set_policy((Policy){0});
  CHECK(take(SLOT) == 0);
  hak_arena_give(3, 1);
  CHECK(dirty_units() == 0);
  hak_arena_give(0, 3);
  hak_arena_give(4, SLOT - 4);
  CHECK(dirty_units() == 0 && hak_arena_totals().used_units == 0);
  CHECK(take(SLOT) == 0);
}

static void purging_keeps_what_it_is_told(void) {
  set_policy((Policy){.retain_units = 1000});
  CHECK(take(4 * SLOT) == 0);
  hak_arena_give(0, 4 * SLOT);
  CHECK(!hak_arena_purge(4 * SLOT) && dirty_units() == 4 * SLOT);
  CHECK(hak_arena_purge(2 * SLOT) && dirty_units() == 2 * SLOT);
  CHECK(!hak_arena_purge(2 * SLOT));
  CHECK(hak_window.slots[0].state == HAK_SLOT_MAPPED && hak_window.slots[3].state == HAK_SLOT_UNMAPPED);
  CHECK(hak_arena_purge(0) && dirty_units() == 0 && !hak_arena_purge(0));
  CHECK(hak_arena_totals().mapped_slots == 0);
}

/* Runs of dirty units inside a slot go with one call each. */
static void holes_are_given_back_one_by_one(void) {
  hak_os_counts_t before, after;
  set_policy((Policy){.retain_units = 1000});
  CHECK(take(SLOT) == 0);
  hak_arena_give(1, 2);
  hak_arena_give(5, 1);
  hak_arena_give(SLOT - 3, 3);
  hak_os_read_counts(&before);
  CHECK(hak_arena_purge(0) && dirty_units() == 0);
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 3 && after.munmap == before.munmap);
  CHECK(is_zeroed_at(1) && is_zeroed_at(2) && is_zeroed_at(5));
  for (size_t unit = 6; unit < SLOT - 3; unit++) {
    CHECK(hak_window_address(unit)[0] == 1);
  }
}

static uint64_t give_back_calls(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.madvise + counts.munmap;
}

static void give_and_take(size_t first, size_t units) {
  hak_arena_give(first, units);
  CHECK(take(units) == first);
}

/* What is given back and soon taken again teaches to keep more, up to an end. */
static void regret_raises_the_allowance(void) {
  enum { UNITS = 20, MOST = 24 };
  set_policy((Policy){.retain_units = 4, .learned_units = MOST});
  size_t first = take(UNITS), allowance = 4;
  CHECK(hak_arena_totals().allowance_units == allowance);
  for (int round = 0; round < 10; round++) {
    give_and_take(first, UNITS);
    size_t now = hak_arena_totals().allowance_units;
    CHECK(now >= allowance && now <= MOST);
    allowance = now;
  }
  CHECK(allowance >= UNITS);
  uint64_t calls = give_back_calls();
  for (int round = 0; round < 10; round++) {
    give_and_take(first, UNITS);
  }
  CHECK(give_back_calls() == calls);
  hak_arena_check();
}

static void regret_ends_at_the_limit_for_it(void) {
  set_policy((Policy){.retain_units = 4});
  size_t first = take(20);
  for (int round = 0; round < 10; round++) {
    give_and_take(first, 20);
  }
  CHECK(hak_arena_totals().allowance_units == 4);
}

static void no_more_is_learned_than_was_ever_used(void) {
  enum { UNITS = 20 };
  set_policy((Policy){.retain_units = 4, .learned_units = 100000});
  size_t first = take(UNITS);
  for (int round = 0; round < 20; round++) {
    give_and_take(first, UNITS);
  }
  CHECK(hak_arena_totals().allowance_units == UNITS);
}

/* A small part of what was given back, taken again, is no regret. */
static void little_regret_changes_nothing(void) {
  set_policy((Policy){.retain_units = 4, .learned_units = 100});
  size_t first = take(20);
  hak_arena_give(first, 20);
  CHECK(take(2) == first);
  CHECK(hak_arena_totals().allowance_units == 4);
}

static void what_was_learned_is_forgotten(void) {
  set_policy((Policy){.warm_units = 2, .retain_units = 4, .learned_units = 64});
  CHECK(take(1) == 0);
  size_t first = take(40);
  for (int round = 0; round < 10; round++) {
    give_and_take(first, 40);
  }
  size_t allowance = hak_arena_totals().allowance_units;
  CHECK(allowance > 4);
  for (int epoch = 0; epoch < 10; epoch++) {
    system_advance_clock_ms(DECAY_MS);
    hak_arena_give(first + 39, 1);
    size_t now = hak_arena_totals().allowance_units;
    CHECK(now == (allowance / 2 > 4 ? allowance / 2 : 4));
    allowance = now;
    CHECK(take(1) == first + 39);
  }
  CHECK(allowance == 4);
}

static void idle_units_decay(void) {
  set_policy((Policy){.retain_units = 1000});
  CHECK(take(20) == 0);
  system_advance_clock_ms(1);
  hak_arena_give(0, 10); /* an epoch begins: these are watched */
  CHECK(dirty_units() == 10);
  system_advance_clock_ms(DECAY_MS - 1);
  hak_arena_give(10, 1);
  CHECK(dirty_units() == 11);
  system_advance_clock_ms(1);
  hak_arena_give(11, 1);
  CHECK(dirty_units() == 2);
  system_advance_clock_ms(DECAY_MS);
  hak_arena_give(12, 1);
  CHECK(dirty_units() == 1);
}

static void units_in_use_do_not_decay(void) {
  set_policy((Policy){.retain_units = 1000});
  CHECK(take(20) == 0);
  system_advance_clock_ms(1);
  hak_arena_give(0, 10);
  CHECK(!is_zeroed_at(0)); /* used again within the epoch */
  hak_arena_give(0, 1);
  system_advance_clock_ms(DECAY_MS);
  hak_arena_give(19, 1);
  CHECK(dirty_units() == 2);
  CHECK(!is_zeroed_at(0));
}

static void the_warm_pool_does_not_decay(void) {
  set_policy((Policy){.warm_units = 10, .retain_units = 1000});
  CHECK(take(20) == 0);
  for (size_t i = 0; i < 10; i++) {
    system_advance_clock_ms(DECAY_MS);
    hak_arena_give(i, 1);
    CHECK(dirty_units() == i + 1);
  }
  system_advance_clock_ms(DECAY_MS);
  hak_arena_give(10, 1);
  CHECK(dirty_units() <= 10);
}

static void a_slot_decays_as_a_whole(void) {
  set_policy((Policy){.retain_units = 1000});
  CHECK(take(2 * SLOT) == 0);
  system_advance_clock_ms(1);
  hak_arena_give(SLOT, SLOT);
  system_advance_clock_ms(DECAY_MS);
  hak_arena_give(0, 1);
  CHECK(dirty_units() == 1);
  CHECK(hak_window.slots[1].state == HAK_SLOT_UNMAPPED);
  CHECK(hak_arena_totals().mapped_slots == 1);
  CHECK(take(SLOT) == SLOT);
}

/* Threads that give nothing back to the arena still see to the decay. */
static void decay_needs_no_give(void) {
  set_policy((Policy){.retain_units = 1000});
  CHECK(take(20) == 0);
  hak_arena_give(0, 10);
  uint64_t now_ms = DECAY_MS;
  hak_arena_decay(now_ms);
  hak_arena_decay(now_ms + DECAY_MS - 1);
  CHECK(dirty_units() == 10);
  hak_arena_decay(now_ms + DECAY_MS);
  CHECK(dirty_units() == 0);
}

static void without_decay_time_every_event_counts(void) {
  set_policy((Policy){.retain_units = 1000});
  set_number("DECAY_MS", 0);
  CHECK(take(20) == 0);
  hak_arena_give(0, 10);
  CHECK(dirty_units() == 10);
  hak_arena_give(10, 1);
  CHECK(dirty_units() == 1);
}

int main(void) {
  child_succeeds(the_allowance_is_the_largest);
  child_succeeds(beyond_the_allowance_half_of_it_stays);
  child_succeeds(with_no_allowance_all_goes);
  child_succeeds(purging_keeps_what_it_is_told);
  child_succeeds(holes_are_given_back_one_by_one);
  child_succeeds(regret_raises_the_allowance);
  child_succeeds(regret_ends_at_the_limit_for_it);
  child_succeeds(no_more_is_learned_than_was_ever_used);
  child_succeeds(little_regret_changes_nothing);
  child_succeeds(what_was_learned_is_forgotten);
  child_succeeds(idle_units_decay);
  child_succeeds(units_in_use_do_not_decay);
  child_succeeds(the_warm_pool_does_not_decay);
  child_succeeds(a_slot_decays_as_a_whole);
  child_succeeds(decay_needs_no_give);
  child_succeeds(without_decay_time_every_event_counts);
  return 0;
}
