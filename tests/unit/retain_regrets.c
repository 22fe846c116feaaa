/* Purges that turn out to be wrong ("regrets"), because demand soon fetches the memory again: how much they raise the
 * allowance. Other purges and fetches have no effect on it. */
#include "child.h"
#include "retention.h"
#include "system.h"

/* A purge whose memory is fetched in this window or the next raises the allowance by that amount. */
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

/* Fetched memory counts only up to the amount that was purged, and only once. */
static void only_purged_memory_is_regretted(size_t windows) {
  set_policy(law);
  char *rest = chunks_reserve(4, 0), *more = chunks_reserve(9, 0);
  hak_huge_chunks_give(rest);
  size_t gone = purged();
  CHECK(gone > 0 && gone <= 4 * CHUNK);
  pass_windows(windows);
  chunks_reserve(4, 0);
  CHECK(drawn() == (int64_t)gone);
  chunks_reserve(4, 0);
  CHECK(drawn() == (int64_t)gone);
  hak_huge_chunks_give(more);
}

static void in_the_same_window(void) {
  only_purged_memory_is_regretted(0);
}

static void in_the_next_window(void) {
  only_purged_memory_is_regretted(1);
}

/* The purged memory could not have served the request, since no run was long enough. So blocks that shrink, one after
 * the other, have no effect. */
static void a_row_too_short_is_not_regretted(void) {
  char *block[20];
  set_policy(law);
  hak_huge_chunks_give(chunks_reserve(9, 0));
  pass_windows(3);
  for (size_t i = 0; i < 20; i++) {
    block[i] = chunks_reserve(5, 0);
    CHECK(hak_huge_chunks_shrink(block[i], 3, 0));
    CHECK(dirty_slices() <= LITTLE && drawn() == 0);
  }
  chunks_reserve(2, 0);
  CHECK(drawn() > 0);
}

/* If memory purged in one window is fetched only in the second window after it, this is no regret. */
static void a_regret_comes_within_two_windows(void) {
  set_policy(law);
  hak_huge_chunks_give(chunks_reserve(4, 0));
  pass_windows(1);
  hak_huge_chunks_give(chunks_reserve(4, 0));
  CHECK(dirty_slices() == 4 * CHUNK);
}

static void a_later_one_is_none(void) {
  set_policy(law);
  hak_huge_chunks_give(chunks_reserve(4, 0));
  pass_windows(2);
  hak_huge_chunks_give(chunks_reserve(4, 0));
  CHECK(dirty_slices() <= LITTLE);
}

/* The same if a recent purge of runs of that length was regretted. */
static void a_later_one_is_none_beside_a_recent_one(void) {
  set_policy(law);
  hak_huge_chunks_give(chunks_reserve(4, 0));
  pass_windows(3);
  size_t before = purged();
  hak_huge_chunks_give(chunks_reserve(1, 0));
  size_t gone = purged() - before;
  for (size_t i = 0; i < 4; i++) {
    chunks_reserve(1, 0);
  }
  CHECK(gone > 0 && gone <= CHUNK && drawn() <= (int64_t)gone);
}

/* The same if demand has fetched memory that was purged earlier. */
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

/* A fetch is counted against the oldest purge first, so that the younger one lasts. */
static void old_regrets_are_spent_first(void) {
  set_policy(law);
  char *older = chunks_reserve(10, 0), *younger = chunks_reserve(8, 0);
  hak_huge_chunks_give(older);
  pass_windows(1);
  hak_huge_chunks_give(younger);
  size_t young = hak_arena.retention.ghosts[0];
  CHECK(young >= 8 * CHUNK - LITTLE);
  chunks_reserve(8, 0);
  CHECK(hak_arena.retention.ghosts[0] == young);
  pass_windows(1);
  int64_t before = drawn();
  chunks_reserve(8, 0);
  CHECK(drawn() > before);
}

/* A rise may take long, for example on a slow machine. As long as each window fetches a part, all of it counts. */
static void a_slow_rise_is_regretted_to_its_end(void) {
  char *block[40];
  set_policy(law);
  hak_huge_chunks_give(chunks_reserve(40, 0));
  for (size_t i = 0; i < 40; i++) {
    block[i] = chunks_reserve(1, 0);
    pass_ms(WINDOW_MS / 4);
  }
  CHECK(drawn() > 38 * CHUNK);
  for (size_t i = 0; i < 40; i++) {
    hak_huge_chunks_give(block[i]);
  }
}

/* A purge by request of the program, or because of a limit, is no decision that could be wrong. */
static void a_trim_teaches_nothing(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  for (size_t round = 0; round < 3; round++) {
    hak_huge_chunks_give(chunks_reserve(4, 0));
    CHECK(dirty_slices() == 4 * CHUNK && hak_purge_all(0) && target() == 4 * CHUNK);
    pass_windows(round);
    CHECK(target() == 4 * CHUNK); /* purged memory is not idle */
  }
  chunks_reserve(4, 0);
  CHECK(target() == 4 * CHUNK);
}

