/* Purging: how much memory goes back to the system, in which order and steps, and its state meanwhile. */
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "retention.h"
#include "system.h"

static bool is_zeroed_at(const char *expected) {
  bool zeroed;
  CHECK(slices_take_aligned(1, 1, &zeroed) == expected);
  return zeroed;
}

/* Up to the target, all free memory stays. Beyond it, about half of the target stays. */
static void beyond_the_target_half_of_it_stays(void) {
  set_policy((Policy){.retain = 60});
  char *base[3] = {slices_take(CHUNK), slices_take(CHUNK), slices_take(CHUNK)};
  uint64_t before = give_back_calls();
  for (size_t i = 0; i < 3; i++) {
    hak_arena_give(slice_of(base[i], 5), 20);
  }
  CHECK(dirty_slices() == 60 && give_back_calls() == before);
  hak_arena_give(slice_of(base[0], 25), 1);
  CHECK(dirty_slices() <= 30 && dirty_slices() > 0);
  slices_add_up();
}

static void with_no_target_all_goes(void) {
  set_policy((Policy){0});
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 3), 1);
  CHECK(dirty_slices() == 0 && all_zero(slice_of(base, 3), HAK_SLICE_BYTES));
  hak_arena_give(base, 3);
  hak_arena_give(slice_of(base, 4), CHUNK - 4);
  CHECK(dirty_slices() == 0 && hak_retain_used_slices() == 0 && hak_arena_totals().mapped_slices == 0);
  chunks_give(chunks_take(20, 7), 7);
  CHECK(dirty_slices() == 0 && hak_arena_totals().mapped_slices == 0);
  slices_add_up();
}

static void purging_keeps_what_it_is_told(void) {
  set_policy((Policy){.retain = 1000});
  char *base = chunks_take(4, 0);
  hak_huge_chunks_give(base);
  CHECK(!hak_purge_all(4 * CHUNK) && dirty_slices() == 4 * CHUNK);
  CHECK(hak_purge_all(2 * CHUNK) && dirty_slices() == 2 * CHUNK);
  CHECK(!hak_purge_all(2 * CHUNK) && is_only_extent(true, base, 2)); /* the end of the extent was purged */
  CHECK(hak_pagemap_chunk(chunk_of(base, 2))->state == HAK_CHUNK_GONE);
  CHECK(hak_purge_all(0) && dirty_slices() == 0 && !hak_purge_all(0));
  CHECK(hak_arena_totals().mapped_slices == 0 && hak_arena_totals().unmapped_ever == 4 * CHUNK);
  slices_add_up();
}

/* Each run of dirty slices inside a chunk is purged by one call, and nothing else is. */
static void holes_are_given_back_one_by_one(void) {
  hak_os_counts_t before, after;
  set_policy((Policy){.retain = 1000});
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 2);
  hak_arena_give(slice_of(base, 5), 1);
  hak_arena_give(slice_of(base, CHUNK - 3), 3);
  hak_os_read_counts(&before);
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 3 && after.munmap == before.munmap);
  for (size_t i = 0; i < CHUNK; i++) {
    bool given = i == 1 || i == 2 || i == 5 || i >= CHUNK - 3;
    CHECK(slice_of(base, i)[0] == !given && slice_of(base, i + 1)[-1] == !given);
  }
  CHECK(is_zeroed_at(slice_of(base, 1)));
  slices_add_up();
}

/* Whole chunks are purged before slices of others, whose pages would be faulted in one by one. */
static void whole_chunks_go_first(void) {
  set_policy((Policy){.retain = 1000});
  char *base = slices_take(CHUNK), *whole = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), 60);
  hak_arena_give(whole, CHUNK);
  CHECK(hak_purge_all(60) && dirty_slices() == 60);
  CHECK(hak_pagemap_chunk(whole)->state == HAK_CHUNK_GONE);
}

/* The emptiest chunk is purged first, since it may become whole. */
static void the_emptiest_chunk_goes_first(void) {
  set_policy((Policy){.retain = 1000});
  char *full = slices_take(CHUNK), *empty = slices_take(CHUNK);
  hak_arena_give(full, 10);
  hak_arena_give(empty, 100);
  CHECK(hak_purge_all(10) && dirty_slices() == 10);
  CHECK(all_zero(empty, (size_t)100 << HAK_SLICE_SHIFT) && full[0] == 1);
}

