/* The law of retention, rule by rule: keep what recent demand has drawn, give back the rest. */
#include "child.h"
#include "retention.h"
#include "system.h"

/* Nothing says that it will be wanted again. */
static void the_first_fall_goes_at_once(void) {
  char *block[40];
  set_policy(law);
  for (size_t i = 0; i < 40; i++) {
    block[i] = chunks_reserve(1 + i % 3, 5);
  }
  for (size_t i = 0; i < 40; i++) {
    chunks_give(block[i], 5);
    CHECK(dirty_slices() <= LITTLE);
  }
  slices_add_up();
}

static void up_to_retain_all_of_it_stays(void) {
  set_policy((Policy){.retain = 3 * CHUNK, .most = NO_MOST});
  char *block[4] = {chunks_reserve(1, 0), chunks_reserve(1, 0), chunks_reserve(1, 0), chunks_reserve(1, 0)};
  for (size_t i = 0; i < 3; i++) {
    hak_arena_give_chunks(block[i]);
  }
  CHECK(dirty_slices() == 3 * CHUNK && purged() == 0);
  hak_arena_give_chunks(block[3]);
  CHECK(dirty_slices() <= 3 * CHUNK && purged() > 0);
}

static void a_large_fall_leaves_just_what_may_stay(void) {
  set_policy((Policy){.retain = 10 * CHUNK, .most = NO_MOST});
  hak_arena_give_chunks(chunks_reserve(20, 0));
  CHECK(dirty_slices() == 10 * CHUNK);
}

/* A purge that demand regrets in this window or the next adds as much to what may stay. */
static void what_is_fetched_again_soon_stays_from_then_on(void) {
  set_policy(law);
  char *base = slices_take(CHUNK);
  hak_arena_give(base, 80);
  size_t gone = purged();
  CHECK(gone >= 80 - LITTLE && target() == LITTLE);
  CHECK(slices_take(80) == base && drawn() == (int64_t)gone);
  hak_arena_give(base, 80);
  CHECK(dirty_slices() == 80 && purged() == gone);
  slices_add_up();
}

/* Of what is fetched, no more counts than was purged; and nothing twice. */
static void only_purged_memory_is_regretted(size_t windows) {
  set_policy(law);
  char *rest = chunks_reserve(4, 0), *more = chunks_reserve(9, 0);
  hak_arena_give_chunks(rest);
  size_t gone = purged();
  CHECK(gone > 0 && gone <= 4 * CHUNK);
  pass_windows(windows);
  chunks_reserve(4, 0);
  CHECK(drawn() == (int64_t)gone);
  chunks_reserve(4, 0);
  CHECK(drawn() == (int64_t)gone);
  hak_arena_give_chunks(more);
}

static void in_the_same_window(void) {
  only_purged_memory_is_regretted(0);
}

static void in_the_next_window(void) {
  only_purged_memory_is_regretted(1);
}

/* Kept, it would not have served: no row was as long. So blocks that shrink, one after the other, teach nothing. */
static void a_row_too_short_is_not_regretted(void) {
  char *block[20];
  set_policy(law);
  hak_arena_give_chunks(chunks_reserve(9, 0));
  pass_windows(3);
  for (size_t i = 0; i < 20; i++) {
    block[i] = chunks_reserve(5, 0);
    CHECK(hak_arena_shrink_chunks(block[i], 3, 0));
    CHECK(dirty_slices() <= LITTLE && drawn() == 0);
  }
  chunks_reserve(2, 0);
  CHECK(drawn() > 0);
}

/* Purged in a window: whoever fetches it in the one after the next has no regret. */
static void a_regret_comes_within_two_windows(void) {
  set_policy(law);
  hak_arena_give_chunks(chunks_reserve(4, 0));
  pass_windows(1);
  hak_arena_give_chunks(chunks_reserve(4, 0));
  CHECK(dirty_slices() == 4 * CHUNK);
}

static void a_later_one_is_none(void) {
  set_policy(law);
  hak_arena_give_chunks(chunks_reserve(4, 0));
  pass_windows(2);
  hak_arena_give_chunks(chunks_reserve(4, 0));
  CHECK(dirty_slices() <= LITTLE);
}

/* Also where demand drew on what was purged before it. */
static void a_regret_does_not_prolong_later_ones(void) {
  set_policy(law);
  draw_twice(4);
  pass_windows(3);
  CHECK(dirty_slices() < 4 * CHUNK);
  pass_windows(3);
  int64_t before = drawn();
  chunks_reserve(4, 0);
  CHECK(drawn() == before);
}

