/* Runs of slices: their places, whether they are zeroed, and the data on every address. */
#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

static bool is_zeroed_at(const char *expected) {
  bool zeroed;
  CHECK(slices_take_aligned(1, 1, &zeroed) == expected);
  return zeroed;
}

static void a_chunk_is_filled_before_the_next(void) {
  slices_begin_here();
  char *base = slices_take(1);
  CHECK(slice_number(base) == 0);
  for (size_t i = 1; i < CHUNK; i++) {
    CHECK(slices_take(1) == slice_of(base, i));
  }
  char *below = base - HAK_CHUNK_BYTES;
  CHECK(slices_take(CHUNK - 1) == below && slices_take(2) == below - HAK_CHUNK_BYTES);
  CHECK(slices_take(1) == slice_of(below, CHUNK - 1)); /* a run of one slice fits best */
  CHECK(hak_retain_used_slices() == 2 * CHUNK + 2);
  slices_add_up();
}

/* The shortest run that is long enough is taken, whatever chunk it is in. None is resident. */
static void the_best_row_is_taken(void) {
  set_number("WARM_POOL_SIZE", 0);
  retain_everything();
  slices_begin_here();
  char *high = slices_take(CHUNK), *middle = slices_take(CHUNK), *low = slices_take(CHUNK);
  hak_arena_give(slice_of(high, 10), 9);
  hak_arena_give(slice_of(middle, 20), 5);
  hak_arena_give(slice_of(low, 30), 7);
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  CHECK(slices_take(6) == slice_of(low, 30));
  CHECK(slices_take(5) == slice_of(middle, 20));
  CHECK(slices_take(5) == slice_of(high, 10));
  CHECK(slices_take(2) == slice_of(high, 15));
  CHECK(slices_take(1) == slice_of(low, 36));
  slices_add_up();
}

static void dirty_slices_are_used_again(void) {
  retain_everything();
  slices_begin_here();
  char *base = slices_take(10);
  hak_arena_give(slice_of(base, 2), 1);
  CHECK(hak_purge_all(0));
  hak_arena_give(slice_of(base, 7), 1);
  CHECK(dirty_slices() == 1);
  CHECK(!is_zeroed_at(slice_of(base, 7)));
  CHECK(dirty_slices() == 0);
  CHECK(is_zeroed_at(slice_of(base, 2)));
  slices_add_up();
}

/* A dirty slice is taken before clean ones of another chunk, even if the clean run fits better. */
static void dirty_slices_come_before_clean_ones(void) {
  retain_everything();
  slices_begin_here();
  char *first = slices_take(CHUNK), *second = slices_take(CHUNK);
  hak_arena_give(slice_of(first, 3), 2);
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  hak_arena_give(slice_of(second, 40), 60);
  CHECK(slices_take(2) == slice_of(second, 40));
  CHECK(slices_take(58) == slice_of(second, 42));
  CHECK(dirty_slices() == 0 && slices_take(2) == slice_of(first, 3));
}

/* The fullest chunk is used first, so that others become empty. */
static void the_fullest_chunk_is_filled(void) {
  retain_everything();
  slices_begin_here();
  char *first = slices_take(CHUNK), *second = slices_take(CHUNK), *third = slices_take(CHUNK);
  hak_arena_give(first, 100);
  hak_arena_give(second, 4);
  hak_arena_give(third, 50);
  CHECK(slices_take(4) == second && slices_take(4) == third && slices_take(60) == first);
}

/* A long resident run is found even if it lies behind many fuller chunks, whose free slices are scattered. */
static void a_resident_row_is_found_behind_many_chunks(void) {
  enum { CHUNKS = 20, SLICES = 30 };
  char *full[CHUNKS];
  retain_everything();
  slices_begin_here();
  char *clean = slices_take(CHUNK), *other = slices_take(CHUNK);
  hak_arena_give(slice_of(clean, 3), SLICES);
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  for (size_t i = 0; i < CHUNKS; i++) {
    full[i] = slices_take(CHUNK);
  }
  for (size_t i = 0; i < CHUNKS; i++) {
    hak_arena_give(full[i], SLICES - 1);
    hak_arena_give(slice_of(full[i], 2 * SLICES), SLICES - 1);
  }
  hak_arena_give(other, 100);
  CHECK(slices_take(SLICES) == other);
}

/* Slices beside the tail of a huge block would keep the tail's chunk in use when the block is freed. So the search
 * treats the tail as free, and prefers other chunks. */
