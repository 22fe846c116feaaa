/* Extents of whole chunks: taken with a tail, given, joined, split, shrunk, mapped. */
#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"
#include "system/meta.h"

static void all_chunks_lead_to_the_first(void) {
  bool zeroed;
  char *base = chunks_take_aligned(5, 9, 1, &zeroed);
  CHECK(zeroed);
  hak_chunk_t *huge = hak_pagemap_chunk(base);
  CHECK(huge->base == base && huge->chunks == 5);
  for (size_t i = 0; i < 5; i++) {
    CHECK(hak_pagemap_chunk(chunk_of(base, i)) == huge);
  }
  hak_chunk_t *rest = hak_pagemap_chunk(chunk_of(base, 5));
  CHECK(rest != huge && rest->state == HAK_CHUNK_SLICED && rest->free == ~hak_mask_of(0, 9));
  CHECK(hak_retain_used_slices() == 5 * CHUNK + 9);
  CHECK(slices_take(CHUNK - 9) == slice_of(chunk_of(base, 5), 9)); /* other blocks use the rest */
  slices_add_up();
  chunks_give(base, 9);
  CHECK(hak_retain_used_slices() == CHUNK - 9);
  slices_add_up();
}

/* A block of another length reuses the range of a freed one, even if other blocks have used the chunk of its tail
 * meanwhile. */
static void a_tail_goes_beside_others(void) {
  enum { TAIL = 60, LESS = 50 };
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *base = chunks_take(2, TAIL), *end = chunk_of(base, 2);
  CHECK(slices_take(CHUNK - TAIL) == slice_of(end, TAIL));
  chunks_give(base, TAIL);
  CHECK(chunks_take_aligned(2, LESS, 1, &zeroed) == base && !zeroed && hak_pagemap_chunk(base)->chunks == 2);
  CHECK(hak_pagemap_chunk(end)->tail == LESS && dirty_slices() == TAIL - LESS);
  slices_add_up();
  chunks_give(base, LESS);
  CHECK(chunks_take(1, TAIL) == chunk_of(base, 1)); /* at the extent's end */
  CHECK(is_only_extent(true, base, 1));
  slices_add_up();
  chunks_give(chunk_of(base, 1), TAIL);
  CHECK(chunks_take(2, TAIL + 1) != base); /* there is no room for it */
  slices_add_up();
}

/* The end of the extent has the wanted alignment only in one of many processes, so the block must go elsewhere. */
static void a_tail_beside_others_is_no_reason_to_be_unaligned(void) {
  enum { TAIL = 60, CHUNKS = 64 };
  bool zeroed;
  retain_everything();
  char *base = chunks_take(1, TAIL);
  CHECK(slices_take(CHUNK - TAIL) == slice_of(chunk_of(base, 1), TAIL));
  chunks_give(base, TAIL);
  CHECK(chunks_take_aligned(1, TAIL, (size_t)CHUNKS << HAK_CHUNK_SHIFT, &zeroed) != NULL);
  slices_add_up();
}

static void extents_are_aligned(void) {
  static const size_t tails[] = {0, 1, CHUNK - 1};
  for (size_t align = HAK_CHUNK_BYTES; align <= (size_t)256 << 20; align *= 4) {
    for (size_t chunks = 1; chunks <= 4; chunks++) {
      for (size_t i = 0; i < 3; i++) {
        bool zeroed;
        char *base = chunks_take_aligned(chunks, tails[i], align, &zeroed);
        CHECK(base != NULL);
        slices_add_up();
        if (chunks % 2) {
          chunks_give(base, tails[i]);
        }
      }
    }
  }
  slices_add_up();
}

static const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
static const size_t *order;