/* The older regret is spent first, so that the younger one lasts. */
static void old_regrets_are_spent_first(void) {
  set_policy(law);
  char *older = chunks_reserve(10, 0), *younger = chunks_reserve(8, 0);
  hak_arena_give_chunks(older);
  pass_windows(1);
  hak_arena_give_chunks(younger);
  size_t young = hak_arena.retention.ghosts[0];
  CHECK(young >= 8 * CHUNK - LITTLE);
  chunks_reserve(8, 0);
  CHECK(hak_arena.retention.ghosts[0] == young);
  pass_windows(1);
  int64_t before = drawn();
  chunks_reserve(8, 0);
  CHECK(drawn() > before);
}

/* A rise that takes long, where the machine is slow, say: as long as each window fetches some of it, all of it counts.
 */
static void a_slow_rise_is_regretted_to_its_end(void) {
  char *block[40];
  set_policy(law);
  hak_arena_give_chunks(chunks_reserve(40, 0));
  for (size_t i = 0; i < 40; i++) {
    block[i] = chunks_reserve(1, 0);
    pass_ms(WINDOW_MS / 4);
  }
  for (size_t i = 0; i < 40; i++) {
    hak_arena_give_chunks(block[i]);
  }
  CHECK(dirty_slices() > 38 * CHUNK);
}

/* A pause without any call is half a window at most, however long: a sleeper's memory is not idle. */
static void a_pause_is_half_a_window_at_most(void) {
  set_policy(law);
  draw_twice(10);
  pass_windows(1);
  (void)hak_arena_window_ended();
  size_t gone = purged();
  pass_ms((uint64_t)1000 * WINDOW_MS);
  CHECK(!hak_arena_window_ended() && purged() == gone && dirty_slices() > 8 * CHUNK);
  pass_ms(WINDOW_MS / 2 - 1);
  CHECK(!hak_arena_window_ended());
  pass_ms(1);
  CHECK(hak_arena_window_ended() && !hak_arena_window_ended());
}

/* The clock of one thread is behind that of another. */
static void time_does_not_run_backwards(void) {
  set_policy(law);
  hak_arena_tick(now_ms + WINDOW_MS / 2);
  hak_arena_tick(0);
  hak_arena_tick(now_ms + WINDOW_MS / 2);
  CHECK(!hak_arena_window_ended());
  hak_arena_tick(now_ms + WINDOW_MS - 1);
  CHECK(!hak_arena_window_ended());
  hak_arena_tick(now_ms + WINDOW_MS);
  CHECK(hak_arena_window_ended());
}

/* Of any length, also of an odd one, and of none. */
static void every_window_ends(void) {
  static const uint64_t lengths[] = {0, 1, 2, 3, 50, 3600000};
  set_policy(law);
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    set_number("DECAY_MS", lengths[i]);
    for (size_t tick = 0; tick < 3; tick++) {
      pass_ms(lengths[i]);
    }
    CHECK(hak_arena_window_ended());
  }
}

/* In use and free: together half as much again as the most that was in use in the last two windows. */
static void what_stays_is_bound_by_the_recent_peak(void) {
  enum { BLOCKS = 64, SLICES = CHUNK - 1 };
  char *block[BLOCKS];
  set_policy(law);
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      block[i] = slices_reserve(CHUNK);
    }
    for (size_t i = 0; i < BLOCKS; i++) { /* one slice stays in each chunk: nothing else fits in */
      hak_arena_give(block[i], SLICES);
    }
    for (size_t i = 0; round < 2 && i < BLOCKS; i++) {
      hak_arena_give(slice_of(block[i], SLICES), 1);
    }
  }
  size_t peak = (size_t)BLOCKS * CHUNK;
  CHECK(dirty_slices() == (size_t)BLOCKS * SLICES);
  for (size_t i = 0; i < BLOCKS + 16; i++) {
    slices_reserve(CHUNK);
    peak = hak_arena_used_slices() > peak ? hak_arena_used_slices() : peak;
    for (size_t visit = 0; visit < 2; visit++) {
      pass_ms(1);
    }
    CHECK(hak_arena_used_slices() + dirty_slices() <= peak + peak / 2 || dirty_slices() <= LITTLE);
  }
  CHECK(purged() > 0);
}

/* The peak is that of two windows: not of this one alone, and of none before. */
static void a_peak_counts_for_two_windows(void) {
  set_policy((Policy){.most = NO_MOST});
  char *base = chunks_reserve(10, 0);
  CHECK(!hak_arena_has_fallen());
  CHECK(hak_arena_shrink_chunks(base, 5, 0) && !hak_arena_has_fallen());
  CHECK(hak_arena_shrink_chunks(base, 4, 0) && hak_arena_has_fallen());
  pass_windows(1);
  CHECK(hak_arena_has_fallen());
  pass_windows(1);
  CHECK(!hak_arena_has_fallen());
}

