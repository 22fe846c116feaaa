/* The arena without memory, with less than a chunk of it, under a limit, and with damaged counts. */
#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"
#include "system/meta.h"

static void limit_slices(size_t slices) {
  set_number("MEMORY_LIMIT", (uint64_t)slices << HAK_SLICE_SHIFT);
}

static void refuse_chunks(void) {
  system_refuse_mappings_from(HAK_CHUNK_BYTES);
}

/* Each mapping call before the first slice fails in turn, with all later ones. The next attempt continues there. */
static void the_first_slice_can_be_tried_again(void) {
  uint32_t failures = 0;
  for (bool done = false; !done; failures += !done) {
    CHECK(failures < 30);
    system_refuse(SYSTEM_MMAP, failures, SYSTEM_ALL);
    done = slices_take(1) != NULL;
    CHECK(done || hak_retain_used_slices() == 0);
    slices_add_up();
    system_allow();
  }
  CHECK(failures > 1);
  CHECK(slices_take(1) != NULL);
  slices_add_up();
}

static void one_refusal_is_no_end(void) {
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(slices_take(CHUNK) != NULL);
  for (uint32_t skip = 0; skip < 4; skip++) {
    system_refuse(SYSTEM_MMAP, skip, 1);
    CHECK(slices_take(CHUNK / 2) != NULL && slices_take(CHUNK / 2 + 1) != NULL);
    system_allow();
    slices_add_up();
  }
}

/* Mapped slices can be used even if there is no memory for a descriptor. */
static void without_memory_there_is_what_is_mapped(void) {
  slices_begin_here();
  char *base = slices_take(CHUNK - 5);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  hak_placement.spare_slabs = NULL;
  hak_placement.spare_slabs_count = 0;
  while (hak_meta_alloc(64)) {
  }
  CHECK(slices_take(6) == NULL && slices_take(CHUNK) == NULL && chunks_take(1, 0) == NULL);
  CHECK(!hak_arena_extend(base, CHUNK - 5, 6) && hak_arena_extend(base, CHUNK - 5, 2));
  CHECK(slices_take(3) == slice_of(base, CHUNK - 3) && slices_take(1) == NULL);
  CHECK(hak_retain_used_slices() == CHUNK);
  hak_arena_give(slice_of(base, 7), 3);
  CHECK(slices_take(3) == slice_of(base, 7));
  hak_arena_give(base, CHUNK);
  slices_add_up();
  system_allow();
  CHECK(slices_take(CHUNK) != NULL && chunks_take(1, 1) != NULL);
  slices_add_up();
}

/* Without memory for a chunk, only the request is mapped, rounded up to a power of two. The rest of the range serves
 * other requests. */
static void less_than_a_chunk_will_do(void) {
  refuse_chunks();
  CHECK(!hak_mapping_is_low());
  for (size_t slices = 1; slices <= CHUNK / 2; slices++) {
    size_t before = hak_arena_totals().mapped_slices;
    CHECK(slices_take(slices) != NULL && hak_mapping_is_low());
    CHECK(hak_arena_totals().mapped_slices < before + 2 * slices);
    slices_add_up();
  }
  CHECK(slices_take(CHUNK) == NULL && chunks_take(1, 0) == NULL);
  system_allow();
  CHECK(slices_take(CHUNK) != NULL && !hak_mapping_is_low());
  slices_add_up();
}

static void less_than_a_chunk_may_be_aligned(void) {
  bool zeroed;
  refuse_chunks();
  for (size_t slabs = 1; slabs < 8; slabs++) { /* slabs of one slice each */
    CHECK(slices_take_aligned(1, HAK_SLAB_SLICES, &zeroed) != NULL && hak_arena_totals().mapped_slices == slabs);
  }
  for (size_t align = 1; align <= CHUNK / 2; align *= 2) {
    for (size_t slices = 1; slices <= CHUNK / 2; slices = slices * 2 + 1) {
      CHECK(slices_take_aligned(slices, align, &zeroed) != NULL && zeroed);
    }
  }
  slices_add_up();
}

/* If the whole request cannot be mapped, no shorter range with the same alignment is mapped. */
static void an_alignment_is_not_all_that_is_asked_for(void) {
  bool zeroed;
  refuse_chunks();
  CHECK(slices_take(1) != NULL); /* makes the page map as well */
  system_refuse_mappings_from((size_t)CHUNK / 4 << HAK_SLICE_SHIFT);
  CHECK(slices_take_aligned(CHUNK / 2, 8, &zeroed) == NULL);
  CHECK(hak_arena_totals().mapped_slices == 1);
  CHECK(slices_take_aligned(8, 8, &zeroed) != NULL);
  slices_add_up();
}