static void neighbours_join(void) {
  static const size_t chunks[3] = {2, 1, 3}; /* from high to low addresses */
  char *base[3];
  retain_everything();
  slices_begin_here();
  for (size_t i = 0; i < 3; i++) {
    base[i] = chunks_take(chunks[i], 0);
  }
  CHECK(base[0] == chunk_of(base[1], 1) && base[1] == chunk_of(base[2], 3));
  for (size_t i = 0; i < 3; i++) {
    hak_huge_chunks_give(base[order[i]]);
    slices_add_up();
  }
  CHECK(is_only_extent(true, base[2], 6) && dirty_slices() == 6 * CHUNK);
  CHECK(chunks_take(6, 0) == base[2]);
  slices_add_up();
}

static void in_every_order_neighbours_join(void) {
  for (size_t i = 0; i < 6; i++) {
    order = orders[i];
    child_succeeds(neighbours_join);
  }
}

/* A clean extent does not join a dirty neighbour, so that its memory still counts as zeroed. */
static void only_equals_join(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *clean = chunks_take(2, 0);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  hak_huge_chunks_give(clean);
  CHECK(hak_purge_all(0) && is_only_extent(false, clean, 2)); /* it could not be unmapped, so it was discarded */
  char *dirty = chunks_take(3, 0);
  CHECK(dirty == clean - 3 * (size_t)HAK_CHUNK_BYTES);
  hak_huge_chunks_give(dirty);
  CHECK(is_only_extent(false, clean, 2) && is_only_extent(true, dirty, 3));
  slices_add_up();
  CHECK(chunks_take_aligned(2, 0, 1, &zeroed) == dirty && !zeroed); /* resident ones first */
  CHECK(chunks_take_aligned(2, 0, 1, &zeroed) == clean && zeroed);
  CHECK(hak_purge_all(0)); /* the purged part joins neighbours that are clean as well */
  slices_add_up();
}

static void what_is_left_of_an_extent_stays_listed(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *base = chunks_take(9, 0);
  hak_huge_chunks_give(base);
  CHECK(chunks_take_aligned(2, 0, 1, &zeroed) == base && !zeroed && is_only_extent(true, chunk_of(base, 2), 7));
  CHECK(slices_take(1) == chunk_of(base, 2) && is_only_extent(true, chunk_of(base, 3), 6));
  CHECK(chunks_take(5, CHUNK - 1) == chunk_of(base, 3));
  size_t chunks;
  CHECK(extents_listed(true, &chunks) == 0);
  hak_huge_chunks_give(base);
  CHECK(is_only_extent(true, base, 2));
  slices_add_up();
  CHECK(hak_arena_totals().mapped_slices == 9 * CHUNK);
}

/* If an aligned part is taken out of an extent, the rests at both ends stay free. */
static void both_rests_of_an_extent_stay(void) {
  bool zeroed;
  size_t chunks;
  retain_everything();
  char *base = chunks_take_aligned(16, 0, (size_t)32 << 20, &zeroed);
  char *first = chunks_take(1, 0);
  hak_huge_chunks_give(base);
  CHECK(chunks_take(1, 0) == base);
  CHECK(chunks_take_aligned(2, 0, (size_t)8 << 20, &zeroed) == chunk_of(base, 4));
  CHECK(extents_listed(true, &chunks) == 2 && chunks == 13);
  CHECK(hak_pagemap_chunk(chunk_of(base, 1))->chunks == 3 && hak_pagemap_chunk(chunk_of(base, 6))->chunks == 10);
  slices_add_up();
  hak_huge_chunks_give(chunk_of(base, 4));
  hak_huge_chunks_give(first);
  slices_add_up();
}

static void the_shortest_that_fits_is_taken(void) {
  char *base[4], *between[4];
  static const size_t chunks[4] = {7, 5, 4, 6};
  retain_everything();
  slices_begin_here();
  for (size_t i = 0; i < 4; i++) {
    base[i] = chunks_take(chunks[i], 0);
    between[i] = chunks_take(1, 0);
  }
  for (size_t i = 0; i < 4; i++) {
    hak_huge_chunks_give(base[i]);
  }
  CHECK(chunks_take(5, 0) == base[1] && chunks_take(5, 0) == base[3] && chunks_take(5, 0) == base[0]);
  CHECK(chunks_take(5, 0) < between[3]);
  slices_add_up();
}