/* A small free purges at most 4 MiB, so that it does not take long. */
static void what_goes_goes_in_steps(void) {
  set_policy((Policy){.retain = 100000});
  char *base = chunks_take(12, 0), *other = slices_take(CHUNK);
  hak_huge_chunks_give(base);
  set_policy((Policy){0});
  size_t dirty = dirty_slices();
  for (size_t given = 0; dirty > 0; given++) {
    uint64_t before = give_back_calls();
    hak_arena_give(slice_of(other, given), 1);
    size_t now = dirty_slices();
    CHECK(now < dirty && dirty - now <= 3 * CHUNK && give_back_calls() - before <= 3);
    dirty = now;
  }
  slices_add_up();
}

/* A large free purges its own amount at once. */
static void a_large_give_goes_at_once(void) {
  set_policy((Policy){.retain = 100});
  char *base = chunks_take(60, 0);
  hak_huge_chunks_give(base);
  CHECK(dirty_slices() <= 100 && hak_arena_totals().mapped_slices <= CHUNK);
}

/* All spare descriptors are in use. Purging whole chunks needs none. */
static void chunks_go_without_spare_descriptors(void) {
  set_policy((Policy){0});
  char *base = chunks_take(8, 0);
  while (hak_placement.spare_slabs_count > 0) {
    CHECK(slices_take(CHUNK));
  }
  hak_huge_chunks_give(base);
  CHECK(dirty_slices() == 0 && hak_arena_totals().unmapped_ever == 8 * CHUNK);
  slices_add_up();
}

static char *place;

static void look_in_the_middle(void) {
  hak_arena_check();
  hak_arena_totals_t totals = hak_arena_totals();
  CHECK(totals.used_slices == CHUNK - 4 && totals.dirty_slices == 0 && totals.mapped_slices == CHUNK);
  CHECK(!hak_arena_extend(place, 3, 1) && hak_arena_why(slice_of(place, 3)) == HAK_MISUSE_NOT_START);
  CHECK(hak_pagemap_chunk(place)->purging == hak_mask_of(3, 4) && hak_pagemap_chunk(place)->free == 0);
  char *elsewhere = slices_take(4);
  CHECK(elsewhere < place || elsewhere >= chunk_of(place, 1));
  hak_arena_give(slice_of(place, 10), 2); /* in the same chunk */
  CHECK(slices_take(1) == slice_of(place, 10));
}

/* While slices are being purged, they are neither free nor in use, and no lock is held. */
static void purging_slices_are_out_of_reach(void) {
  set_policy((Policy){.retain = 1000});
  place = slices_take(CHUNK);
  hak_arena_give(slice_of(place, 3), 4);
  system_during(SYSTEM_MADVISE, look_in_the_middle);
  CHECK(hak_purge_all(0) && system_was_during());
  CHECK(dirty_slices() == 1); /* freed meanwhile; a purge ends, however much other threads free */
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  slices_add_up();
  CHECK(is_zeroed_at(slice_of(place, 3)) || dirty_slices() > 0);
}

static void give_all_others(void) {
  hak_arena_give(place, 3);
  hak_arena_give(slice_of(place, 7), CHUNK - 7);
  CHECK(hak_pagemap_chunk(place)->state == HAK_CHUNK_SLICED); /* not yet whole */
}

static void a_chunk_is_whole_after_purging(void) {
  set_policy((Policy){.retain = 1000});
  place = slices_take(CHUNK);
  hak_arena_give(slice_of(place, 3), 4);
  system_during(SYSTEM_MADVISE, give_all_others);
  CHECK(hak_purge_all(4 * CHUNK - 1) == false && !system_was_during());
  CHECK(hak_purge_all(3) && system_was_during() && hak_purge_all(0));
  CHECK(hak_pagemap_chunk(place)->state == HAK_CHUNK_GONE && dirty_slices() == 0 && hak_retain_used_slices() == 0);
  slices_add_up();
}

static void take_another(void) {
  CHECK(chunks_take(3, 0) != NULL);
  hak_arena_check();
}

static void a_purging_extent_is_out_of_reach(void) {
  set_policy((Policy){.retain = 1000});
  place = chunks_take(3, 0);
  hak_huge_chunks_give(place);
  system_during(SYSTEM_MUNMAP, take_another);
  CHECK(hak_purge_all(0) && system_was_during());
  CHECK(hak_pagemap_chunk(place)->state == HAK_CHUNK_GONE && hak_retain_used_slices() == 3 * CHUNK);
  slices_add_up();
}

static void take_descriptors(void) {
  while (hak_placement.spare_chunks_count > 1) {
    hak_chunk_t *chunk = hak_placement.spare_chunks;
    hak_placement.spare_chunks = chunk->next;
    hak_placement.spare_chunks_count--;
  }
}