/* In a partly mapped chunk, only mapped slices are free, known to the page map, and used for growth. They are given
 * back by unmapping, since another request may need the room. If unmapping is refused, they become clean. */
static void a_chunk_may_be_mapped_in_part(void) {
  retain_everything();
  refuse_chunks();
  char *base = slices_take(3);
  hak_chunk_t *chunk = hak_pagemap_chunk(base);
  CHECK(hak_mask_count(chunk->present) == 4 && hak_arena_totals().mapped_slices == 4);
  size_t first = slice_number(base);
  for (size_t i = 0; i < HAK_CHUNK_SLICES; i++) {
    bool ours = i >= first && i < first + 3;
    CHECK(hak_arena_why(slice_of(chunk->base, i)) == (ours ? HAK_MISUSE_NOT_START : HAK_MISUSE_INVALID));
  }
  CHECK(!hak_arena_extend(base, 3, 2) && hak_arena_extend(base, 3, 1));
  hak_arena_give(base, 4);
  slices_add_up();
  memset(base, 1, (size_t)4 << HAK_SLICE_SHIFT);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  CHECK(hak_purge_all(0) && dirty_slices() == 0 && hak_arena_totals().mapped_slices == 4);
  system_allow();
  refuse_chunks();
  CHECK(all_zero(base, (size_t)4 << HAK_SLICE_SHIFT) && hak_pagemap_chunk(base)->state == HAK_CHUNK_SLICED);
  CHECK(slices_take(4) == base);
  hak_arena_give(base, 4);
  CHECK(hak_purge_all(0) && dirty_slices() == 0 && hak_arena_totals().mapped_slices == 0);
  CHECK(hak_pagemap_chunk(base)->state == HAK_CHUNK_GONE);
  CHECK(slices_take(4) != NULL && hak_arena_totals().mapped_slices == 4);
  slices_add_up();
}

/* Parts are mapped side by side, so that some form a whole chunk. */
static void parts_become_a_whole(void) {
  enum { PART = 32, PARTS = 40 };
  char *base[PARTS];
  size_t chunks, whole = 0;
  retain_everything();
  refuse_chunks();
  for (size_t i = 0; i < PARTS; i++) {
    base[i] = slices_take(PART);
    CHECK(base[i] != NULL);
    whole += hak_pagemap_chunk(base[i])->present == HAK_MASK_ALL;
  }
  CHECK(whole > 0 && hak_arena_totals().mapped_slices == PART * PARTS);
  slices_add_up();
  for (size_t i = 0; i < PARTS; i++) {
    hak_arena_give(base[i], PART);
  }
  CHECK(extents_listed(true, &chunks) > 0 && chunks == whole);
  slices_add_up();
  CHECK(hak_purge_all(0) && hak_arena_totals().mapped_slices == 0);
  slices_add_up();
}

static void make_descriptors(void) {
  CHECK(hak_chunk_lock_stocked());
  hak_unlock(&hak_arena.lock);
}

/* Memory for which the page map has no room is unmapped. */
static void what_has_no_page_map_is_unmapped(void) {
  hak_os_counts_t before, after;
  slices_begin_here();
  make_descriptors();
  hak_os_read_counts(&before);
  system_refuse(SYSTEM_MMAP, 1, SYSTEM_ALL); /* all mappings except the chunk itself */
  CHECK(slices_take(1) == NULL && chunks_take(1, 0) == NULL);
  hak_os_read_counts(&after);
  CHECK(after.munmap == before.munmap + 1 && hak_arena_totals().mapped_slices == 0);
  system_allow();
  CHECK(slices_take(1) != NULL);
}

/* If a mapping fails, retained free slices are given back, and the mapping is tried again. */
static void what_is_kept_is_given_for_what_is_asked(void) {
  retain_everything();
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 1), CHUNK - 1);
  CHECK(dirty_slices() == CHUNK - 1);
  make_descriptors();
  system_refuse(SYSTEM_MMAP, 0, 3); /* the mappings for a chunk, for a place of slices, and for slices */
  CHECK(slices_take(CHUNK) != NULL && dirty_slices() == 0);
  slices_add_up();
}