/* As demand regrets more than the peak allows, it need not be taken back when the peak falls. */
static void what_is_learned_is_bound_by_the_peak(void) {
  set_policy((Policy){.most = NO_MOST});
  char *low = chunks_reserve(8, 0);
  for (size_t round = 0; round < 20; round++) {
    char *next = chunks_reserve(2, 0);
    (void)hak_arena_purge(0);
    hak_arena_give_chunks(next);
    CHECK(hak_arena.retention.balance <= (int64_t)(10 * CHUNK + 10 * CHUNK / 2));
    set_number("RETAIN_MAX", 0); /* so that it goes, and is fetched again */
    hak_arena_purge_step();
    pass_ms(1);
    set_number("RETAIN_MAX", INT64_MAX);
  }
  CHECK(hak_arena.retention.balance == (int64_t)(10 * CHUNK + 10 * CHUNK / 2));
  hak_arena_give_chunks(low);
}

static void retain_max_is_a_ceiling(void) {
  set_policy((Policy){.retain = LITTLE, .most = 7 * CHUNK});
  draw_twice(20);
  CHECK(dirty_slices() == 0 || dirty_slices() <= 7 * CHUNK);
  CHECK(target() == 7 * CHUNK);
  set_number("RETAIN", (uint64_t)9 << HAK_CHUNK_SHIFT); /* the floor is above it */
  CHECK(target() == 9 * CHUNK);
  set_number("RETAIN", 0);
  set_number("RETAIN_MAX", 0);
  pass_windows(1);
  CHECK(target() == 0 && dirty_slices() == 0);
}

static void the_warm_pool_stays(void) {
  set_policy((Policy){.warm_slabs = 5, .most = NO_MOST});
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 60);
  CHECK(dirty_slices() == (size_t)5 * SLAB && target() == (size_t)5 * SLAB);
  pass_windows(5);
  CHECK(dirty_slices() == (size_t)5 * SLAB);
}

/* What a program asks to be given back, or a limit, was no decision that could be wrong. */
static void a_trim_teaches_nothing(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  for (size_t round = 0; round < 3; round++) {
    hak_arena_give_chunks(chunks_reserve(4, 0));
    CHECK(dirty_slices() == 4 * CHUNK && hak_arena_purge(0) && target() == 4 * CHUNK);
    pass_windows(round);
    CHECK(target() == 4 * CHUNK); /* what is gone is not idle */
  }
  chunks_reserve(4, 0);
  CHECK(target() == 4 * CHUNK);
}

/* Nor where a purge has just shown that rows as long are wanted again. */
static void a_trim_after_a_purge_teaches_nothing(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  hak_arena_give_chunks(chunks_reserve(9, 0));
  size_t gone = purged();
  CHECK(gone > 0 && hak_arena_purge(0) && purged() == 9 * CHUNK);
  for (size_t i = 0; i < 9; i++) {
    chunks_reserve(1, 0);
  }
  CHECK(drawn() == (int64_t)gone);
}

static void neither_does_the_memory_limit(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  set_number("MEMORY_LIMIT", (uint64_t)8 << HAK_CHUNK_SHIFT);
  for (int round = 0; round < 3; round++) {
    hak_arena_give_chunks(chunks_reserve(4, 0));
    size_t gone = purged();
    char *large = chunks_reserve(8, 0);
    CHECK(purged() == gone + 4 * CHUNK && target() == 4 * CHUNK);
    CHECK(hak_arena_shrink_chunks(large, 4, 0));
    (void)hak_arena_purge(0);
    hak_arena_give_chunks(large);
    (void)hak_arena_purge(0);
  }
}

/* What the system would not take never went, so nobody can regret it. */
static void a_refused_purge_teaches_nothing(void) {
  set_policy(law);
  char *base = slices_take(CHUNK), *large = chunks_take(2, 0);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  hak_arena_give(base, CHUNK - 1);
  hak_arena_give_chunks(large);
  CHECK(purged() == 0 && dirty_slices() == 3 * CHUNK - 1);
  system_allow();
  for (size_t i = 0; i < 4; i++) {
    chunks_reserve(2, 0);
  }
  CHECK(target() == LITTLE);
  slices_add_up();
}

