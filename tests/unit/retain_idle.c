/* The second rule of retention: memory that was free during a whole window was kept in vain; and so is what served the
 * refault cycles of a load that has ended. */
#include "child.h"
#include "retention.h"

/* Memory that was free during a whole window is given back within the next. */
static void what_is_idle_for_a_window_goes_in_the_next(void) {
  set_policy(law);
  draw_twice(30);
  CHECK(dirty_slices() == 30 * CHUNK);
  pass_windows(1);
  CHECK(dirty_slices() >= 28 * CHUNK); /* it was in use in this window */
  pass_windows(1);
  for (size_t visits = 0; visits < 30; visits++) {
    hak_purge_step();
  }
  CHECK(dirty_slices() == 0 && target() <= LITTLE);
  slices_add_up();
}

/* When demand comes back, the part that is still resident no longer counts as idle, and RETAIN allows it to stay. */
static void what_demand_draws_is_idle_no_more(void) {
  set_policy((Policy){.retain = 40 * CHUNK, .most = NO_MOST});
  hak_huge_chunks_give(chunks_reserve(10, 0));
  pass_windows(2);
  size_t left = dirty_slices(), gone = purged();
  CHECK(left > 0 && left % CHUNK == 0 && gone > 0);
  hak_huge_chunks_give(chunks_reserve(left / CHUNK, 0));
  hak_purge_step();
  CHECK(dirty_slices() == left && purged() == gone);
}

/* The part of the retained memory that demand did not touch is given back. */
static void the_part_that_demand_draws_stays(void) {
  set_policy(law);
  draw_twice(40);
  size_t gone = 0;
  for (size_t round = 0; round < 8; round++) {
    hak_huge_chunks_give(chunks_reserve(30, 0));
    pass_windows(1);
    gone = round == 3 ? purged() : gone;
  }
  CHECK(dirty_slices() == 30 * CHUNK && purged() == gone);
}

/* Even if more memory was idle than the allowance, the allowance does not become negative: the next regret counts in
 * full. */
static void an_allowance_does_not_sink_below_nothing(void) {
  set_policy((Policy){.retain = 60 * CHUNK, .most = NO_MOST});
  hak_huge_chunks_give(chunks_reserve(60, 0));
  set_number("RETAIN", 0);
  pass_windows(2);
  for (size_t visits = 0; visits < 40; visits++) {
    hak_purge_step();
  }
  CHECK(dirty_slices() == 0 && target() == 0);
  hak_huge_chunks_give(chunks_reserve(2, 0)); /* the last step */
  CHECK(dirty_slices() == 2 * CHUNK);
}

/* Memory kept by RETAIN must serve demand, too. The idle part is given back, and so is the next fall, at once. */
static void retain_is_idle_like_the_rest(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  hak_huge_chunks_give(chunks_reserve(2, 0));
  pass_windows(3);
  CHECK(dirty_slices() == 0 && target() == 2 * CHUNK);
  char *large = chunks_reserve(8, 0), *again = chunks_reserve(2, 0); /* fetches purged memory */
  hak_huge_chunks_give(large);
  hak_huge_chunks_give(again);
  CHECK(target() == 4 * CHUNK && dirty_slices() <= 4 * CHUNK);
}

/* While a program runs without free memory, the allowance serves nothing. What a burst frees then goes at once, even
 * if no call follows. */
static void an_allowance_that_nothing_fills_goes(void) {
  set_policy((Policy){.retain = 8 * CHUNK, .most = NO_MOST});
  char *burst = chunks_reserve(4, 0);
  chunks_reserve(30, 0);
  pass_windows(HAK_TROUGH_WINDOWS);
  CHECK(target() == 8 * CHUNK);
  pass_windows(1);
  hak_huge_chunks_give(burst);
  CHECK(dirty_slices() == 0 && target() == 0);
  slices_add_up();
}

/* A load whose use alternates between 20 and 30 chunks for `windows` windows, and then falls to nothing. */
static void cycle_and_end(size_t windows) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  char *held = chunks_reserve(20, 0);
  for (size_t round = 0; round < windows * TICKS; round++) {
    char *cycle = chunks_reserve(10, 0);
    hak_huge_chunks_give(cycle);
    pass_ms(WINDOW_MS / TICKS);
  }
  CHECK(dirty_slices() == 10 * CHUNK && target() >= 10 * CHUNK);
  hak_huge_chunks_give(held);
}

/* Demand that falls below all of its troughs has ended. Each chunk below takes two of those that the refault cycles
 * drew. */