static void the_chunk_of_a_huge_block_is_filled_last(void) {
  enum { CHUNKS = 2, TAIL = 100, LESS = 40 };
  retain_everything();
  slices_begin_here();
  char *first = slices_take(CHUNK), *second = slices_take(CHUNK);
  hak_huge_chunks_give(chunks_take(CHUNKS + 1, 0));
  char *huge = chunks_take(CHUNKS, TAIL), *tail = chunk_of(huge, CHUNKS);
  hak_arena_give(first, TAIL);
  CHECK(slices_take(4) == first);
  hak_arena_give(slice_of(tail, LESS), TAIL - LESS); /* the huge block shrinks */
  CHECK(slices_take(4) == slice_of(first, 4));
  hak_arena_give(first, 8);
  hak_arena_give(second, CHUNK);
  char *alone = slices_take(CHUNK - 1); /* more than half of a chunk counts as a huge block, too */
  CHECK(alone == second && slices_take(1) == first && slices_take(1) == slice_of(first, 1));
  chunks_give(huge, LESS);
  hak_arena_give(alone, CHUNK - 1);
  slices_add_up();
  CHECK(chunks_take(CHUNKS + 1, 0) == huge && slices_take(CHUNK) == second);
}

static void a_row_tells_whether_it_is_zeroed(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *base = slices_take(4);
  hak_arena_give(slice_of(base, 3), 1);
  CHECK(slices_take_aligned(2, 1, &zeroed) == slice_of(base, 3) && !zeroed);
  CHECK(slices_take_aligned(2, 1, &zeroed) == slice_of(base, 5) && zeroed);
  CHECK(slices_take_aligned(CHUNK, 1, &zeroed) != NULL && zeroed);
}

/* It counts as dirty as a whole. */
static void a_chunk_that_is_all_free_still_has_its_zeros(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *base = slices_take(4);
  hak_arena_give(base, 4);
  CHECK(dirty_slices() == CHUNK);
  CHECK(slices_take_aligned(3, 1, &zeroed) == base && !zeroed);
  CHECK(slices_take_aligned(2, 1, &zeroed) == slice_of(base, 3) && !zeroed);
  CHECK(slices_take_aligned(2, 1, &zeroed) == slice_of(base, 5) && zeroed);
  slices_add_up();
  hak_arena_give(slice_of(base, 5), 2);
  hak_arena_give(base, 5);
  CHECK(slices_take_aligned(6, 1, &zeroed) == base && !zeroed);
  CHECK(!is_zeroed_at(slice_of(base, 6)) && is_zeroed_at(slice_of(base, 7)));
  slices_add_up();
}

static void rows_are_aligned(void) {
  bool zeroed;
  CHECK(slices_take(1) != NULL);
  for (size_t align = 1; align <= CHUNK; align *= 2) {
    for (size_t slices = 1; slices <= CHUNK; slices = slices < CHUNK / 2 ? slices * 2 + 1 : slices + CHUNK / 4) {
      CHECK(slices_take_aligned(slices, align, &zeroed) != NULL && zeroed);
    }
  }
  slices_add_up();
}

/* The longest run of one chunk may contain no aligned place, while a shorter run of another chunk does. */
static void an_aligned_row_is_found_in_any_chunk(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *first = slices_take(CHUNK), *second = slices_take(CHUNK);
  hak_arena_give(slice_of(first, 1), 7);
  hak_arena_give(slice_of(second, 64), 4);
  CHECK(hak_purge_all(0));
  CHECK(slices_take_aligned(4, 4, &zeroed) == slice_of(second, 64));
  CHECK(slices_take_aligned(4, 4, &zeroed) == slice_of(first, 4));
  slices_add_up();
}

static void part_of_a_row_can_be_given(void) {
  retain_everything();
  slices_begin_here();
  char *base = slices_take(CHUNK);
  hak_arena_give(slice_of(base, 5), 3);
  hak_arena_give(slice_of(base, 8), 2);
  hak_arena_give(slice_of(base, 2), 3);
  CHECK(hak_retain_used_slices() == CHUNK - 8 && dirty_slices() == 8);
  CHECK(slices_take(8) == slice_of(base, 2));
  slices_add_up();
}

/* A chunk becomes a free extent when all its slices are free, in whatever order they were freed. */
static void an_empty_chunk_is_whole_again(void) {
  retain_everything();
  slices_begin_here();
  char *base = slices_take(CHUNK);
  for (size_t i = 0; i < CHUNK; i++) {
    CHECK(hak_pagemap_chunk(base)->state == HAK_CHUNK_SLICED);
    hak_arena_give(slice_of(base, i * 37 % CHUNK), 1);
  }
  CHECK(is_only_extent(true, base, 1));
  slices_add_up();
  CHECK(slices_take(CHUNK) == base);
}

