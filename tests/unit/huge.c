/* Huge blocks: size, alignment, growing and shrinking in place, moving, and what wrong addresses are called. */
#include "large.h"

#include "child.h"
#include "prng.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static char *alloc_aligned(size_t bytes, size_t align) {
  bool zeroed;
  char *block = hak_huge_alloc(bytes, align, &zeroed);
  CHECK(block != NULL && hak_class_at(block) == HAK_CLASS_HUGE && (uintptr_t)block % align == 0);
  CHECK((uintptr_t)block % HAK_SLICE_BYTES == 0);
  CHECK(hak_huge_usable(block) >= bytes && hak_huge_usable(block) <= hak_round_up(bytes + !bytes, hak_os_page_bytes()));
  CHECK(!zeroed || all_zero(block, hak_huge_usable(block)));
  pattern_fill(block, bytes, bytes);
  return block;
}

static char *alloc(size_t bytes) {
  return alloc_aligned(bytes, HAK_BLOCK_MIN);
}

static void nothing_is_left(void) {
  CHECK(hak_huge_totals().blocks == 0 && hak_huge_totals().bytes == 0 && hak_arena_used_slices() == 0);
  slices_add_up();
}

static void blocks_are_aligned_and_counted(void) {
  enum { BLOCKS = 90 };
  char *block[BLOCKS];
  size_t sizes[BLOCKS], blocks = 0, bytes = 0;
  for (size_t align = 1; align <= 32 * MIB; align *= 8) {
    for (size_t size = MIB + 1; size < 9 * MIB; size += MIB - 5000) {
      sizes[blocks] = size;
      block[blocks] = alloc_aligned(size, align);
      bytes += hak_huge_usable(block[blocks]);
      blocks++;
      CHECK(hak_huge_totals().blocks == blocks && hak_huge_totals().bytes == bytes && blocks < BLOCKS);
    }
  }
  slices_add_up();
  for (size_t i = 0; i < blocks; i++) {
    CHECK(pattern_holds(block[i], sizes[i], sizes[i], sizes[i]));
    hak_huge_free(block[i], "test");
    CHECK(hak_class_at(block[i]) == HAK_CLASS_NONE);
  }
  nothing_is_left();
}

/* Up to a chunk, slices of one; beyond, whole chunks and the slices that are needed of the next. */
static void no_more_slices_are_used_than_needed(void) {
  static const size_t sizes[] = {MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 4 * MIB, 4 * MIB + 1, 7 * MIB + 77};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *block = alloc(sizes[i]);
    CHECK(hak_arena_used_slices() == hak_slices_for(sizes[i]));
    hak_huge_free(block, "test");
  }
  nothing_is_left();
}

/* Small blocks with a wide alignment are huge, too. */
static void an_aligned_block_may_be_small(void) {
  static const size_t sizes[] = {0, 1, 5000, 100000, 2 * MIB - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *block = alloc_aligned(sizes[i], 4 * MIB);
    CHECK(hak_huge_usable(block) > 0 && hak_arena_used_slices() == CHUNK);
    CHECK(hak_huge_resize(block, MIB + 5) && hak_huge_usable(block) >= MIB + 5 && hak_arena_used_slices() == CHUNK);
    CHECK(hak_huge_resize(block, 2 * MIB) && hak_arena_used_slices() == CHUNK);
    hak_huge_free(block, "test");
  }
  nothing_is_left();
}

static void too_much_is_refused(void) {
  bool zeroed;
  char *block = alloc(2 * MIB);
  for (size_t bytes = PTRDIFF_MAX; bytes >= (size_t)1 << 48; bytes /= 3) {
    CHECK(!hak_huge_alloc(bytes, 16, &zeroed) && !hak_huge_resize(block, bytes) && !hak_huge_move(block, bytes));
    CHECK(!hak_huge_alloc(MIB + 1, (size_t)1 << 48, &zeroed));
  }
  CHECK(!hak_huge_alloc((size_t)PTRDIFF_MAX + 1, 16, &zeroed) && !hak_huge_alloc(SIZE_MAX, 16, &zeroed));
  CHECK(!hak_huge_alloc(PTRDIFF_MAX - HAK_CHUNK_BYTES, 16, &zeroed) && !hak_huge_resize(block, SIZE_MAX));
  CHECK(!hak_huge_alloc(MIB + 1, (size_t)PTRDIFF_MAX + 1, &zeroed));
  CHECK(!hak_huge_alloc(PTRDIFF_MAX - HAK_CHUNK_BYTES, (size_t)1 << 62, &zeroed));
  CHECK(hak_huge_totals().blocks == 1 && pattern_holds(block, 2 * MIB, 2 * MIB, 2 * MIB));
  slices_add_up();
}

