/* What stays resident: learning from what was taken again, and decay. Time goes by as the tests say. */
#include "child.h"
#include "policy_setting.h"

/* What is given back and soon taken again stays from then on, up to an end. */
static void what_is_taken_again_stays(void) {
  enum { SLICES = 80, MOST = 100 };
  set_policy((Policy){.retain_slices = 16, .learned_slices = MOST});
  char *base = slices_take(CHUNK);
  CHECK(target() == 16);
  give_and_take(base, SLICES);
  uint64_t calls = give_back_calls();
  for (int round = 0; round < 10; round++) {
    give_and_take(base, SLICES);
  }
  CHECK(give_back_calls() == calls);
  hak_arena_give(base, SLICES);
  CHECK(dirty_slices() == SLICES && target() >= SLICES && target() <= MOST);
  slices_add_up();
}

/* The same with chunks that are unmapped and mapped again. */
static void what_is_mapped_again_stays(void) {
  set_policy((Policy){.retain_slices = CHUNK, .learned_slices = 16 * CHUNK});
  for (int round = 0; round < 10; round++) {
    hak_arena_give_chunks(chunks_take(10, 0));
  }
  CHECK(target() >= 10 * CHUNK && target() <= 16 * CHUNK);
  uint64_t calls = give_back_calls();
  hak_arena_give_chunks(chunks_take(10, 0));
  CHECK(give_back_calls() == calls && dirty_slices() == 10 * CHUNK);
}

static void swing(size_t times, size_t chunks) {
  for (; times > 0; times--) {
    hak_arena_give_chunks(chunks_take(chunks, 0));
  }
}

/* What is learned has a limit, which doubles each further time that use rose so in the last two decay times. */
static void the_more_swings_the_more_stays(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = CHUNK});
  swing(1, 7);
  CHECK(target() == 16); /* the first time use rose is none */
  for (size_t swings = 1, most = 1; swings <= 12; swings++, most *= 2) {
    swing(1, 7);
    CHECK(target() == (most < 7 ? most : 7) * CHUNK);
  }
  uint64_t calls = give_back_calls();
  swing(5, 7);
  CHECK(give_back_calls() == calls && dirty_slices() == 7 * CHUNK);
  decay_times(1);
  swing(1, 7);
  CHECK(give_back_calls() == calls);
  decay_times(1); /* in this one nothing rises, and in the one before use rose once, */
  CHECK(target() == CHUNK);
  decay_times(1);
  CHECK(target() == 16);
}

/* A GiB in a decay time is enough, or two in two, where the first time counts for 128 MiB. */
static void swings_count_up_to_an_end(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = CHUNK});
  swing(30, 20);
  CHECK(target() == 8 * CHUNK);
  decay_times(1);
  swing(30, 20);
  CHECK(target() == 16 * CHUNK);
}

/* From a quarter of the most to less than nearly all, or from below to less than a half, is no swing. */
static void a_small_swing_is_none(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = CHUNK});
  swing(1, 16);
  char *low = chunks_take(4, 0);
  swing(8, 9);
  CHECK(target() == 4 * CHUNK); /* as much as is in use */
  hak_arena_give_chunks(low);
  swing(8, 7);
  CHECK(target() == CHUNK);
}

/* From less than a half to nearly all is one, too. (By more than is in use it can only rise from there.) */
static void a_swing_may_leave_a_third(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = CHUNK});
  swing(1, 16);
  char *low = chunks_take(5, 0);
  swing(4, 10);
  CHECK(target() == 8 * CHUNK);
  hak_arena_give_chunks(low);
}

/* Each of two blocks may leave a chunk behind that it used a part of. */
static void what_is_learned_may_exceed_a_small_peak(void) {
  enum { ROUNDS = 10, LARGE = 4 };
  set_policy((Policy){.retain_slices = (LARGE + 2) * CHUNK, .learned_slices = 100 * CHUNK});
  uint64_t calls = 0;
  for (int round = 0; round < ROUNDS; round++) {
    char *small = slices_take(10), *large = chunks_take(LARGE, 90);
    hak_arena_give(small, 10);
    hak_arena_give(large + LARGE * HAK_CHUNK_BYTES, 90);
    hak_arena_give_chunks(large);
    decay_times(round < 2); /* what rises from now on finds all of it dirty */
    if (round == 3) {
      set_number("RETAIN", 0);
      calls = give_back_calls();
    }
  }
  CHECK(give_back_calls() == calls);
  CHECK(dirty_slices() == (LARGE + 2) * CHUNK);
}

