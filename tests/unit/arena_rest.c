/* If no more memory can be mapped, the unused slices of chunks with blocks of more than half a chunk are unmapped, to
 * make room for other requests. */
#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum { LEFT = 20 * CHUNK, HALF = CHUNK / 2, MOST = 64 };

static char *block[MOST];

static void limit_mapped(void) {
  slices_begin_here();
  hak_arena_give(slices_take(1), 1); /* makes the objects that are made once */
  CHECK(hak_purge_all(0));
  system_limit_mapped((size_t)LEFT << HAK_SLICE_SHIFT);
}

static void check_block(const char *base, size_t slices) {
  for (size_t i = 0; i < slices << HAK_SLICE_SHIFT; i += 4096) {
    CHECK(base[i] == 1);
  }
}

/* With blocks of little more than half a chunk, the program can use most of the memory that may be mapped. */
static void what_half_a_chunk_leaves_is_used(void) {
  size_t count = 0;
  limit_mapped();
  while (count < MOST && (block[count] = slices_take(HALF + 1))) {
    count++;
  }
  CHECK(count * (HALF + 1) > LEFT - LEFT / 8);
  CHECK(hak_retain_used_slices() == count * (HALF + 1));
  slices_add_up();
  for (size_t i = 0; i < count; i++) {
    check_block(block[i], HALF + 1);
  }
  for (size_t i = 0; i < count; i += 2) {
    hak_arena_give(block[i], HALF + 1);
  }
  CHECK(hak_purge_all(0));
  slices_add_up();
  for (size_t i = 0; i < count; i += 2) {
    CHECK((block[i] = slices_take(HALF + 1)) != NULL);
  }
  for (size_t i = 0; i < count; i++) {
    check_block(block[i], HALF + 1);
    hak_arena_give(block[i], HALF + 1);
  }
  hak_purge_all(0);
  CHECK(hak_retain_used_slices() == 0 && hak_arena_totals().dirty_slices == 0);
  slices_add_up();
  CHECK(slices_take(CHUNK) != NULL && chunks_take(2, 0) != NULL);
}

/* The same behind whole chunks. */
static void what_a_tail_leaves_is_used(void) {
  size_t count = 0;
  limit_mapped();
  while (count < MOST && (block[count] = chunks_take(1, 1))) {
    count++;
  }
  CHECK(count * (CHUNK + 1) > LEFT - LEFT / 4);
  slices_add_up();
  for (size_t i = 0; i < count; i++) {
    check_block(block[i], CHUNK + 1);
    chunks_give(block[i], 1);
  }
  slices_add_up();
  CHECK(hak_retain_used_slices() == 0);
}

/* If the kernel refuses to unmap slices, they stay, and the mapping is not tried again. Nor is it if there are too few
 * slices. */
static void what_cannot_be_unmapped_stays(void) {
  enum { COUNT = 10 };
  limit_mapped();
  for (size_t i = 0; i < COUNT; i++) {
    CHECK((block[i] = slices_take(HALF + 1)) != NULL);
  }
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  CHECK(!hak_unmap_clean(1));
  slices_add_up();
  system_allow();
  size_t mapped = hak_arena_totals().mapped_slices;
  CHECK(!hak_unmap_clean(COUNT * (HALF - 1) + 1)); /* not enough for the request */
  CHECK(hak_unmap_clean(COUNT * (HALF - 1)) && hak_arena_totals().mapped_slices == mapped - COUNT * (HALF - 1));
  slices_add_up();
  CHECK(slices_take(CHUNK - 1) != NULL && !hak_unmap_clean(1));
  slices_add_up();
}

/* In a large heap nothing is unmapped: each chunk would need one more mapping, and their number is limited. */
static void a_large_heap_stays_whole(void) {
  limit_mapped();
  CHECK(slices_take(HALF + 1) != NULL);
  size_t mapped = hak_arena.mapped_slices;
  hak_arena.mapped_slices = (size_t)8 << 30 >> HAK_SLICE_SHIFT;
  hak_arena.used_slices += hak_arena.mapped_slices - (size_t)4 * CHUNK * CHUNK;
  CHECK(hak_unmap_clean_locked() > hak_arena.mapped_slices / 64 && !hak_unmap_clean(1));
  hak_arena.used_slices -= hak_arena.mapped_slices - (size_t)4 * CHUNK * CHUNK;
  hak_arena.mapped_slices = mapped;
  CHECK(hak_unmap_clean(1));
}

/* A chunk whose last slices are unmapped leaves the page map. */
static void nothing_is_left_of_what_is_clean(void) {
  char *part = hak_os_map_aligned(NULL, HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  limit_mapped();
  CHECK(part != NULL && hak_os_unmap(part + HAK_CHUNK_BYTES / 2, HAK_CHUNK_BYTES / 2));
  CHECK(hak_mapping_list_slices(part, HALF) && hak_pagemap_chunk(part)->state == HAK_CHUNK_SLICED);
  CHECK(hak_unmap_clean(HALF) && hak_pagemap_chunk(part)->state == HAK_CHUNK_GONE);
  slices_add_up();
}

/* Dirty slices are not unmapped here: purging gives them back, and counts them. */
static void what_is_dirty_stays(void) {
  set_number("RETAIN", (uint64_t)CHUNK << HAK_SLICE_SHIFT);
  slices_begin_here();
  char *base = slices_take(HALF), *part = slices_take(10);
  hak_arena_give(part, 10);
  CHECK(hak_unmap_clean(1) && dirty_slices() == 10 && hak_arena_totals().mapped_slices == HALF + 10);
  slices_add_up();
  check_block(base, HALF);
  check_block(part, 10);
}

int main(void) {
  child_succeeds(what_half_a_chunk_leaves_is_used);
  child_succeeds(what_a_tail_leaves_is_used);
  child_succeeds(what_cannot_be_unmapped_stays);
  child_succeeds(what_is_dirty_stays);
  child_succeeds(a_large_heap_stays_whole);
  child_succeeds(nothing_is_left_of_what_is_clean);
  return 0;
}