static void what_was_used_is_not_zeroed(void) {
  bool zeroed;
  retain_everything();
  char *block = alloc(6 * MIB);
  hak_huge_free(block, "test");
  CHECK(hak_huge_alloc(5 * MIB, 1, &zeroed) == block && !zeroed);
}

static void a_block_shrinks_where_it_is(void) {
  static const size_t sizes[] = {19 * MIB, 18 * MIB, 10 * MIB + 1, 10 * MIB, 4 * MIB + 70000, 2 * MIB + 1, 2 * MIB};
  slices_begin_here();
  char *block = alloc(20 * MIB + 12345);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    CHECK(hak_huge_resize(block, sizes[i]) && hak_class_at(block) == HAK_CLASS_HUGE);
    CHECK(hak_arena_used_slices() == hak_slices_for(sizes[i]));
    CHECK(hak_huge_totals().blocks == 1 && hak_huge_totals().bytes == hak_huge_usable(block));
    CHECK(hak_huge_usable(block) >= sizes[i] && hak_huge_usable(block) - sizes[i] < hak_os_page_bytes());
    CHECK(pattern_holds(block, sizes[i], 20 * MIB + 12345, 20 * MIB + 12345));
    slices_add_up();
  }
  CHECK(hak_huge_resize(block, MIB + 1) && hak_arena_used_slices() == CHUNK); /* whole chunks stay so */
  hak_huge_free(block, "test");
  nothing_is_left();
}

static void a_block_in_one_chunk_changes_there(void) {
  slices_begin_here();
  char *block = alloc(MIB + 1);
  CHECK(hak_huge_resize(block, MIB + HAK_SLICE_BYTES)); /* within its last slice */
  CHECK(hak_arena_used_slices() == 65 && hak_huge_resize(block, 2 * MIB) && hak_arena_used_slices() == CHUNK);
  CHECK(pattern_holds(block, MIB + 1, MIB + 1, MIB + 1) && !hak_huge_resize(block, 2 * MIB + 1));
  CHECK(hak_huge_resize(block, 3 * MIB / 2) && hak_arena_used_slices() == 96);
  char *behind = slices_take(1);
  CHECK(behind == slice_of(block, 96) && !hak_huge_resize(block, 3 * MIB / 2 + 1));
  CHECK(hak_huge_usable(block) == 3 * MIB / 2);
  hak_arena_give(behind, 1);
  hak_huge_free(block, "test");
  nothing_is_left();
}

static void a_tail_grows_and_shrinks(void) {
  slices_begin_here();
  char *block = alloc(4 * MIB + 1);
  CHECK(hak_huge_resize(block, 6 * MIB - HAK_SLICE_BYTES) && !hak_huge_resize(block, 6 * MIB) &&
        !hak_huge_resize(block, 9 * MIB));
  CHECK(hak_huge_usable(block) == 6 * MIB - HAK_SLICE_BYTES && hak_arena_used_slices() == 3 * CHUNK - 1);
  CHECK(hak_huge_resize(block, 4 * MIB + 3 * HAK_SLICE_BYTES) && hak_arena_used_slices() == 2 * CHUNK + 3);
  char *behind = slices_take(1);
  CHECK(behind == slice_of(chunk_of(block, 2), 3) && !hak_huge_resize(block, 4 * MIB + 3 * HAK_SLICE_BYTES + 1));
  char *beside = alloc(MIB + 1); /* begins in the chunk of the tail */
  CHECK(beside == behind + HAK_SLICE_BYTES && hak_huge_usable(block) == 4 * MIB + 3 * (size_t)HAK_SLICE_BYTES);
  CHECK(hak_huge_resize(block, 4 * MIB) && hak_arena_used_slices() == 2 * CHUNK + 66);
  CHECK(!hak_huge_resize(block, 4 * MIB + 1)); /* there is no tail to grow */
  CHECK(pattern_holds(block, 4 * MIB, 4 * MIB + 1, 4 * MIB + 1) && pattern_holds(beside, MIB + 1, MIB + 1, MIB + 1));
  hak_arena_give(behind, 1);
  hak_huge_free(block, "test");
  hak_huge_free(beside, "test");
  nothing_is_left();
}

static void in_a_random_order_all_is_kept(void) {
  enum { BLOCKS = 12 };
  char *block[BLOCKS] = {0};
  size_t bytes[BLOCKS], filled[BLOCKS];
  Prng prng = prng_seeded(7);
  for (size_t round = 0; round < 1500; round++) {
    size_t i = prng_below(&prng, BLOCKS), size = MIB + 1 + prng_below(&prng, 7 << 20);
    if (!block[i]) {
      block[i] = alloc_aligned(size, prng_below(&prng, 8) ? 16 : 8 * MIB);
      bytes[i] = filled[i] = size;
    } else if (prng_below(&prng, 3) == 0) {
      hak_huge_free(block[i], "test");
      block[i] = NULL;
    } else if (hak_huge_resize(block[i], size)) {
      CHECK(pattern_holds(block[i], size < bytes[i] ? size : bytes[i], bytes[i], filled[i]));
      pattern_fill(block[i], size, size);
      bytes[i] = filled[i] = size;
    } else {
      CHECK(pattern_holds(block[i], bytes[i], bytes[i], filled[i]));
    }
    if (round % 16 == 0) {
      slices_add_up();
    }
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    if (block[i]) {
      hak_huge_free(block[i], "test");
    }
  }
  nothing_is_left();
}