static void a_row_grows_where_slices_are_free(void) {
  slices_begin_here();
  char *base = slices_take(4), *behind = slices_take(1);
  CHECK(behind == slice_of(base, 4) && !hak_arena_extend(base, 4, 1));
  hak_arena_give(behind, 1);
  CHECK(hak_arena_extend(base, 4, 1) && hak_arena_extend(base, 5, 0));
  CHECK(hak_arena_extend(base, 5, CHUNK - 5));
  CHECK(hak_retain_used_slices() == CHUNK && hak_arena_totals().mapped_slices == CHUNK);
  CHECK(!hak_arena_extend(base, CHUNK, 1)); /* a run never extends into another chunk */
  CHECK(!hak_arena_extend(base, 4, CHUNK - 3) && !hak_arena_extend(base, 4, SIZE_MAX / 2));
  hak_arena_give(slice_of(base, 10), CHUNK - 10);
  CHECK(!hak_arena_extend(base, 9, 2) && hak_arena_extend(base, 10, 2));
  CHECK(hak_retain_used_slices() == 12);
  slices_add_up();
}

static void addresses_are_known(void) {
  retain_everything();
  slices_begin_here();
  CHECK(hak_arena_why("a literal") == HAK_MISUSE_INVALID && hak_arena_why(NULL) == HAK_MISUSE_INVALID);
  char *base = slices_take(4);
  CHECK(hak_arena_why(base) == HAK_MISUSE_NOT_START && hak_arena_why(slice_of(base, 4) - 1) == HAK_MISUSE_NOT_START);
  CHECK(hak_arena_why(slice_of(base, 4)) == HAK_MISUSE_INVALID); /* it was never handed out */
  CHECK(hak_arena_why(base - 1) == HAK_MISUSE_INVALID);
  hak_arena_give(slice_of(base, 1), 2);
  CHECK(hak_arena_why(slice_of(base, 2)) == HAK_MISUSE_DOUBLE_FREE && hak_arena_why(base) == HAK_MISUSE_NOT_START);
  CHECK(hak_purge_all(0) && hak_arena_why(slice_of(base, 2)) == HAK_MISUSE_DOUBLE_FREE);
  hak_arena_give(base, 1);
  hak_arena_give(slice_of(base, 3), 1);
  CHECK(hak_pagemap_chunk(base)->state == HAK_CHUNK_FREE && hak_arena_why(base) == HAK_MISUSE_DOUBLE_FREE);
  CHECK(hak_purge_all(0) && hak_pagemap_chunk(base)->state == HAK_CHUNK_GONE);
  CHECK(hak_arena_why(base) == HAK_MISUSE_DOUBLE_FREE);
  char *huge = chunks_take(3, 5);
  CHECK(hak_arena_why(huge) == HAK_MISUSE_NOT_START && hak_arena_why(chunk_of(huge, 3) - 1) == HAK_MISUSE_NOT_START);
  CHECK(hak_arena_why(chunk_of(huge, 3)) == HAK_MISUSE_NOT_START);
  CHECK(hak_arena_why(slice_of(chunk_of(huge, 3), 5)) == HAK_MISUSE_INVALID);
  hak_huge_chunks_give(huge);
  CHECK(hak_arena_why(huge) == HAK_MISUSE_DOUBLE_FREE &&
        hak_arena_why(chunk_of(huge, 3) - 1) == HAK_MISUSE_DOUBLE_FREE);
}

static void totals_add_up(void) {
  retain_everything();
  char *huge = chunks_take(2, 5);
  hak_arena_give(chunk_of(huge, 2), 5);
  hak_arena_totals_t totals = hak_arena_totals();
  CHECK(totals.used_slices == 2 * CHUNK && totals.mapped_slices == 3 * CHUNK);
  CHECK(totals.dirty_slices >= 5 && totals.dirty_slices <= CHUNK);
  CHECK(totals.mapped_ever == 3 * CHUNK && totals.unmapped_ever == 0);
  hak_huge_chunks_give(huge);
  CHECK(hak_purge_all(0));
  totals = hak_arena_totals();
  CHECK(totals.used_slices == 0 && totals.dirty_slices == 0);
  CHECK(totals.mapped_slices + totals.unmapped_ever == 3 * CHUNK);
  slices_add_up();
}

static size_t slabs_seen;

static void see_slab(hak_slab_t *slab, void *context) {
  const hak_slabs_t *slabs = hak_pagemap_chunk(context)->slabs;
  slabs_seen += slab >= slabs->slab && slab < slabs->slab + HAK_CHUNK_SLABS;
}