static void a_limit_is_kept(void) {
  retain_everything();
  slices_begin_here();
  limit_slices(10);
  CHECK(slices_take(11) == NULL && slices_take(CHUNK) == NULL && chunks_take(1, 0) == NULL);
  char *base = slices_take(8);
  CHECK(base && !slices_take(3) && slices_take(2) == slice_of(base, 8) && !slices_take(1));
  CHECK(!hak_arena_extend(slice_of(base, 8), 2, 1));
  hak_arena_give(base, 8);
  CHECK(hak_arena_extend(slice_of(base, 8), 2, 3) && !hak_arena_extend(slice_of(base, 8), 5, 6));
  CHECK(hak_arena_extend(slice_of(base, 8), 5, 5) && hak_retain_used_slices() == 10);
  slices_add_up();
  limit_slices(2 * CHUNK + 20);
  CHECK(!chunks_take(2, 11) && chunks_take(2, 10) && !slices_take(1));
  set_number("MEMORY_LIMIT", 1); /* a limit below a slice still is a limit */
  CHECK(!slices_take(1));
  limit_slices(0);
  CHECK(chunks_take(2, 1) != NULL);
  slices_add_up();
}

static void take_what_is_left(void) {
  CHECK(slices_take(6) == NULL && slices_take(CHUNK / 2 - 5) == NULL && chunks_take(1, 0) == NULL);
  CHECK(slices_take(5) != NULL);
}

/* While one thread maps memory, the amount counts against the limit for other threads, until the mapping is done or
 * fails. */
static void a_limit_holds_while_another_thread_maps(void) {
  limit_slices(CHUNK);
  system_during(SYSTEM_MMAP, take_what_is_left);
  CHECK(slices_take(CHUNK - 5) != NULL && system_was_during());
  CHECK(hak_retain_used_slices() == CHUNK && slices_take(1) == NULL);
  slices_add_up();
  limit_slices(0);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (slices_take(CHUNK)) { /* each thread may have mapped a chunk, so one chunk may be free */
  }
  system_allow();
  limit_slices(hak_retain_used_slices() + 2 * CHUNK);
  for (int i = 0; i < 3; i++) {
    system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
    CHECK(slices_take(CHUNK) == NULL && chunks_take(1, 0) == NULL && chunks_take(1, 3) == NULL);
    system_allow();
  }
  char *base = slices_take(CHUNK);
  CHECK(base != NULL && !hak_arena_extend(base, CHUNK, 1) && slices_take(CHUNK) != NULL);
  slices_add_up();
}

/* Retained free slices count against the limit, and are given back if a request needs the room. */
static void what_is_kept_counts_against_the_limit(void) {
  retain_everything();
  slices_begin_here();
  limit_slices(12);
  char *base = slices_take(12);
  hak_arena_give(slice_of(base, 2), 10);
  CHECK(dirty_slices() == 10);
  CHECK(slices_take(10) == slice_of(base, 2) && hak_retain_used_slices() == 12);
  hak_arena_give(slice_of(base, 2), 10);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  CHECK(slices_take(5) == NULL && !hak_arena_extend(base, 2, 5) && dirty_slices() == 10);
  system_allow();
  CHECK(slices_take(5) != NULL);
  CHECK(hak_retain_used_slices() + dirty_slices() <= 12);
  slices_add_up();
}

static void chunks_that_cannot_be_unmapped_are_emptied(void) {
  hak_os_counts_t before, after;
  bool zeroed;
  retain_everything();
  char *base = chunks_take(2, 0);
  hak_huge_chunks_give(base);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  hak_os_read_counts(&before);
  CHECK(hak_purge_all(0));
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 1 && after.munmap == before.munmap + 1);
  CHECK(dirty_slices() == 0 && hak_arena_totals().mapped_slices == 2 * CHUNK && is_only_extent(false, base, 2));
  CHECK(chunks_take_aligned(2, 0, 1, &zeroed) == base && zeroed);
  slices_add_up();
}

static void what_cannot_be_given_back_stays(void) {
  retain_everything();
  slices_begin_here();
  char *base = slices_take(CHUNK), *chunks = chunks_take(1, 0);
  hak_arena_give(slice_of(base, 4), 9);
  hak_huge_chunks_give(chunks);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  CHECK(!hak_purge_all(0) && dirty_slices() == CHUNK + 9);
  CHECK(is_only_extent(true, chunks, 1) && slice_of(base, 4)[0] == 1 && chunks[0] == 1);
  slices_add_up();
  system_allow();
  system_refuse(SYSTEM_MADVISE, 0, 1);
  hak_arena_give(slice_of(base, 20), 1);
  CHECK(hak_purge_all(0)); /* gives back the chunk, slice 20, and last slices 4 to 12 */
  CHECK(dirty_slices() == 0 && hak_pagemap_chunk(chunks)->state == HAK_CHUNK_GONE);
  slices_add_up();
}