/* An extent that could not be unmapped goes back into the lists, even if all other descriptors were used meanwhile. */
static void a_purging_extent_keeps_its_descriptors(void) {
  char *base[4];
  set_policy((Policy){.retain = 100000});
  for (size_t i = 0; i < 4; i++) {
    base[i] = chunks_take(2, 0);
    CHECK(slices_take(CHUNK)); /* a chunk between the extents, so that they do not join */
  }
  for (size_t i = 0; i < 4; i++) {
    hak_huge_chunks_give(base[i]);
  }
  system_during(SYSTEM_MUNMAP, take_descriptors);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  CHECK(hak_purge_all(0) && dirty_slices() == 0 && system_was_during());
  size_t chunks;
  CHECK(extents_listed(false, &chunks) == 4 && chunks == 8);
  slices_add_up();
}

static void in_child(void) {
  slices_in_child();
  CHECK(dirty_slices() == 4 && slices_take(4) == slice_of(place, 3));
}

static void fork_in_the_middle(void) {
  slices_fork(in_child);
}

/* The purging thread does not exist in the child; there its slices are free again. */
static void a_fork_ends_purging_in_the_child(void) {
  set_policy((Policy){.retain = 1000});
  place = slices_take(CHUNK);
  hak_arena_give(slice_of(place, 3), 4);
  system_during(SYSTEM_MADVISE, fork_in_the_middle);
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  slices_add_up();
}

static size_t dirty_in_child;

static void extent_in_child(void) {
  slices_in_child();
  CHECK(dirty_slices() == dirty_in_child);
  CHECK(chunks_take(3, 0) != NULL);
  slices_add_up();
}

static void fork_beside_an_extent(void) {
  slices_fork(extent_in_child);
}

/* If a fork happens while pages are discarded, the extent is free again in the child. If it happens just before the
 * extent is unmapped, the child does not know whether it may use the addresses, and loses them; the pages are gone. */
static void a_fork_ends_the_purging_of_an_extent(void) {
  static const SystemCall calls[] = {SYSTEM_MADVISE, SYSTEM_MUNMAP};
  static const size_t dirty[] = {2 * CHUNK, 0};
  set_policy((Policy){.retain = 1000});
  for (size_t i = 0; i < 2; i++) {
    hak_huge_chunks_give(chunks_take(2, 0));
    dirty_in_child = dirty[i];
    system_during(calls[i], fork_beside_an_extent);
    CHECK(hak_purge_all(0) && system_was_during() && dirty_slices() == 0);
    slices_add_up();
  }
}

static pid_t forked = -1;

static void fork_and_go_on(void) {
  forked = fork();
  CHECK(forked >= 0);
  if (forked == 0) {
    hak_purge_fork_child();
    CHECK(slices_take(4) == slice_of(place, 3));
  }
}

/* A signal handler forks during purging. In the child, the same thread goes on, and the memory that it was purging may
 * be in use by then. */
static void purging_may_be_over_when_its_thread_goes_on(void) {
  int status;
  set_policy((Policy){.retain = 1000});
  place = slices_take(CHUNK);
  hak_arena_give(slice_of(place, 3), 4);
  system_during(SYSTEM_MADVISE, fork_and_go_on);
  hak_purge_all(0);
  if (forked == 0) {
    slices_add_up();
    _exit(hak_retain_used_slices() == CHUNK ? 0 : 1);
  }
  CHECK(waitpid(forked, &status, 0) == forked && status == 0);
  slices_add_up();
}

int main(void) {
  child_succeeds(beyond_the_target_half_of_it_stays);
  child_succeeds(with_no_target_all_goes);
  child_succeeds(purging_keeps_what_it_is_told);
  child_succeeds(holes_are_given_back_one_by_one);
  child_succeeds(whole_chunks_go_first);
  child_succeeds(the_emptiest_chunk_goes_first);
  child_succeeds(what_goes_goes_in_steps);
  child_succeeds(a_large_give_goes_at_once);
  child_succeeds(chunks_go_without_spare_descriptors);
  child_succeeds(purging_slices_are_out_of_reach);
  child_succeeds(a_chunk_is_whole_after_purging);
  child_succeeds(a_purging_extent_is_out_of_reach);
  child_succeeds(a_purging_extent_keeps_its_descriptors);
  child_succeeds(a_fork_ends_purging_in_the_child);
  child_succeeds(a_fork_ends_the_purging_of_an_extent);
  child_succeeds(purging_may_be_over_when_its_thread_goes_on);
  return 0;
}