static void every_slab_is_visited(void) {
  slices_begin_here();
  char *first = slices_take(CHUNK), *second = slices_take(1), *huge = chunks_take(1, 0);
  hak_arena_each_slab(see_slab, first);
  CHECK(slabs_seen == HAK_CHUNK_SLABS);
  hak_arena_each_slab(see_slab, second);
  CHECK(slabs_seen == 2 * (size_t)HAK_CHUNK_SLABS);
  hak_huge_chunks_give(huge);
  hak_arena_give(first, CHUNK);
  slabs_seen = 0;
  hak_arena_each_slab(see_slab, second);
  CHECK(slabs_seen == HAK_CHUNK_SLABS);
}

static uint64_t advices(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.madvise;
}

/* The first 32 MiB get small pages. From 128 MiB up, the option decides. */
static void only_dense_heaps_ask_for_huge_pages(void) {
  enum { SMALL_CHUNKS = 16, DENSE_CHUNKS = 64 };
  CHECK(chunks_take(1, 0) != NULL);
  for (size_t i = 1; i < SMALL_CHUNKS; i++) {
    uint64_t before = advices();
    CHECK(chunks_take(1, 0) != NULL && advices() == before + 1);
  }
  uint64_t before = advices();
  CHECK(chunks_take(1, 0) != NULL && chunks_take(1, 0) != NULL && advices() == before);
  CHECK(hak_option_set("HUGE_PAGES", "dense") == 0);
  CHECK(chunks_take(1, 0) != NULL && advices() == before); /* too few are in use */
  CHECK(chunks_take(DENSE_CHUNKS, 0) != NULL && advices() == before);
  CHECK(chunks_take(1, 0) != NULL && advices() == before + 1);
  CHECK(hak_option_set("HUGE_PAGES", "off") == 0);
  CHECK(chunks_take(1, 0) != NULL && advices() == before + 1);
}

static void print_first_place(void) {
  char text[32];
  int length = snprintf(text, sizeof text, "%jx", (uintmax_t)(uintptr_t)slices_take(1));
  hak_os_write_error(text, (size_t)length);
}

/* The runs are children of one process, with the same memory layout. So the kernel's own choice is the same for all. */
static void the_first_slice_lies_at_random(void) {
  enum { RUNS = 24 };
  uintptr_t places[RUNS], chunks = 0, slices = 0;
  int same = 0;
  for (int i = 0; i < RUNS; i++) {
    ChildResult result;
    child_run(print_first_place, &result);
    places[i] = strtoul(result.errors, NULL, 16);
    CHECK(result.status == 0 && places[i] != 0);
    chunks |= (places[i] ^ places[0]) >> HAK_CHUNK_SHIFT;
    slices |= (places[i] ^ places[0]) >> HAK_SLICE_SHIFT & (HAK_CHUNK_SLICES - 1);
    for (int j = 0; j < i; j++) {
      same += places[i] == places[j];
    }
  }
  CHECK(same <= 1); /* two of the 2^17 places may coincide */
  CHECK(slices == HAK_CHUNK_SLICES - 1 && hak_count_bits(chunks) >= 9);
}

static char *taken;

static void go_on_in_child(void) {
  slices_in_child();
  CHECK(slices_take(1) == slice_of(taken, 1));
  slices_add_up();
}

static void it_survives_a_fork(void) {
  slices_begin_here();
  taken = slices_take(1);
  slices_fork(go_on_in_child);
  CHECK(slices_take(1) == slice_of(taken, 1));
}

int main(void) {
  child_succeeds(a_chunk_is_filled_before_the_next);
  child_succeeds(the_best_row_is_taken);
  child_succeeds(dirty_slices_are_used_again);
  child_succeeds(dirty_slices_come_before_clean_ones);
  child_succeeds(the_fullest_chunk_is_filled);
  child_succeeds(a_resident_row_is_found_behind_many_chunks);
  child_succeeds(the_chunk_of_a_huge_block_is_filled_last);
  child_succeeds(a_row_tells_whether_it_is_zeroed);
  child_succeeds(a_chunk_that_is_all_free_still_has_its_zeros);
  child_succeeds(rows_are_aligned);
  child_succeeds(an_aligned_row_is_found_in_any_chunk);
  child_succeeds(part_of_a_row_can_be_given);
  child_succeeds(an_empty_chunk_is_whole_again);
  child_succeeds(a_row_grows_where_slices_are_free);
  child_succeeds(addresses_are_known);
  child_succeeds(totals_add_up);
  child_succeeds(every_slab_is_visited);
  child_succeeds(only_dense_heaps_ask_for_huge_pages);
  the_first_slice_lies_at_random();
  child_succeeds(it_survives_a_fork);
  return 0;
}