/* The same after a regretted purge of runs of that length. */
static void a_trim_after_a_purge_teaches_nothing(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  hak_huge_chunks_give(chunks_reserve(9, 0));
  size_t gone = purged();
  CHECK(gone > 0 && hak_purge_all(0) && purged() == 9 * CHUNK);
  for (size_t i = 0; i < 9; i++) {
    chunks_reserve(1, 0);
  }
  CHECK(drawn() == (int64_t)gone);
}

static void neither_does_the_memory_limit(void) {
  set_policy((Policy){.retain = 4 * CHUNK, .most = NO_MOST});
  set_number("MEMORY_LIMIT", (uint64_t)8 << HAK_CHUNK_SHIFT);
  for (int round = 0; round < 3; round++) {
    hak_huge_chunks_give(chunks_reserve(4, 0));
    size_t gone = purged();
    char *large = chunks_reserve(8, 0);
    CHECK(purged() == gone + 4 * CHUNK && target() == 4 * CHUNK);
    CHECK(hak_huge_chunks_shrink(large, 4, 0));
    (void)hak_purge_all(0);
    hak_huge_chunks_give(large);
    (void)hak_purge_all(0);
  }
}

/* Memory that the system refused to take was not purged, so fetching it is no regret. */
static void a_refused_purge_teaches_nothing(void) {
  set_policy(law);
  char *base = slices_take(CHUNK), *large = chunks_take(2, 0);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  hak_arena_give(base, CHUNK - 1);
  hak_huge_chunks_give(large);
  CHECK(purged() == 0 && dirty_slices() == 3 * CHUNK - 1);
  system_allow();
  for (size_t i = 0; i < 8; i++) { /* even runs as short as the refused one */
    slices_reserve(CHUNK / 2 + 1);
  }
  CHECK(target() == LITTLE && drawn() == 0);
  slices_add_up();
}

/* Every 256th freed huge block is purged, so that unwritten pages do not accumulate. This has no effect either. */
static void a_block_that_goes_by_turns_teaches_nothing(void) {
  set_policy((Policy){.retain = CHUNK, .most = NO_MOST});
  for (size_t i = 0; i < 255; i++) {
    hak_huge_chunks_give(chunks_reserve(1, 0));
  }
  CHECK(purged() == 0 && dirty_slices() == CHUNK);
  hak_huge_chunks_give(chunks_reserve(1, 0));
  CHECK(purged() == CHUNK && dirty_slices() == 0);
  chunks_reserve(1, 0);
  CHECK(target() == CHUNK);
}

/* Resident chunks that move into a new extent are no demand, since they stay resident. The fresh part of the extent is
 * demand. */
static void the_fresh_part_of_an_extent_is_demand(void) {
  set_policy((Policy){.retain = 3 * CHUNK, .most = NO_MOST});
  char *apart[3];
  for (size_t i = 0; i < 3; i++) {
    apart[i] = chunks_reserve(1, 0);
    chunks_reserve(1, 0); /* a chunk between them */
  }
  hak_huge_chunks_give(chunks_reserve(20, 0));
  (void)hak_purge_all(0);
  for (size_t i = 0; i < 3; i++) {
    hak_huge_chunks_give(apart[i]);
  }
  CHECK(dirty_slices() == 3 * CHUNK && target() == 3 * CHUNK);
  size_t before = fetched() - purged();
  chunks_reserve(9, 0);
  CHECK(fetched() - purged() == before + 6 * CHUNK && dirty_slices() == 0);
  CHECK(target() == 9 * CHUNK);
  slices_add_up();
}

/* A block that the kernel lengthens could not have used retained memory. */
static void a_block_that_grows_regrets_nothing(void) {
  set_policy(law);
  bool zeroed;
  char *base = hak_huge_chunks_take(9, 0, 1, true, &zeroed);
  hak_huge_chunks_give(chunks_reserve(20, 0));
  CHECK(base != NULL && hak_move_grow(base, 15, true) != NULL && target() == LITTLE);
  slices_add_up();
}

int main(void) {
  child_succeeds(what_is_fetched_again_soon_stays_from_then_on);
  child_succeeds(in_the_same_window);
  child_succeeds(in_the_next_window);
  child_succeeds(a_row_too_short_is_not_regretted);
  child_succeeds(a_regret_comes_within_two_windows);
  child_succeeds(a_later_one_is_none);
  child_succeeds(a_later_one_is_none_beside_a_recent_one);
  child_succeeds(a_regret_does_not_prolong_later_ones);
  child_succeeds(old_regrets_are_spent_first);
  child_succeeds(a_slow_rise_is_regretted_to_its_end);
  child_succeeds(a_trim_teaches_nothing);
  child_succeeds(a_trim_after_a_purge_teaches_nothing);
  child_succeeds(neither_does_the_memory_limit);
  child_succeeds(a_refused_purge_teaches_nothing);
  child_succeeds(a_block_that_goes_by_turns_teaches_nothing);
  child_succeeds(the_fresh_part_of_an_extent_is_demand);
  child_succeeds(a_block_that_grows_regrets_nothing);
  return 0;
}
