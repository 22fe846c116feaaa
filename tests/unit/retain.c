/* The rules of retention, one by one: keep as much as recent demand has drawn, give back the rest. */
#include "child.h"
#include "retention.h"

/* After the first fall, nothing shows that the memory will be needed again. */
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
    hak_huge_chunks_give(block[i]);
  }
  CHECK(dirty_slices() == 3 * CHUNK && purged() == 0);
  hak_huge_chunks_give(block[3]);
  CHECK(dirty_slices() <= 3 * CHUNK && purged() > 0);
}

static void a_large_fall_leaves_just_what_may_stay(void) {
  set_policy((Policy){.retain = 10 * CHUNK, .most = NO_MOST});
  hak_huge_chunks_give(chunks_reserve(20, 0));
  CHECK(dirty_slices() == 10 * CHUNK);
}

/* A pause without any call counts as half a window at most, however long: the memory of a sleeping program is not
 * idle. */
static void a_pause_is_half_a_window_at_most(void) {
  set_policy(law);
  draw_twice(10);
  pass_windows(1);
  (void)hak_purge_window_ended();
  size_t gone = purged();
  pass_ms((uint64_t)1000 * WINDOW_MS);
  CHECK(!hak_purge_window_ended() && purged() == gone && dirty_slices() > 8 * CHUNK);
  pass_ms(WINDOW_MS / 2 - 1);
  CHECK(!hak_purge_window_ended());
  pass_ms(1);
  CHECK(hak_purge_window_ended() && !hak_purge_window_ended());
}

/* The clock value of one thread may be older than that of another. */
static void time_does_not_run_backwards(void) {
  set_policy(law);
  hak_purge_tick(now_ms + WINDOW_MS / 2);
  hak_purge_tick(0);
  hak_purge_tick(now_ms + WINDOW_MS / 2);
  CHECK(!hak_purge_window_ended());
  hak_purge_tick(now_ms + WINDOW_MS - 1);
  CHECK(!hak_purge_window_ended());
  hak_purge_tick(now_ms + WINDOW_MS);
  CHECK(hak_purge_window_ended());
}

/* Windows end for any length, even an odd one, or 0. */
static void every_window_ends(void) {
  static const uint64_t lengths[] = {0, 1, 2, 3, 50, 3600000};
  set_policy(law);
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    set_number("DECAY_MS", lengths[i]);
    for (size_t tick = 0; tick < 3; tick++) {
      pass_ms(lengths[i]);
    }
    CHECK(hak_purge_window_ended());
  }
}

/* Use and free memory together stay below 1.5 times the peak use of the last two windows. */
static void what_stays_is_bound_by_the_recent_peak(void) {
  enum { BLOCKS = 64, SLICES = CHUNK - 1 };
  char *block[BLOCKS];
  set_policy(law);
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      block[i] = slices_reserve(CHUNK);
    }
    for (size_t i = 0; i < BLOCKS; i++) { /* one slice stays free in each chunk, since no block fits into it */
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
    peak = hak_retain_used_slices() > peak ? hak_retain_used_slices() : peak;
    for (size_t visit = 0; visit < 2; visit++) {
      pass_ms(1);
    }
    CHECK(hak_retain_used_slices() + dirty_slices() <= peak + peak / 2 || dirty_slices() <= LITTLE);
  }
  CHECK(purged() > 0);
}

/* The peak is taken over two windows: this one and the one before, no earlier ones. */
static void a_peak_counts_for_two_windows(void) {
  set_policy((Policy){.most = NO_MOST});
  char *base = chunks_reserve(10, 0);
  CHECK(!hak_retain_has_fallen());
  CHECK(hak_huge_chunks_shrink(base, 5, 0) && !hak_retain_has_fallen());
  CHECK(hak_huge_chunks_shrink(base, 4, 0) && hak_retain_has_fallen());
  pass_windows(1);
  CHECK(hak_retain_has_fallen());
  pass_windows(1);
  CHECK(!hak_retain_has_fallen());
}

/* The allowance never exceeds what the peak permits, so it need not be reduced later when the peak falls. */
static void what_is_learned_is_bound_by_the_peak(void) {
  set_policy((Policy){.most = NO_MOST});
  char *low = chunks_reserve(8, 0);
  for (size_t round = 0; round < 20; round++) {
    char *next = chunks_reserve(2, 0);
    (void)hak_purge_all(0);
    hak_huge_chunks_give(next);
    CHECK(hak_arena.retention.balance <= (int64_t)(10 * CHUNK + 10 * CHUNK / 2));
    set_number("RETAIN_MAX", 0); /* so that the memory is purged, and fetched again */
    hak_purge_step();
    pass_ms(1);
    set_number("RETAIN_MAX", INT64_MAX);
  }
  CHECK(hak_arena.retention.balance == (int64_t)(10 * CHUNK + 10 * CHUNK / 2));
  hak_huge_chunks_give(low);
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

/* A surplus is purged in steps of 4 MiB, so that no call takes long. A part of the allowed memory is purged with it, so
 * that purges are rare. */
static void a_surplus_goes_in_steps(void) {
  set_policy((Policy){.retain = 100000, .most = NO_MOST});
  char *other = slices_take(CHUNK);
  hak_huge_chunks_give(chunks_reserve(40, 0));
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
  hak_purge_step();
  CHECK(give_back_calls() == calls);
}

int main(void) {
  child_succeeds(the_first_fall_goes_at_once);
  child_succeeds(up_to_retain_all_of_it_stays);
  child_succeeds(a_large_fall_leaves_just_what_may_stay);
  child_succeeds(a_pause_is_half_a_window_at_most);
  child_succeeds(time_does_not_run_backwards);
  child_succeeds(every_window_ends);
  child_succeeds(what_stays_is_bound_by_the_recent_peak);
  child_succeeds(a_peak_counts_for_two_windows);
  child_succeeds(what_is_learned_is_bound_by_the_peak);
  child_succeeds(retain_max_is_a_ceiling);
  child_succeeds(the_warm_pool_stays);
  child_succeeds(a_surplus_goes_in_steps);
  return 0;
}