/* Every 256th huge block goes, so that pages that nobody writes to do not gather: that teaches nothing, either. */
static void a_block_that_goes_by_turns_teaches_nothing(void) {
  set_policy((Policy){.retain = CHUNK, .most = NO_MOST});
  for (size_t i = 0; i < 255; i++) {
    hak_arena_give_chunks(chunks_reserve(1, 0));
  }
  CHECK(purged() == 0 && dirty_slices() == CHUNK);
  hak_arena_give_chunks(chunks_reserve(1, 0));
  CHECK(purged() == CHUNK && dirty_slices() == 0);
  chunks_reserve(1, 0);
  CHECK(target() == CHUNK);
}

/* Resident chunks that move into a new extent are no demand, for they stay resident; what is fresh of it is. */
static void the_fresh_part_of_an_extent_is_demand(void) {
  set_policy((Policy){.retain = 3 * CHUNK, .most = NO_MOST});
  char *apart[3];
  for (size_t i = 0; i < 3; i++) {
    apart[i] = chunks_reserve(1, 0);
    chunks_reserve(1, 0); /* between them */
  }
  hak_arena_give_chunks(chunks_reserve(20, 0));
  (void)hak_arena_purge(0);
  for (size_t i = 0; i < 3; i++) {
    hak_arena_give_chunks(apart[i]);
  }
  CHECK(dirty_slices() == 3 * CHUNK && target() == 3 * CHUNK);
  size_t before = fetched() - purged();
  chunks_reserve(9, 0);
  CHECK(fetched() - purged() == before + 6 * CHUNK && dirty_slices() == 0);
  CHECK(target() == 9 * CHUNK);
  slices_add_up();
}

/* A block that the kernel makes longer could have used nothing of what was kept. */
static void a_block_that_grows_regrets_nothing(void) {
  set_policy(law);
  bool zeroed;
  char *base = hak_arena_take_chunks(9, 0, 1, true, &zeroed);
  hak_arena_give_chunks(chunks_reserve(20, 0));
  CHECK(base != NULL && hak_arena_grow_chunks(base, 15, true) != NULL && target() == LITTLE);
  slices_add_up();
}

/* Steps of 4 MiB, for nobody waits long; and half of what may stay goes with a surplus, for a purge is rare then. */
static void a_surplus_goes_in_steps(void) {
  set_policy((Policy){.retain = 100000, .most = NO_MOST});
  char *other = slices_take(CHUNK);
  hak_arena_give_chunks(chunks_reserve(40, 0));
  set_policy((Policy){.retain = 10 * CHUNK, .most = NO_MOST});
  size_t before = dirty_slices();
  for (size_t visits = 0; dirty_slices() > 10 * CHUNK; visits++) {
    CHECK(visits < 20);
    hak_arena_give(slice_of(other, visits), 1);
    CHECK(dirty_slices() < before && before - dirty_slices() <= 4 * CHUNK);
    before = dirty_slices();
  }
  CHECK(dirty_slices() >= 8 * CHUNK - 20 && dirty_slices() < 10 * CHUNK);
  uint64_t calls = give_back_calls();
  hak_arena_purge_step();
  CHECK(give_back_calls() == calls);
}

int main(void) {
  child_succeeds(the_first_fall_goes_at_once);
  child_succeeds(up_to_retain_all_of_it_stays);
  child_succeeds(a_large_fall_leaves_just_what_may_stay);
  child_succeeds(what_is_fetched_again_soon_stays_from_then_on);
  child_succeeds(in_the_same_window);
  child_succeeds(in_the_next_window);
  child_succeeds(a_row_too_short_is_not_regretted);
  child_succeeds(a_regret_comes_within_two_windows);
  child_succeeds(a_later_one_is_none);
  child_succeeds(a_regret_does_not_prolong_later_ones);
  child_succeeds(old_regrets_are_spent_first);
  child_succeeds(a_slow_rise_is_regretted_to_its_end);
  child_succeeds(a_pause_is_half_a_window_at_most);
  child_succeeds(time_does_not_run_backwards);
  child_succeeds(every_window_ends);
  child_succeeds(what_stays_is_bound_by_the_recent_peak);
  child_succeeds(a_peak_counts_for_two_windows);
  child_succeeds(what_is_learned_is_bound_by_the_peak);
  child_succeeds(retain_max_is_a_ceiling);
  child_succeeds(the_warm_pool_stays);
  child_succeeds(a_trim_teaches_nothing);
  child_succeeds(a_trim_after_a_purge_teaches_nothing);
  child_succeeds(neither_does_the_memory_limit);
  child_succeeds(a_refused_purge_teaches_nothing);
  child_succeeds(a_block_that_goes_by_turns_teaches_nothing);
  child_succeeds(the_fresh_part_of_an_extent_is_demand);
  child_succeeds(a_block_that_grows_regrets_nothing);
  child_succeeds(a_surplus_goes_in_steps);
  return 0;
}