static char *move(char *block, size_t from, size_t to) {
  char *moved = hak_huge_move(block, to);
  CHECK(moved != NULL && hak_class_at(moved) == HAK_CLASS_HUGE && (uintptr_t)moved % HAK_CHUNK_BYTES == 0);
  CHECK(moved == block || (hak_class_at(block) == HAK_CLASS_NONE && hak_arena_why(block) == HAK_MISUSE_DOUBLE_FREE));
  CHECK(hak_huge_usable(moved) >= to && hak_huge_totals().blocks == 1);
  CHECK(hak_huge_totals().bytes == hak_huge_usable(moved));
  CHECK(hak_arena_used_slices() == hak_round_up(hak_slices_for(to), CHUNK));
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

/* By the page, with a tail or without; where that is refused they are copied. */
static void a_block_moves_with_its_contents(void) {
  char *block = move(alloc(2 * MIB), 2 * MIB, 4 * MIB); /* out of a chunk that others may share */
  uint64_t before = moves();
  block = move(block, 4 * MIB, 5 * MIB);
  block = move(block, 5 * MIB, 11 * MIB);
  CHECK(moves() == before + 2);
  system_refuse(SYSTEM_MREMAP, 0, SYSTEM_ALL);
  block = move(block, 11 * MIB, 13 * MIB);
  system_allow();
  block = move(block, 13 * MIB, 15 * MIB + 5);
  hak_huge_free(block, "test");
  block = move(alloc(7 * MIB + 77), 7 * MIB + 77, 9 * MIB);
  CHECK(moves() == before + 5);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* Where the kernel does not align what it moves. */
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

/* A target that was used before is overwritten, also where the block reads as zeros. */
static void a_dirty_target_is_no_hindrance(void) {
  const size_t even = 64 << 10; /* bytes that are all the same, and not zero */
  retain_everything();
  system_refuse(SYSTEM_MREMAP, 0, SYSTEM_ALL);
  for (int round = 0; round < 4; round++) {
    char *used = alloc(8 * MIB), *block = alloc(3 * MIB);
    memset(used, 0x55, 8 * MIB);
    memset(block, 0, 3 * MIB);
    memset(block + MIB, 9, even);
    block[5000] = block[3 * MIB - 1] = 7;
    hak_huge_free(used, "test");
    char *moved = hak_huge_move(block, 7 * MIB);
    CHECK(moved == used && moved[5000] == 7 && moved[3 * MIB - 1] == 7);
    CHECK(moved[MIB] == 9 && memcmp(moved + MIB, moved + MIB + 1, even - 1) == 0);
    moved[5000] = moved[3 * MIB - 1] = 0;
    memset(moved + MIB, 0, even);
    CHECK(all_zero(moved, 3 * MIB));
    hak_huge_free(moved, "test");
  }
  nothing_is_left();
}

/* Before it moves. */
static void a_block_grows_where_nothing_is_behind_it(void) {
  slices_begin_here();
  char *block = alloc(10 * MIB);
  CHECK(hak_huge_resize(block, 17 * MIB) && hak_arena_used_slices() == 9 * CHUNK && all_zero(block + 10 * MIB, MIB));
  slices_add_up();
  CHECK(hak_huge_resize(block, 18 * MIB) && hak_os_map_at(block + 20 * MIB, MIB) == HAK_OS_MAPPED);
  CHECK(hak_huge_resize(block, 20 * MIB) && !hak_huge_resize(block, 20 * MIB + 1));
  CHECK(pattern_holds(block, 10 * MIB, 10 * MIB, 10 * MIB) && hak_huge_usable(block) == 20 * MIB);
  slices_add_up();
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* Another thread may map what was left, and get blocks there, as soon as the kernel has moved the pages. */
static char *left, *taken;

static void take_what_was_left(void) {
  bool zeroed;
  hak_arena.wish = left + 4 * MIB;
  taken = hak_huge_alloc(4 * MIB, 1, &zeroed);
  memset(taken, 3, 4 * MIB);
}

/* The first call is for a look at where there is room. */
static void take_at_the_next_call(void) {
  system_during(SYSTEM_MUNMAP, take_what_was_left);
}

static void what_another_thread_maps_there_is_its_own(void) {
  char *block = left = move(alloc(3 * MIB), 3 * MIB, 4 * MIB);
  char *behind = hak_os_map(block + 4 * MIB, MIB); /* so that it cannot stay */
  system_during(SYSTEM_MUNMAP, take_at_the_next_call);
  block = hak_huge_move(block, 6 * MIB);
  CHECK(system_was_during() && block != left && taken == left && behind != NULL);
  CHECK(hak_class_at(taken) == HAK_CLASS_HUGE && hak_huge_usable(taken) == 4 * MIB && taken[4 * MIB - 1] == 3);
  CHECK(hak_huge_usable(block) == 6 * MIB && pattern_holds(block, 4 * MIB, 4 * MIB, 4 * MIB));
  slices_add_up();
  hak_huge_free(block, "test");
  hak_huge_free(taken, "test");
  nothing_is_left();
}

/* Nothing of a block that is several mappings moves, in whatever order they lie. */
static void a_block_of_several_mappings_is_copied(void) {
  for (size_t locked = 0; locked < 8 * MIB; locked += 2 * MIB) {
    char *block = alloc(8 * MIB);
    CHECK(madvise(block + locked, MIB, MADV_DONTFORK) == 0);
    block = move(block, 8 * MIB, 13 * MIB);
    hak_huge_free(block, "test");
  }
  nothing_is_left();
}

/* Each block that was moved is a mapping of its own, of which a process may have so many. */
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
  CHECK(!hak_huge_move(block, 2 * MIB + 1) && !hak_huge_resize(block, 2 * MIB + 1));
  CHECK(!hak_huge_alloc(2 * MIB + 1, 1, &zeroed));
  CHECK(pattern_holds(block, 2 * MIB, 2 * MIB, 2 * MIB) && hak_huge_usable(block) == 2 * MIB);
  CHECK(hak_huge_totals().blocks == 1 && hak_arena_used_slices() == CHUNK);
  hak_huge_free(block, "test");
  nothing_is_left();
}

/* One that moves by the page is never there twice. */
static void a_move_needs_no_second_place(void) {
  char *block = alloc(10 * MIB);
  set_number("MEMORY_LIMIT", 16 * MIB);
  block = move(block, 10 * MIB, 16 * MIB);
  CHECK(!hak_huge_move(block, 16 * MIB + 1) && pattern_holds(block, 16 * MIB, 16 * MIB, 16 * MIB));
  hak_huge_free(block, "test");
  nothing_is_left();
}

static char *address;

static void diagnose_address(void) {
  hak_misuse("some_function", hak_arena_why(address), address);
}

static void free_twice(void) {
  address = alloc(3 * MIB);
  hak_huge_free(address, "free");
  hak_huge_free(address, "free");
}

static void wrong_addresses_are_named(void) {
  retain_everything();
  address = hide_pointer("nothing is mapped yet");
  child_is_stopped(diagnose_address, "some_function", "invalid pointer", address);
  char *block = alloc(5 * MIB), *freed = alloc(3 * MIB);
  hak_huge_free(freed, "test");
  for (size_t at = HAK_SLICE_BYTES; at < 5 * MIB; at += 3 * (MIB / 2)) {
    address = block + at;
    child_is_stopped(diagnose_address, "some_function", "not the start of a block", address);
  }
  child_is_stopped(free_twice, "free", "double free", freed);
  address = freed;
  child_is_stopped(diagnose_address, "some_function", "double free", address);
  CHECK(hak_arena_purge(0));
  child_is_stopped(diagnose_address, "some_function", "double free", address);
  address = hide_pointer("a literal");
  child_is_stopped(diagnose_address, "some_function", "invalid pointer", address);
}

int main(void) {
  child_succeeds(blocks_are_aligned_and_counted);
  child_succeeds(no_more_slices_are_used_than_needed);
  child_succeeds(an_aligned_block_may_be_small);
  child_succeeds(too_much_is_refused);
  child_succeeds(what_was_used_is_not_zeroed);
  child_succeeds(a_block_shrinks_where_it_is);
  child_succeeds(a_block_in_one_chunk_changes_there);
  child_succeeds(a_tail_grows_and_shrinks);
  child_succeeds(in_a_random_order_all_is_kept);
  child_succeeds(a_block_moves_with_its_contents);
  child_succeeds(a_move_may_end_anywhere);
  child_succeeds(a_dirty_target_is_no_hindrance);
  child_succeeds(a_block_grows_where_nothing_is_behind_it);
  child_succeeds(what_another_thread_maps_there_is_its_own);
  child_succeeds(a_block_of_several_mappings_is_copied);
  child_succeeds(only_so_many_are_moved);
  child_succeeds(without_memory_a_block_stays);
  child_succeeds(a_move_needs_no_second_place);
  wrong_addresses_are_named();
  return 0;
}