/* Some memory cannot be given back, for example locked memory. Not every free tries it again. */
static void what_is_stuck_is_left_alone_for_a_while(void) {
  hak_os_counts_t before, after;
  char *base = slices_take(CHUNK);
  set_number("WARM_POOL_SIZE", 0);
  set_number("RETAIN", 0);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  hak_arena_give(slice_of(base, 1), 60);
  hak_os_read_counts(&before);
  for (size_t i = 0; i < 20; i++) {
    hak_arena_give(slice_of(base, 64 + i), 1);
  }
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise && dirty_slices() == 80);
  system_allow();
  hak_purge_tick(1000000);
  hak_purge_tick(1001000);
  hak_arena_give(slice_of(base, 100), 1);
  CHECK(dirty_slices() == 0);
  slices_add_up();
}

static void damage_dirty_count(void) {
  CHECK(slices_take(1) != NULL);
  hak_arena.dirty_slices++;
  hak_arena_check();
}

static void damage_class_map(void) {
  slices_begin_here();
  hak_pagemap_set_class(slice_of(slices_take(1), 5), 1, 1); /* damages the class of a free slice */
  hak_arena_check();
}

static void damage_free_mask(void) {
  slices_begin_here();
  hak_pagemap_chunk(slices_take(1))->free &= ~hak_mask_of(100, 1);
  hak_arena_check();
}

static void damage_free_count(void) {
  slices_begin_here();
  hak_pagemap_chunk(slices_take(1))->free_slices--;
  hak_arena_check();
}

static void damage_run(void) {
  slices_begin_here();
  hak_pagemap_chunk(slices_take(1))->run = CHUNK - 2;
  hak_arena_check();
}

static void damage_present_mask(void) {
  slices_begin_here();
  hak_pagemap_chunk(slices_take(1))->present &= ~hak_mask_of(100, 1);
  hak_arena_check();
}

static void damage_dirty_mask(void) {
  slices_begin_here();
  hak_pagemap_chunk(slices_take(1))->dirty |= hak_mask_of(100, 1);
  hak_arena_check();
}

static void damage_purging(void) {
  slices_begin_here();
  hak_pagemap_chunk(slices_take(1))->purging |= hak_mask_of(100, 1);
  hak_arena_check();
}

static void damage_extent(void) {
  retain_everything();
  char *base = chunks_take(3, 0);
  hak_huge_chunks_give(base);
  hak_pagemap_chunk(base)->chunks = 4;
  hak_arena_check();
}

int main(void) {
  child_succeeds(the_first_slice_can_be_tried_again);
  child_succeeds(one_refusal_is_no_end);
  child_succeeds(without_memory_there_is_what_is_mapped);
  child_succeeds(less_than_a_chunk_will_do);
  child_succeeds(less_than_a_chunk_may_be_aligned);
  child_succeeds(an_alignment_is_not_all_that_is_asked_for);
  child_succeeds(a_chunk_may_be_mapped_in_part);
  child_succeeds(parts_become_a_whole);
  child_succeeds(what_has_no_page_map_is_unmapped);
  child_succeeds(what_is_kept_is_given_for_what_is_asked);
  child_succeeds(a_limit_is_kept);
  child_succeeds(a_limit_holds_while_another_thread_maps);
  child_succeeds(what_is_kept_counts_against_the_limit);
  child_succeeds(chunks_that_cannot_be_unmapped_are_emptied);
  child_succeeds(what_cannot_be_given_back_stays);
  child_succeeds(what_is_stuck_is_left_alone_for_a_while);
  child_breaks_invariant(damage_dirty_count);
  child_breaks_invariant(damage_class_map);
  child_breaks_invariant(damage_free_mask);
  child_breaks_invariant(damage_free_count);
  child_breaks_invariant(damage_run);
  child_breaks_invariant(damage_present_mask);
  child_breaks_invariant(damage_dirty_mask);
  child_breaks_invariant(damage_purging);
  child_breaks_invariant(damage_extent);
  return 0;
}
