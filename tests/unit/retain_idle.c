/* The second rule of the law of retention: what was free during a whole window was kept in vain. */
#include "child.h"
#include "retention.h"

/* Free during a whole window: kept in vain, and given back within the next. */
static void what_is_idle_for_a_window_goes_in_the_next(void) {
  set_policy(law);
  draw_twice(30);
  CHECK(dirty_slices() == 30 * CHUNK);
  pass_windows(1);
  CHECK(dirty_slices() >= 28 * CHUNK); /* it was in use in this one */
  pass_windows(1);
  for (size_t visits = 0; visits < 30; visits++) {
    hak_arena_purge_step();
  }
  CHECK(dirty_slices() == 0 && target() <= LITTLE);
  slices_add_up();
}

/* What is left of it when demand comes back is not idle, and RETAIN allows it. */
static void what_demand_draws_is_idle_no_more(void) {
  set_policy((Policy){.retain = 40 * CHUNK, .most = NO_MOST});
  hak_arena_give_chunks(chunks_reserve(10, 0));
  pass_windows(2);
  size_t left = dirty_slices(), gone = purged();
  CHECK(left > 0 && left % CHUNK == 0 && gone > 0);
  hak_arena_give_chunks(chunks_reserve(left / CHUNK, 0));
  hak_arena_purge_step();
  CHECK(dirty_slices() == left && purged() == gone);
}

/* Of what stays, the part that no demand touched goes. */
static void the_part_that_demand_draws_stays(void) {
  set_policy(law);
  draw_twice(40);
  size_t gone = 0;
  for (size_t round = 0; round < 8; round++) {
    hak_arena_give_chunks(chunks_reserve(30, 0));
    pass_windows(1);
    gone = round == 3 ? purged() : gone;
  }
  CHECK(dirty_slices() == 30 * CHUNK && purged() == gone);
}

/* However much was idle beyond what was allowed, the next regret counts in full. */
static void an_allowance_does_not_sink_below_nothing(void) {
  set_policy((Policy){.retain = 60 * CHUNK, .most = NO_MOST});
  hak_arena_give_chunks(chunks_reserve(60, 0));
  set_number("RETAIN", 0);
  pass_windows(2);
  for (size_t visits = 0; visits < 40; visits++) {
    hak_arena_purge_step();
  }
  CHECK(dirty_slices() == 0 && target() == 0);
  hak_arena_give_chunks(chunks_reserve(2, 0)); /* the last step */
  CHECK(dirty_slices() == 2 * CHUNK);
}

/* RETAIN, too, is for demand: what nobody draws of it goes, and the next fall goes at once. */
static void retain_is_idle_like_the_rest(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  hak_arena_give_chunks(chunks_reserve(2, 0));
  pass_windows(3);
  CHECK(dirty_slices() == 0 && target() == 2 * CHUNK);
  char *large = chunks_reserve(8, 0), *again = chunks_reserve(2, 0); /* fetches what went */
  hak_arena_give_chunks(large);
  hak_arena_give_chunks(again);
  CHECK(target() == 4 * CHUNK && dirty_slices() <= 4 * CHUNK);
}

int main(void) {
  child_succeeds(what_is_idle_for_a_window_goes_in_the_next);
  child_succeeds(what_demand_draws_is_idle_no_more);
  child_succeeds(the_part_that_demand_draws_stays);
  child_succeeds(an_allowance_does_not_sink_below_nothing);
  child_succeeds(retain_is_idle_like_the_rest);
  return 0;
}