static void a_heap_has_fallen_below_half(void) {
  set_policy((Policy){.retain_slices = 16});
  char *base = chunks_take(10, 0);
  CHECK(!hak_arena_has_fallen());
  CHECK(hak_arena_shrink_chunks(base, 5, 0) && !hak_arena_has_fallen());
  CHECK(hak_arena_shrink_chunks(base, 4, 0) && hak_arena_has_fallen());
  decay_times(1);
  CHECK(hak_arena_has_fallen());
  decay_times(1);
  CHECK(!hak_arena_has_fallen()); /* that long ago */
}

static void learning_ends_at_the_limit_for_it(void) {
  set_policy((Policy){.retain_slices = 16});
  char *base = slices_take(CHUNK);
  for (int round = 0; round < 10; round++) {
    give_and_take(base, 80);
  }
  CHECK(target() == 16);
}

static void no_more_is_learned_than_was_ever_used(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = 100000});
  for (int round = 0; round < 20; round++) {
    hak_arena_give(slices_take(80), 80);
  }
  CHECK(target() == CHUNK); /* the chunk that they leave counts as dirty throughout */
}

/* Free slices of a chunk that a block has a part of: those that are resident add nothing to what was resident. */
static void what_is_resident_counts_once(void) {
  set_policy((Policy){.retain_slices = 2 * CHUNK, .learned_slices = 100000});
  char *first = slices_take(CHUNK), *second = slices_take(CHUNK);
  hak_arena_give(first, 100);
  for (int round = 0; round < 10; round++) {
    give_and_take(second, 100);
  }
  set_policy((Policy){.retain_slices = 16, .learned_slices = 100000});
  CHECK(dirty_slices() == 100 && target() == 100);
}

/* A small part of what was given back, taken again, is nothing to learn from. */
static void little_taken_again_changes_nothing(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = 1000});
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 80);
  CHECK(slices_take(2) != NULL && target() == 16);
}

static void what_was_learned_is_forgotten(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = CHUNK});
  char *base = slices_take(CHUNK);
  for (int round = 0; round < 10; round++) {
    give_and_take(base, 80);
  }
  hak_arena_give(base, 80);
  CHECK(target() == 80);
  decay_times(1); /* in this one something was taken again */
  CHECK(target() == 80);
  decay_times(1);
  CHECK(target() == 16);
}

static void idle_slices_decay(void) {
  set_policy((Policy){.retain_slices = 1000});
  char *base = slices_take(CHUNK), *other = slices_take(CHUNK);
  decay_times(1);
  hak_arena_give(slice_of(base, 3), 10);
  decay_times(1);
  CHECK(dirty_slices() == 10); /* not yet for a whole decay time */
  hak_arena_give(other, 5);
  decay_times(1);
  CHECK(dirty_slices() == 5 && all_zero(slice_of(base, 3), (size_t)10 << HAK_SLICE_SHIFT) && other[0] == 1);
  decay_times(1);
  CHECK(dirty_slices() == 0);
  slices_add_up();
}

static void a_chunk_that_is_in_use_does_not_decay(void) {
  set_policy((Policy){.retain_slices = 1000});
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 3), 10);
  for (int round = 0; round < 5; round++) {
    decay_times(1);
    CHECK(slices_take(1) == slice_of(base, 3));
    hak_arena_give(slice_of(base, 3), 1);
  }
  CHECK(dirty_slices() == 10);
}

/* Though it has about as many free slices as one that is in use all the time. */
static void a_busy_chunk_keeps_no_other_from_decay(void) {
  set_policy((Policy){.retain_slices = 1000});
  char *busy = slices_take(CHUNK), *idle = slices_take(CHUNK);
  hak_arena_give(slice_of(busy, 3), 10);
  hak_arena_give(slice_of(idle, 3), 10);
  for (size_t round = 0; round < 5; round++) {
    decay_times(1);
    hak_arena_give(slice_of(busy, 20 + round), 1);
  }
  CHECK(dirty_slices() == 15 && all_zero(slice_of(idle, 3), (size_t)10 << HAK_SLICE_SHIFT));
}

