/* Huge blocks: size, alignment, growing and shrinking in place, and the reports of wrong addresses. */
#include "huge_blocks.h"

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
      CHECK(hak_huge_live == blocks && hak_huge_live_bytes == bytes && blocks < BLOCKS);
    }
  }
  slices_add_up();
  for (size_t i = 0; i < blocks; i++) {
    CHECK(pattern_holds(block[i], sizes[i], sizes[i], sizes[i]));
    hak_huge_free(block[i], "test");
    CHECK(hak_pagemap_class(block[i]) == HAK_CLASS_NONE);
  }
  nothing_is_left();
}

/* A block up to one chunk takes slices of one chunk; a larger one takes whole chunks, then slices of the next. */
static void no_more_slices_are_used_than_needed(void) {
  static const size_t sizes[] = {MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 4 * MIB, 4 * MIB + 1, 7 * MIB + 77};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *block = alloc(sizes[i]);
    CHECK(hak_retain_used_slices() == hak_slices_for(sizes[i]));
    hak_huge_free(block, "test");
  }
  nothing_is_left();
}

/* Small blocks with a wide alignment are huge, too. */
static void an_aligned_block_may_be_small(void) {
  static const size_t sizes[] = {0, 1, 5000, 100000, 2 * MIB - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *block = alloc_aligned(sizes[i], 4 * MIB);
    CHECK(hak_huge_usable(block) > 0 && hak_retain_used_slices() == CHUNK);
    CHECK(hak_huge_resize(block, MIB + 5) && hak_huge_usable(block) >= MIB + 5);
    CHECK(hak_retain_used_slices() == (sizes[i] > MIB + 5 ? hak_slices_for(MIB + 5) : CHUNK));
    CHECK(hak_huge_resize(block, 2 * MIB) && hak_retain_used_slices() == CHUNK);
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
  CHECK(hak_huge_live == 1 && pattern_holds(block, 2 * MIB, 2 * MIB, 2 * MIB));
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
    CHECK(hak_huge_resize(block, sizes[i]) && hak_pagemap_class(block) == HAK_CLASS_HUGE);
    CHECK(hak_retain_used_slices() == hak_slices_for(sizes[i]));
    CHECK(hak_huge_live == 1 && hak_huge_live_bytes == hak_huge_usable(block));
    CHECK(hak_huge_usable(block) >= sizes[i] && hak_huge_usable(block) - sizes[i] < hak_os_page_bytes());
    CHECK(pattern_holds(block, sizes[i], 20 * MIB + 12345, 20 * MIB + 12345));
    slices_add_up();
  }
  CHECK(hak_huge_resize(block, MIB + 1) && hak_retain_used_slices() == hak_slices_for(MIB + 1));
  hak_huge_free(block, "test");
  nothing_is_left();
}

static void a_block_in_one_chunk_changes_there(void) {
  slices_begin_here();
  char *block = alloc(MIB + 1);
  CHECK(hak_huge_resize(block, MIB + HAK_SLICE_BYTES)); /* within its last slice */
  CHECK(hak_retain_used_slices() == 65 && hak_huge_resize(block, 2 * MIB) && hak_retain_used_slices() == CHUNK);
  CHECK(pattern_holds(block, MIB + 1, MIB + 1, MIB + 1));
  CHECK(hak_huge_resize(block, 3 * MIB / 2) && hak_retain_used_slices() == 96);
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
  CHECK(hak_huge_resize(block, 6 * MIB - HAK_SLICE_BYTES) && hak_retain_used_slices() == 3 * CHUNK - 1);
  CHECK(hak_huge_resize(block, 6 * MIB) && hak_retain_used_slices() == 3 * CHUNK); /* its tail's chunk is its own */
  CHECK(hak_huge_resize(block, 4 * MIB + 3 * HAK_SLICE_BYTES) && hak_retain_used_slices() == 2 * CHUNK + 3);
  char *behind = slices_take(1);
  CHECK(behind == slice_of(chunk_of(block, 2), 3) && !hak_huge_resize(block, 4 * MIB + 3 * HAK_SLICE_BYTES + 1));
  char *beside = alloc(MIB + 1); /* begins in the chunk of the tail */
  CHECK(beside == behind + HAK_SLICE_BYTES && hak_huge_usable(block) == 4 * MIB + 3 * (size_t)HAK_SLICE_BYTES);
  CHECK(hak_huge_resize(block, 4 * MIB) && hak_retain_used_slices() == 2 * CHUNK + 66);
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
  CHECK(hak_purge_all(0));
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
  wrong_addresses_are_named();
  return 0;
}