static void what_cycles_drew_goes_with_their_load(void) {
  cycle_and_end(HAK_TROUGH_WINDOWS + 1);
  CHECK(dirty_slices() == 0 && target() == 0);
  slices_add_up();
}

/* The first windows hold the rise, which may come again. */
static void a_young_load_may_rise_again(void) {
  cycle_and_end(HAK_TROUGH_WINDOWS - 2);
  CHECK(dirty_slices() >= 10 * CHUNK);
}

/* A load that falls and goes on is no load that ended: its refault cycles fetch their memory a few times, and then keep
 * it. */
static void a_load_that_falls_keeps_its_cycles(void) {
  cycle_and_end(HAK_TROUGH_WINDOWS + 1);
  size_t before = fetched();
  for (size_t round = 0; round < 1000; round++) {
    hak_huge_chunks_give(chunks_reserve(4, 0));
  }
  CHECK(fetched() - before <= 10 * 4 * CHUNK && dirty_slices() == 4 * CHUNK);
  slices_add_up();
}

/* When demand stays low, its trough is low, too, and the allowance serves new refault cycles. */
static void a_lower_load_has_cycles_of_its_own(void) {
  cycle_and_end(HAK_TROUGH_WINDOWS + 1);
  pass_windows(1);
  CHECK(target() >= 4 * CHUNK);
}

/* Each chunk below the trough takes two. */
static void a_small_fall_takes_little(void) {
  set_policy((Policy){.retain = 8 * CHUNK, .most = NO_MOST});
  char *part = chunks_reserve(3, 0);
  chunks_reserve(20, 0);
  pass_windows(HAK_TROUGH_WINDOWS + 1);
  hak_huge_chunks_give(part);
  CHECK(target() == 2 * CHUNK && dirty_slices() == 2 * CHUNK);
}

/* Where a load has ended, as much goes as was asked for. What the user wants to keep stays, and the warm pool. */
static void an_end_of_load_has_its_price(void) {
  set_policy((Policy){.warm_slabs = CHUNK / SLAB, .retain = 8 * CHUNK, .most = NO_MOST});
  hak_huge_chunks_give(chunks_reserve(8, 0));
  hak_purge_spare(100);
  CHECK(dirty_slices() == 8 * CHUNK);
  set_number("RETAIN", 0);
  hak_purge_spare(0);
  CHECK(dirty_slices() == 8 * CHUNK);
  hak_purge_spare(3);
  CHECK(dirty_slices() == 5 * CHUNK);
  set_number("RETAIN", HAK_RETAIN_ALL);
  hak_purge_spare(100);
  CHECK(dirty_slices() == 5 * CHUNK);
  set_number("RETAIN", 0);
  hak_purge_spare(100);
  CHECK(dirty_slices() == CHUNK);
  slices_add_up();
}

/* A filter may end the process for a call that only saves memory, and locked memory was asked for page by page. */
static void an_end_of_load_takes_nothing_that_may_harm(void) {
  set_policy((Policy){.retain = 0, .most = NO_MOST});
  chunks_reserve(1, 0);
  set_number("RETAIN", (uint64_t)4 * CHUNK << HAK_SLICE_SHIFT);
  hak_huge_chunks_give(chunks_reserve(4, 0));
  set_number("RETAIN", 0);
  hak_arena.locked = true;
  hak_purge_spare(100);
  CHECK(dirty_slices() == 4 * CHUNK);
  hak_arena.locked = false;
  hak_os_expect_filter(false);
  hak_purge_spare(100);
  CHECK(dirty_slices() == 4 * CHUNK);
}

int main(void) {
  child_succeeds(what_is_idle_for_a_window_goes_in_the_next);
  child_succeeds(what_demand_draws_is_idle_no_more);
  child_succeeds(the_part_that_demand_draws_stays);
  child_succeeds(an_allowance_does_not_sink_below_nothing);
  child_succeeds(retain_is_idle_like_the_rest);
  child_succeeds(an_allowance_that_nothing_fills_goes);
  child_succeeds(what_cycles_drew_goes_with_their_load);
  child_succeeds(a_young_load_may_rise_again);
  child_succeeds(a_load_that_falls_keeps_its_cycles);
  child_succeeds(a_lower_load_has_cycles_of_its_own);
  child_succeeds(a_small_fall_takes_little);
  child_succeeds(an_end_of_load_has_its_price);
  child_succeeds(an_end_of_load_takes_nothing_that_may_harm);
  return 0;
}
