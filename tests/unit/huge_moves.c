/* Huge blocks that grow: in place, or where the kernel moves them. */
#include "huge_blocks.h"

static char *move(char *block, size_t from, size_t to) {
  char *moved = hak_huge_move(block, to);
  CHECK(moved != NULL && hak_pagemap_class(moved) == HAK_CLASS_HUGE && (uintptr_t)moved % HAK_CHUNK_BYTES == 0);
  CHECK(moved == block ||
        (hak_pagemap_class(block) == HAK_CLASS_NONE && hak_arena_why(block) == HAK_MISUSE_DOUBLE_FREE));
  CHECK(hak_huge_usable(moved) >= to && hak_huge_live == 1);
  CHECK(hak_huge_live_bytes == hak_huge_usable(moved));
  CHECK(hak_retain_used_slices() == hak_round_up(hak_slices_for(to), CHUNK));
  CHECK(pattern_holds(moved, from, from, from));
  pattern_fill(moved, to, to);
  slices_add_up();
  return moved;
}

static uint64_t moves(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.mremap;
}

/* Blocks with and without a tail are moved by remapping. If that is refused, they are copied. */
static void a_block_moves_with_its_contents(void) {
  char *block = move(alloc(2 * MIB), 2 * MIB, 4 * MIB); /* out of a chunk that other blocks may share */
  uint64_t before = moves();
  block = move(block, 4 * MIB, 5 * MIB);
  block = move(block, 5 * MIB, 11 * MIB);
  CHECK(moves() == before + 2);
  system_refuse(SYSTEM_MREMAP, 0, SYSTEM_ALL);
  block = move(block, 11 * MIB, 13 * MIB);
  system_allow();
  before = moves();
  block = move(block, 13 * MIB, 15 * MIB + 5);
  CHECK(moves() == before + 1);
  hak_huge_free(block, "test");
  hak_purge_all(0);
  block = move(alloc(7 * MIB + 77), 7 * MIB + 77, 9 * MIB);
  CHECK(moves() == before + 2);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* The kernel may move a block to an unaligned address. */
static void a_move_may_end_anywhere(void) {
  size_t bytes = 6 * MIB;
  char *block = move(alloc(bytes - MIB), bytes - MIB, bytes);
  for (size_t by = hak_os_page_bytes(); by < 2 * MIB; by += 31 * hak_os_page_bytes(), bytes += 2 * MIB) {
    uint64_t before = moves();
    system_misalign_moves(by);
    block = move(block, bytes, bytes + 2 * MIB);
    CHECK(moves() == before + 1);
  }
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* A block grows in place before it is moved. */
static void a_block_grows_where_nothing_is_behind_it(void) {
  slices_begin_here();
  char *block = alloc(10 * MIB);
  CHECK(hak_huge_resize(block, 17 * MIB) && hak_retain_used_slices() == 9 * CHUNK && all_zero(block + 10 * MIB, MIB));
  slices_add_up();
  CHECK(hak_huge_resize(block, 18 * MIB) && hak_os_map_at(block + 20 * MIB, MIB) == HAK_OS_MAPPED);
  CHECK(hak_huge_resize(block, 20 * MIB) && !hak_huge_resize(block, 20 * MIB + 1));
  CHECK(pattern_holds(block, 10 * MIB, 10 * MIB, 10 * MIB) && hak_huge_usable(block) == 20 * MIB);
  slices_add_up();
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* A request within its last page takes nothing from a block that had room to grow. */
static void a_block_keeps_its_room(void) {
  char *block = move(alloc(2 * MIB), 2 * MIB, 3 * MIB);
  CHECK(hak_huge_resize(block, 3 * MIB - 1) && hak_retain_used_slices() == 2 * CHUNK);
  CHECK(hak_huge_resize(block, 4 * MIB) && hak_retain_used_slices() == 2 * CHUNK);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* The number of slices mapped so far. */
static size_t mapped(void) {
  return hak_arena_totals().mapped_ever;
}

/* Only a small block does so; a large one stays one mapping. */
static void a_block_grows_into_what_is_free(void) {
  set_number("RETAIN", 64 * MIB);
  char *block = alloc(16 * MIB);
  CHECK(hak_huge_resize(block, 4 * MIB));
  size_t before = mapped();
  for (size_t bytes = 6 * MIB; bytes <= 16 * MIB; bytes += 2 * MIB) {
    CHECK(hak_huge_resize(block, bytes - 7) && hak_huge_usable(block) == bytes);
    CHECK(hak_retain_used_slices() == hak_slices_for(bytes) && pattern_holds(block, 4 * MIB, 16 * MIB, 16 * MIB));
    slices_add_up();
  }
  CHECK(mapped() == before);
  hak_huge_free(block, "test");
  block = alloc(20 * MIB);
  CHECK(hak_huge_resize(block, 16 * MIB) && !hak_huge_resize(block, 18 * MIB));
  CHECK(hak_retain_used_slices() == 8 * CHUNK);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* Retained memory serves the next growing block. */
static void a_block_that_grows_is_made_of_what_is_free(void) {
  set_number("RETAIN", 64 * MIB);
  hak_huge_free(alloc(6 * MIB), "test");
  char *block = alloc(2 * MIB);
  size_t before = mapped();
  block = move(block, 2 * MIB, 4 * MIB);
  CHECK(mapped() == before);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* As soon as the kernel has moved the pages, another thread may map the old place, and get blocks there. */
static char *left, *taken;

static void take_what_was_left(void) {
  bool zeroed;
  hak_mapping.hint = left + 4 * MIB;
  taken = hak_huge_alloc(4 * MIB, 1, &zeroed);
  memset(taken, 3, 4 * MIB);
}

/* The first such call only looks for room; acts at the second. */
static void take_at_the_next_call(void) {
  system_during(SYSTEM_MUNMAP, take_what_was_left);
}

static void what_another_thread_maps_there_is_its_own(void) {
  char *block = left = move(alloc(3 * MIB), 3 * MIB, 4 * MIB);
  char *behind = hak_os_map(block + 4 * MIB, MIB); /* so that the block cannot grow in place */
  system_during(SYSTEM_MUNMAP, take_at_the_next_call);
  block = hak_huge_move(block, 6 * MIB);
  CHECK(system_was_during() && block != left && taken == left && behind != NULL);
  CHECK(hak_pagemap_class(taken) == HAK_CLASS_HUGE && hak_huge_usable(taken) == 4 * MIB && taken[4 * MIB - 1] == 3);
  CHECK(hak_huge_usable(block) == 6 * MIB && pattern_holds(block, 4 * MIB, 4 * MIB, 4 * MIB));
  slices_add_up();
  hak_huge_free(block, "test");
  hak_huge_free(taken, "test");
  nothing_is_left();
}

/* No part of a block that consists of several mappings is moved, whatever their order. */
static void a_block_of_several_mappings_is_copied(void) {
  for (size_t locked = 0; locked < 8 * MIB; locked += 2 * MIB) {
    char *block = alloc(8 * MIB);
    CHECK(madvise(block + locked, MIB, MADV_DONTFORK) == 0);
    block = move(block, 8 * MIB, 13 * MIB);
    hak_huge_free(block, "test");
  }
  nothing_is_left();
}

/* A block made of several mappings is copied once, to a single mapping, which can be moved later. */
static void a_block_of_pieces_is_copied_once(void) {
  retain_everything();
  char *two = alloc(4 * MIB), *between = alloc(2 * MIB), *one = alloc(2 * MIB), *behind = alloc(2 * MIB);
  hak_huge_free(two, "test");
  hak_huge_free(one, "test");
  char *block = alloc(6 * MIB);
  hak_huge_free(between, "test");
  hak_huge_free(behind, "test");
  block = move(block, 6 * MIB, 8 * MIB);
  hak_os_counts_t before, after;
  hak_os_read_counts(&before);
  block = move(move(block, 8 * MIB, 10 * MIB), 10 * MIB, 12 * MIB);
  hak_os_read_counts(&after);
  CHECK(after.mremap == before.mremap + 2 && after.failed == before.failed);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* The number of moves for a block of three chunks, where two and one are free, each partly written. */
static uint64_t moves_of_pieces(size_t written) {
  bool zeroed;
  char *two = hak_huge_alloc(4 * MIB, 1, &zeroed), *between = alloc(2 * MIB),
       *one = hak_huge_alloc(2 * MIB, 1, &zeroed);
  memset(two, 1, written * 2);
  memset(one, 1, written);
  hak_huge_free(two, "test");
  hak_huge_free(one, "test");
  uint64_t before = moves();
  char *block = hak_huge_alloc(6 * MIB, 1, &zeroed);
  CHECK(block != NULL && (zeroed ? all_zero(block, 6 * MIB) : moves() > before));
  uint64_t by_moves = moves() - before;
  hak_huge_free(block, "test");
  hak_huge_free(between, "test");
  slices_add_up();
  return by_moves;
}

/* The choice does not depend on the contents. */
static void pieces_move_whatever_was_written(void) {
  retain_everything();
  for (size_t written = 0; written <= 2 * MIB; written += MIB) {
    CHECK(moves_of_pieces(written) > 0);
    hak_purge_all(0);
  }
}

/* Each moved block is a mapping of its own, and the number of mappings is limited. */
static void only_so_many_are_moved(void) {
  enum { BLOCKS = 4096 };
  const size_t bytes = 2 * MIB + 1;
  static char *block[BLOCKS];
  bool zeroed;
  for (size_t i = 0; i < BLOCKS; i++) {
    block[i] = hak_huge_alloc(bytes, 16, &zeroed);
    CHECK(block[i] != NULL);
    block[i][0] = block[i][bytes - 1] = (char)i;
    block[i] = hak_huge_move(block[i], bytes + 5000);
    CHECK(block[i] != NULL && block[i][0] == (char)i && block[i][bytes - 1] == (char)i);
  }
  uint64_t before = moves();
  char *one = hak_huge_alloc(bytes, 16, &zeroed);
  one[bytes - 1] = 1;
  one = hak_huge_move(one, 5 * MIB); /* copied */
  CHECK(moves() == before && one && one[bytes - 1] == 1);
  block[0] = hak_huge_move(block[0], 5 * MIB); /* has its mapping already */
  one = hak_huge_move(one, 64 * MIB);          /* there cannot be many of these */
  CHECK(moves() == before + 2 && block[0] && one && one[bytes - 1] == 1);
  hak_huge_free(block[0], "test");
  hak_huge_free(one, "test");
  block[0] = hak_huge_move(hak_huge_alloc(bytes, 16, &zeroed), 5 * MIB);
  CHECK(moves() == before + 3);
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_huge_free(block[i], "test");
  }
  nothing_is_left();
}

static void without_memory_a_block_stays(void) {
  bool zeroed;
  char *block = alloc(2 * MIB);
  set_number("MEMORY_LIMIT", 4 * MIB);
  CHECK(!hak_huge_move(block, 4 * MIB + 1) && !hak_huge_resize(block, 4 * MIB + 1));
  CHECK(!hak_huge_alloc(2 * MIB + 1, 1, &zeroed));
  CHECK(pattern_holds(block, 2 * MIB, 2 * MIB, 2 * MIB) && hak_huge_usable(block) == 2 * MIB);
  CHECK(hak_huge_live == 1 && hak_retain_used_slices() == CHUNK);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* A block that is moved by remapping never occupies two places. */
static void a_move_needs_no_second_place(void) {
  char *block = alloc(10 * MIB);
  set_number("MEMORY_LIMIT", 16 * MIB);
  block = move(block, 10 * MIB, 16 * MIB);
  CHECK(!hak_huge_move(block, 16 * MIB + 1) && pattern_holds(block, 16 * MIB, 16 * MIB, 16 * MIB));
  hak_huge_free(block, "test");
  nothing_is_left();
}

int main(void) {
  child_succeeds(a_block_moves_with_its_contents);
  child_succeeds(a_move_may_end_anywhere);
  child_succeeds(a_block_grows_where_nothing_is_behind_it);
  child_succeeds(a_block_keeps_its_room);
  child_succeeds(a_block_grows_into_what_is_free);
  child_succeeds(a_block_that_grows_is_made_of_what_is_free);
  child_succeeds(what_another_thread_maps_there_is_its_own);
  child_succeeds(a_block_of_several_mappings_is_copied);
  child_succeeds(a_block_of_pieces_is_copied_once);
  child_succeeds(pieces_move_whatever_was_written);
  child_succeeds(only_so_many_are_moved);
  child_succeeds(without_memory_a_block_stays);
  child_succeeds(a_move_needs_no_second_place);
  return 0;
}
