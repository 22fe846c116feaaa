/* What stays resident for use that fell and may rise again. */
#include "child.h"
#include "policy_setting.h"

/* A rise to where use never was is none, and what was learned from one counts less below its beginning. */
static void only_what_rose_again_stays(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = 100000});
  char *first = chunks_take(10, 0);
  hak_arena_give(slices_take(2), 2);
  hak_arena_give_chunks(chunks_take(30, 0));
  CHECK(dirty_slices() <= 16 + CHUNK);
  hak_arena_give_chunks(chunks_take(30, 0));
  CHECK(dirty_slices() >= 30 * CHUNK);
  CHECK(hak_arena_shrink_chunks(first, 7, 0));
  CHECK(dirty_slices() > 8 * CHUNK && dirty_slices() < 20 * CHUNK);
  hak_arena_give_chunks(first);
  CHECK(dirty_slices() <= 16);
}

/* In the noise of a fall nothing rises, and a rise before the fall says nothing of it. */
static void a_fall_is_no_rise(void) {
  enum { BLOCKS = 40 };
  char *block[BLOCKS];
  set_policy((Policy){.retain_slices = 16, .learned_slices = 100000});
  char *first = slices_take(CHUNK);
  give_and_take(first, 100);
  for (size_t i = 0; i < BLOCKS; i++) {
    block[i] = chunks_take(1, 0);
  }
  for (size_t i = BLOCKS; i-- > 0;) {
    hak_arena_give_chunks(block[i]);
    give_and_take(first, 100);
    if (i == BLOCKS / 2) {
      decay_times(1);
    }
  }
  CHECK(dirty_slices() <= 16);
}

/* Where use rises to what it was, and on to where it never was, what small rises follow there is part of it. */
static void a_rise_may_go_on_beyond_the_peak(void) {
  set_policy((Policy){.retain_slices = 16, .learned_slices = 100000});
  char *low = chunks_take(2, 0), *first = chunks_take(10, 0);
  hak_arena_give_chunks(first);
  char *again = chunks_take(10, 0), *beyond = chunks_take(1, 0);
  give_and_take(slices_take(2), 2);
  hak_arena_give_chunks(beyond);
  hak_arena_give_chunks(again);
  CHECK(dirty_slices() >= 10 * CHUNK);
  hak_arena_give_chunks(low);
}

/* Of what is free when use is back there, or a little higher, as much stays as did then, though less did before. */
static void the_most_that_was_resident_up_there_counts(void) {
  enum { BLOCKS = 60, PART = CHUNK / 4, SOME = BLOCKS / 2, LOW = 5, BEYOND = 40 };
  char *block[BLOCKS];
  set_policy((Policy){.percent = 10, .learned_slices = 100000});
  for (size_t i = 0; i < BLOCKS; i++) {
    block[i] = slices_take(PART);
  }
  for (size_t i = LOW; i < BLOCKS; i++) {
    hak_arena_give(block[i], PART);
  }
  for (size_t i = LOW; i < BLOCKS; i++) {
    block[i] = slices_take(PART);
  }
  slices_take(BEYOND);
  give_and_take(slices_take(BEYOND), BEYOND);
  size_t dirty = dirty_slices();
  for (size_t i = 0; i < SOME; i += 3) {
    hak_arena_give(block[i], PART);
  }
  for (size_t i = 0; i < 2; i++) {
    slices_take(CHUNK); /* of nothing that is free */
  }
  CHECK(dirty_slices() == dirty + (size_t)(SOME / 3 * PART));
  for (size_t i = 0; i < SOME; i++) {
    if (i % 3 > 0) {
      hak_arena_give(block[i], PART);
    }
  }
  CHECK(dirty_slices() == dirty + (size_t)(SOME * PART));
}

/* A rise before such a one says what is wanted again as far as it went. */
static void a_rise_counts_beside_a_later_one(void) {
  set_policy((Policy){.learned_slices = 100000});
  char *block[20], *low = chunks_take(2, 0), *first = chunks_take(10, 0);
  hak_arena_give_chunks(first);
  first = chunks_take(10, 0);
  for (size_t i = 0; i < 20; i++) {
    block[i] = chunks_take(1, 0);
  }
  give_and_take(slices_take(CHUNK), CHUNK);
  for (size_t i = 0; i < 20; i++) {
    hak_arena_give_chunks(block[i]);
  }
  hak_arena_give_chunks(first);
  CHECK(dirty_slices() >= 8 * CHUNK && dirty_slices() <= 11 * CHUNK);
  hak_arena_give_chunks(low);
}

int main(void) {
  child_succeeds(only_what_rose_again_stays);
  child_succeeds(a_fall_is_no_rise);
  child_succeeds(a_rise_may_go_on_beyond_the_peak);
  child_succeeds(the_most_that_was_resident_up_there_counts);
  child_succeeds(a_rise_counts_beside_a_later_one);
  return 0;
}