static void an_extent_shrinks_where_it_is(void) {
  retain_everything();
  slices_begin_here();
  char *base = chunks_take(6, 0);
  CHECK(hak_huge_chunks_shrink(base, 4, 10));
  CHECK(hak_retain_used_slices() == 4 * CHUNK + 10 && dirty_slices() == 2 * CHUNK - 10);
  CHECK(hak_pagemap_chunk(base)->chunks == 4 && hak_pagemap_chunk(chunk_of(base, 3)) == hak_pagemap_chunk(base));
  CHECK(hak_pagemap_chunk(chunk_of(base, 4))->state == HAK_CHUNK_SLICED);
  CHECK(is_only_extent(true, chunk_of(base, 5), 1));
  slices_add_up();
  hak_arena_give(chunk_of(base, 4), 10);
  CHECK(is_only_extent(true, chunk_of(base, 4), 2));
  CHECK(hak_huge_chunks_shrink(base, 1, 0) && is_only_extent(true, chunk_of(base, 1), 5));
  CHECK(hak_retain_used_slices() == CHUNK);
  slices_add_up();
  for (size_t i = 0; i < HAK_CHUNK_BYTES; i += 4096) {
    CHECK(base[i] == 1);
  }
  hak_huge_chunks_give(base);
  CHECK(is_only_extent(true, base, 6));
}

/* A block of whole chunks shrinks by a few slices: its last chunk becomes a tail. */
static void an_extent_shrinks_by_slices(void) {
  retain_everything();
  slices_begin_here();
  char *base = chunks_take(2, 0);
  CHECK(hak_huge_chunks_shrink(base, 1, CHUNK - 3));
  CHECK(hak_retain_used_slices() == 2 * CHUNK - 3 && dirty_slices() == 3);
  size_t chunks;
  CHECK(extents_listed(true, &chunks) == 0);
  CHECK(slices_take(3) == slice_of(chunk_of(base, 1), CHUNK - 3));
  slices_add_up();
}

static void use_up_descriptors(void) {
  hak_placement.spare_chunks_count = 0;
  hak_placement.spare_chunks = NULL;
  while (hak_meta_alloc(64)) {
  }
}

/* Without descriptors, neither operation changes anything, and both can be tried again. */
static void without_descriptors_nothing_changes(void) {
  retain_everything();
  slices_begin_here();
  char *base = chunks_take(6, 0);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  use_up_descriptors();
  CHECK(!hak_huge_chunks_shrink(base, 4, 10));
  CHECK(hak_retain_used_slices() == 6 * CHUNK && hak_pagemap_chunk(base)->chunks == 6 && dirty_slices() == 0);
  CHECK(chunks_take(1, 0) == NULL && slices_take(1) == NULL && hak_retain_used_slices() == 6 * CHUNK);
  slices_add_up();
  system_allow();
  CHECK(hak_huge_chunks_shrink(base, 4, 10) && chunks_take(1, 0) != NULL);
  slices_add_up();
}

static void without_memory_there_is_no_extent(void) {
  bool zeroed;
  static const size_t many[] = {(size_t)1 << 26, (size_t)1 << 31, (size_t)1 << 32, (size_t)1 << 42};
  char *base = chunks_take(2, 0);
  for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
    CHECK(hak_huge_chunks_take(many[i], 0, 1, false, &zeroed) == NULL);
    CHECK(hak_huge_chunks_take(many[i] - 1, CHUNK - 1, 1, false, &zeroed) == NULL);
    CHECK(hak_huge_chunks_take(1, 0, (size_t)1 << (48 + i * 4), false, &zeroed) == NULL);
  }
  CHECK(hak_retain_used_slices() == 2 * CHUNK);
  slices_add_up();
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  CHECK(chunks_take(1, 0) == NULL && hak_retain_used_slices() == 2 * CHUNK);
  system_allow();
  CHECK(chunks_take(1, 0) != NULL && base != NULL);
  slices_add_up();
}