/* Visits to the arena go on with it, a step each. */
static void much_decays_in_steps(void) {
  set_policy((Policy){.retain_slices = 100000});
  char *base = chunks_take(20, 0), *other = slices_take(CHUNK);
  hak_arena_give_chunks(base);
  decay_times(2);
  CHECK(dirty_slices() >= 10 * CHUNK);
  for (size_t visits = 0; visits < 12; visits++) {
    hak_arena_give(slice_of(other, visits), 1);
  }
  CHECK(dirty_slices() == 12 && hak_arena_totals().unmapped_ever == 20 * CHUNK);
  slices_add_up();
}

/* What is left of an extent has been free for as long as all of it was. */
static void a_rest_is_as_old_as_the_whole(void) {
  set_policy((Policy){.retain_slices = 100000});
  char *base = chunks_take(9, 0);
  hak_arena_give_chunks(base);
  decay_times(1);
  CHECK(chunks_take(2, 0) == base);
  decay_times(1);
  for (size_t visits = 0; visits < 4; visits++) {
    hak_arena_decay(0);
  }
  CHECK(dirty_slices() == 0 && hak_arena_used_slices() == 2 * CHUNK);
}

static void what_joins_is_as_young_as_its_youngest(void) {
  set_policy((Policy){.retain_slices = 100000});
  char *old = chunks_take(2, 0), *young = chunks_take(2, 0);
  hak_arena_give_chunks(old);
  decay_times(1);
  hak_arena_give_chunks(young);
  CHECK(is_only_extent(true, young, 4));
  decay_times(1);
  CHECK(dirty_slices() == 4 * CHUNK);
  decay_times(1);
  CHECK(dirty_slices() == 0);
}

static void the_warm_pool_does_not_decay(void) {
  set_policy((Policy){.warm_slabs = 5, .retain_slices = 1000});
  char *base = slices_take(CHUNK), *other = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 15);
  hak_arena_give(slice_of(other, 1), 15);
  decay_times(5);
  CHECK(dirty_slices() == (size_t)5 * SLAB);
}

static void the_warm_pool_stays_when_more_goes(void) {
  set_policy((Policy){.warm_slabs = 5});
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 60);
  CHECK(dirty_slices() == (size_t)5 * SLAB);
}

static void without_decay_time_every_visit_begins_one(void) {
  set_policy((Policy){.retain_slices = 1000});
  set_number("DECAY_MS", 0);
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 10);
  CHECK(hak_arena_decay(7) && hak_arena_decay(7));
  CHECK(dirty_slices() == 0);
}

/* The clock of one thread is behind that of another. */
static void time_does_not_run_backwards(void) {
  set_policy((Policy){.retain_slices = 1000});
  CHECK(hak_arena_decay(10 * DECAY_MS) && !hak_arena_decay(9 * DECAY_MS) && !hak_arena_decay(0));
  CHECK(!hak_arena_decay(11 * DECAY_MS - 1) && hak_arena_decay(11 * DECAY_MS));
}

int main(void) {
  child_succeeds(what_is_taken_again_stays);
  child_succeeds(what_is_mapped_again_stays);
  child_succeeds(the_more_swings_the_more_stays);
  child_succeeds(swings_count_up_to_an_end);
  child_succeeds(a_small_swing_is_none);
  child_succeeds(a_swing_may_leave_a_third);
  child_succeeds(what_is_learned_may_exceed_a_small_peak);
  child_succeeds(a_heap_has_fallen_below_half);
  child_succeeds(learning_ends_at_the_limit_for_it);
  child_succeeds(no_more_is_learned_than_was_ever_used);
  child_succeeds(what_is_resident_counts_once);
  child_succeeds(little_taken_again_changes_nothing);
  child_succeeds(what_was_learned_is_forgotten);
  child_succeeds(idle_slices_decay);
  child_succeeds(a_chunk_that_is_in_use_does_not_decay);
  child_succeeds(a_busy_chunk_keeps_no_other_from_decay);
  child_succeeds(much_decays_in_steps);
  child_succeeds(a_rest_is_as_old_as_the_whole);
  child_succeeds(what_joins_is_as_young_as_its_youngest);
  child_succeeds(the_warm_pool_does_not_decay);
  child_succeeds(the_warm_pool_stays_when_more_goes);
  child_succeeds(without_decay_time_every_visit_begins_one);
  child_succeeds(time_does_not_run_backwards);
  return 0;
}
