/* Huge blocks made of resident free chunks, wherever these lie. */
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "retention.h"
#include "system.h"

/* Two separate dirty free extents, of three chunks and of two. */
static void begin(void) {
  set_policy((Policy){.retain = 100000});
  char *three = chunks_take(3, 0);
  CHECK(slices_take(CHUNK));
  char *two = chunks_take(2, 0);
  CHECK(slices_take(CHUNK));
  hak_huge_chunks_give(three);
  hak_huge_chunks_give(two);
  CHECK(dirty_slices() == 5 * CHUNK);
}

static size_t mapped(void) {
  return hak_arena_totals().mapped_slices;
}

static bool take_zeroed(size_t chunks, size_t tail) {
  bool zeroed;
  char *base = chunks_take_aligned(chunks, tail, 1, &zeroed);
  CHECK(base != NULL);
  slices_add_up();
  chunks_give(base, tail);
  slices_add_up();
  return zeroed;
}

static void extents_move_together(void) {
  begin();
  size_t before = mapped();
  bool zeroed;
  char *base = chunks_take_aligned(4, 7, 1, &zeroed);
  CHECK(base != NULL && !zeroed && dirty_slices() == CHUNK - 7 && mapped() == before);
  slices_add_up();
  chunks_give(base, 7);
  CHECK(dirty_slices() == 5 * CHUNK && hak_purge_all(0) && dirty_slices() == 0);
  slices_add_up();
}

static void what_is_missing_is_mapped(void) {
  begin();
  size_t before = mapped();
  char *base = chunks_take(9, 0);
  CHECK(dirty_slices() == 0 && mapped() == before + 4 * CHUNK);
  chunks_give(base, 0);
  slices_add_up();
}

static void what_is_left_stays(void) {
  begin();
  size_t before = mapped();
  char *base = chunks_take(4, 0);
  CHECK(dirty_slices() == CHUNK && mapped() == before);
  chunks_give(base, 0);
  CHECK(dirty_slices() == 5 * CHUNK);
}

/* The system refuses all moves, or all after the first ones. */
static void what_cannot_move_stays(void) {
  for (uint32_t moves = 0; moves < 5; moves++) {
    begin();
    system_refuse(SYSTEM_MREMAP, moves, SYSTEM_ALL);
    CHECK(take_zeroed(5, 0) == (moves == 0));
    system_allow();
    CHECK(hak_purge_all(0) && dirty_slices() == 0);
  }
}

/* A failed move may leave its target unmapped, and there is no memory to map it again. The heap must not use that
 * place. */
static void a_lost_place_is_not_used(void) {
  begin();
  system_refuse(SYSTEM_MREMAP, 0, 1);
  system_refuse(SYSTEM_MADVISE, 1, 1);
  system_refuse(SYSTEM_MMAP, 1, 1);
  take_zeroed(6, 0);
}

static void small_requests_move_nothing(void) {
  begin();
  system_refuse(SYSTEM_MREMAP, 0, SYSTEM_ALL);
  CHECK(slices_take(100) && dirty_slices() == 5 * CHUNK - 100);
  CHECK(!take_zeroed(2, 0));
}

static void in_child(void) {
  slices_in_child();
  CHECK(dirty_slices() == 3 * CHUNK); /* chunks being moved belong to no list in the child */
  CHECK(chunks_take(4, 3) != NULL);
  slices_add_up();
}

static void fork_in_the_middle(void) {
  slices_fork(in_child);
}

static void a_fork_ends_it_in_the_child(void) {
  begin();
  system_during(SYSTEM_MREMAP, fork_in_the_middle);
  CHECK(!take_zeroed(5, 0) && system_was_during());
}

int main(void) {
  child_succeeds(extents_move_together);
  child_succeeds(what_is_missing_is_mapped);
  child_succeeds(what_is_left_stays);
  child_succeeds(what_cannot_move_stays);
  child_succeeds(a_lost_place_is_not_used);
  child_succeeds(small_requests_move_nothing);
  child_succeeds(a_fork_ends_it_in_the_child);
  return 0;
}