/* If a mapping fails, retained extents are given back, and the mapping is tried again. */
static void what_is_kept_is_given_for_what_is_asked(void) {
  retain_everything();
  char *base = chunks_take(1, 0);
  hak_huge_chunks_give(base);
  CHECK(dirty_slices() == CHUNK);
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(chunks_take(2, 0) != NULL);
  CHECK(hak_arena_totals().unmapped_ever == CHUNK && dirty_slices() == 0);
  slices_add_up();
}

static void take_and_keep(void) {
  for (size_t i = 0; i < 3; i++) {
    CHECK(slices_take(CHUNK) != NULL && slices_take(1) != NULL && chunks_take(3, 1) != NULL);
  }
}

static void use_descriptors(void) {
  hak_placement.spare_chunks = NULL;
  hak_placement.spare_slabs = NULL;
  hak_placement.spare_chunks_count = hak_placement.spare_slabs_count = 0;
}

/* While one thread maps, others change the lists, and may use up the spare descriptors that it found. */
static void others_take_chunks_while_one_maps(void) {
  for (size_t i = 0; i < 4; i++) {
    system_during(SYSTEM_MMAP, take_and_keep);
    CHECK(chunks_take(50 + i, 3) != NULL && system_was_during());
    slices_add_up();
    system_during(SYSTEM_MMAP, use_descriptors);
    CHECK(chunks_take(60 + i, 3) != NULL && system_was_during());
    slices_add_up();
  }
}

static int calls;

static void use_descriptors_each_time(void) {
  use_descriptors();
  if (--calls > 0) {
    system_during(SYSTEM_MMAP, use_descriptors_each_time);
  }
}

static void others_take_descriptors_while_one_maps_slices(void) {
  for (calls = 6; calls > 0;) {
    system_refuse_mappings_from(HAK_CHUNK_BYTES);
    system_during(SYSTEM_MMAP, use_descriptors_each_time);
    CHECK(slices_take(3) != NULL);
    slices_add_up();
  }
}

/* Only new mappings cause system calls, not the number of blocks taken and freed. */
static void calls_grow_with_what_is_mapped_alone(void) {
  hak_os_counts_t before, after;
  retain_everything();
  CHECK(slices_take(1) != NULL);
  char *base = chunks_take(20, 0);
  hak_huge_chunks_give(base);
  hak_os_read_counts(&before);
  for (size_t i = 0; i < 200; i++) {
    base = chunks_take(1 + i % 19, i % CHUNK);
    chunks_give(base, i % CHUNK);
  }
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap && after.munmap == before.munmap && after.madvise == before.madvise);
  slices_add_up();
}

int main(void) {
  child_succeeds(all_chunks_lead_to_the_first);
  child_succeeds(a_tail_goes_beside_others);
  child_succeeds(a_tail_beside_others_is_no_reason_to_be_unaligned);
  child_succeeds(extents_are_aligned);
  in_every_order_neighbours_join();
  child_succeeds(only_equals_join);
  child_succeeds(what_is_left_of_an_extent_stays_listed);
  child_succeeds(both_rests_of_an_extent_stay);
  child_succeeds(the_shortest_that_fits_is_taken);
  child_succeeds(an_extent_shrinks_where_it_is);
  child_succeeds(an_extent_shrinks_by_slices);
  child_succeeds(without_descriptors_nothing_changes);
  child_succeeds(without_memory_there_is_no_extent);
  child_succeeds(what_is_kept_is_given_for_what_is_asked);
  child_succeeds(others_take_chunks_while_one_maps);
  child_succeeds(others_take_descriptors_while_one_maps_slices);
  child_succeeds(calls_grow_with_what_is_mapped_alone);
  return 0;
}
