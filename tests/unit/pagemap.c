/* The page map: the class and the chunk of any address, leaves that are made once, and iteration over all chunks. */
#include "pages/pagemap.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "system.h"
#include "system/os.h"

#define LEAF_BYTES ((uintptr_t)1 << HAK_LEAF_SHIFT)

/* The memory is never touched: only its address counts. */
static char *place(uintptr_t address) {
  return hide_pointer((const char *)address); /* NOLINT(performance-no-int-to-ptr) */
}

/* A range of two chunks, which begins in one leaf and ends in the next. */
static char *border(void) {
  return place(5 * LEAF_BYTES - HAK_CHUNK_BYTES);
}

static bool is_unknown(const char *address) {
  return hak_pagemap_leaf(address) == 0 && hak_pagemap_class(address) == HAK_CLASS_NONE &&
         hak_pagemap_chunk(address) == NULL;
}

static void nothing_is_known_at_first(void) {
  CHECK(is_unknown(NULL) && is_unknown("a literal") && is_unknown(place(UINTPTR_MAX)));
  for (uintptr_t bit = 1; bit != 0; bit <<= 1) {
    CHECK(is_unknown(place(bit)) && is_unknown(place(bit - 1)) && is_unknown(place(~bit)));
  }
  CHECK(hak_pagemap_next_sliced(NULL) == NULL);
}

static void only_what_is_covered_is_known(void) {
  CHECK(hak_pagemap_cover(border(), (size_t)2 * HAK_CHUNK_BYTES));
  CHECK(hak_pagemap_leaf(border()) != 0 && hak_pagemap_leaf(border() + HAK_CHUNK_BYTES) != 0);
  CHECK(hak_pagemap_leaf(border()) != hak_pagemap_leaf(border() + HAK_CHUNK_BYTES));
  CHECK(is_unknown(border() - LEAF_BYTES) && is_unknown(border() + HAK_CHUNK_BYTES + LEAF_BYTES));
  CHECK(hak_pagemap_class(border()) == HAK_CLASS_NONE && hak_pagemap_chunk(border()) == NULL);
}

/* A range that ends at the end of a leaf needs no second leaf. */
static void a_leaf_is_made_once(void) {
  hak_os_counts_t before, after;
  hak_os_read_counts(&before);
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 1);
  CHECK(is_unknown(border() + HAK_CHUNK_BYTES));
  uintptr_t leaf = hak_pagemap_leaf(border());
  CHECK(hak_pagemap_cover(border() - 7 * (size_t)HAK_CHUNK_BYTES, (size_t)8 * HAK_CHUNK_BYTES));
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 1 && hak_pagemap_leaf(border()) == leaf);
}

static void classes_are_those_that_were_set(void) {
  CHECK(hak_pagemap_cover(border(), (size_t)2 * HAK_CHUNK_BYTES));
  for (uint32_t cls = 1; cls <= HAK_CLASS_SAMPLED; cls++) {
    char *slice = border() + ((size_t)cls << HAK_SLICE_SHIFT);
    hak_pagemap_set_class(slice, 1, cls);
    CHECK(hak_pagemap_class(slice) == cls && hak_pagemap_class(slice + HAK_SLICE_BYTES - 1) == cls);
    CHECK(hak_pagemap_class(slice - 1) == (cls > 1 ? cls - 1 : HAK_CLASS_NONE));
    CHECK(hak_pagemap_class(slice + HAK_SLICE_BYTES) == HAK_CLASS_NONE);
    uint32_t code = *hak_pagemap_code(hak_pagemap_leaf(slice), slice);
    CHECK(code == hak_code_of(cls) && hak_code_class(code) == cls);
    CHECK((code == cls * HAK_BIN_WORDS) == (cls < HAK_CLASS_HUGE)); /* the code leads to a bin */
  }
  char *last = place(5 * LEAF_BYTES) - HAK_SLICE_BYTES;
  hak_pagemap_set_class(last, 1, 3);
  CHECK(hak_pagemap_class(last) == 3 && hak_pagemap_class(last + HAK_SLICE_BYTES) == HAK_CLASS_NONE);
  hak_pagemap_set_class(last + HAK_SLICE_BYTES, 4, 9);
  for (size_t i = 0; i < 4; i++) {
    CHECK(hak_pagemap_class(last + HAK_SLICE_BYTES + (i << HAK_SLICE_SHIFT)) == 9);
  }
  CHECK(hak_pagemap_class(last + 5 * (size_t)HAK_SLICE_BYTES) == HAK_CLASS_NONE && hak_pagemap_class(last) == 3);
}

static void a_class_is_cleared_once(void) {
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_pagemap_set_class(border(), 2, 7);
  CHECK(!hak_pagemap_clear_class(border(), 8) && hak_pagemap_class(border()) == 7);
  CHECK(hak_pagemap_clear_class(border(), 7) && hak_pagemap_class(border()) == HAK_CLASS_NONE);
  CHECK(!hak_pagemap_clear_class(border(), 7));
  CHECK(hak_pagemap_class(border() + HAK_SLICE_BYTES) == 7);
}

static void chunks_are_those_that_were_set(void) {
  hak_chunk_t chunk = {.state = HAK_CHUNK_HUGE};
  CHECK(hak_pagemap_cover(border() - HAK_CHUNK_BYTES, (size_t)4 * HAK_CHUNK_BYTES));
  hak_pagemap_set_chunk(border(), 2, &chunk); /* in two leaves */
  CHECK(hak_pagemap_chunk(border()) == &chunk &&
        hak_pagemap_chunk(border() + 2 * (size_t)HAK_CHUNK_BYTES - 1) == &chunk);
  CHECK(!hak_pagemap_chunk(border() + HAK_LEAVES * LEAF_BYTES)); /* no possible address */
  CHECK(!hak_pagemap_chunk(border() - 1) && !hak_pagemap_chunk(border() + 2 * (size_t)HAK_CHUNK_BYTES));
  hak_pagemap_set_chunk(border() + HAK_CHUNK_BYTES, 1, NULL);
  CHECK(hak_pagemap_chunk(border()) == &chunk && !hak_pagemap_chunk(border() + HAK_CHUNK_BYTES));
}

/* One entry may stand for a whole span. Every lookup must return the chunk that was set last, however the span is split
 * and set again. */
static void a_span_is_told_once_and_cut(void) {
  static hak_chunk_t huge = {.state = HAK_CHUNK_HUGE}, slabs = {.state = HAK_CHUNK_SLICED};
  enum { SPANS = 3, CHUNKS = SPANS * HAK_SPAN_CHUNKS, CUT = HAK_SPAN_CHUNKS + 7 };
  char *base = place(6 * LEAF_BYTES + (LEAF_BYTES - (uintptr_t)HAK_SPAN_CHUNKS * HAK_CHUNK_BYTES)); /* in two leaves */
  hak_chunk_t *wanted[CHUNKS] = {NULL};
  CHECK(hak_pagemap_cover(base, (size_t)CHUNKS << HAK_CHUNK_SHIFT));
  static const struct {
    size_t first, count;
    hak_chunk_t *chunk;
  } steps[] = {
      {3, 1, &hak_chunk_gone},
      {0, CHUNKS, &huge},                   /* whole spans */
      {CUT, CHUNKS - CUT, &hak_chunk_gone}, /* the block shrinks */
      {0, CHUNKS, &huge},                   /* the block grows again; one span has entries of its own */
      {0, CHUNKS, &hak_chunk_gone},         /* freed */
      {CUT, 1, &slabs},
      {CUT, 1, &hak_chunk_gone},
      {5, CHUNKS - 5, &huge}, /* begins inside a span */
      {CUT, 1, &huge},        /* sets the present value, which splits the span */
      {5, CHUNKS - 5, &hak_chunk_gone},
      {0, HAK_SPAN_CHUNKS / 2, &huge}, /* a span is set in two halves */
      {HAK_SPAN_CHUNKS / 2, HAK_SPAN_CHUNKS / 2, &huge},
      {0, HAK_SPAN_CHUNKS, &hak_chunk_gone},
  };
  for (size_t step = 0; step < sizeof steps / sizeof *steps; step++) {
    hak_pagemap_set_chunk(base + (steps[step].first << HAK_CHUNK_SHIFT), steps[step].count, steps[step].chunk);
    for (size_t i = 0; i < CHUNKS; i++) {
      wanted[i] = i >= steps[step].first && i < steps[step].first + steps[step].count ? steps[step].chunk : wanted[i];
      CHECK(hak_pagemap_chunk(base + (i << HAK_CHUNK_SHIFT)) == wanted[i]);
    }
  }
}

static void a_slab_has_its_descriptor(void) {
  static hak_slabs_t slabs;
  hak_chunk_t chunk = {.state = HAK_CHUNK_SLICED, .slabs = &slabs};
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_pagemap_set_chunk(border(), 1, &chunk);
  for (size_t i = 0; i < HAK_CHUNK_SLABS; i++) {
    CHECK(hak_pagemap_slab(border() + (i << HAK_SLAB_SHIFT)) == &slabs.slab[i]);
    CHECK(hak_pagemap_slab(border() + ((i + 1) << HAK_SLAB_SHIFT) - 1) == &slabs.slab[i]);
  }
}

static void all_chunks_come_in_a_row(void) {
  enum { CHUNKS = 7 };
  static const uintptr_t leaves[CHUNKS] = {9, 9, 9, 3, 3, 70, HAK_LEAVES - 1};
  static const uintptr_t numbers[CHUNKS] = {0, 1, HAK_LEAF_CHUNKS - 1, 0, 17, 5, HAK_LEAF_CHUNKS - 1};
  hak_chunk_t chunks[CHUNKS], huge = {.state = HAK_CHUNK_HUGE}, gone = {.state = HAK_CHUNK_GONE};
  for (size_t i = 0; i < CHUNKS; i++) {
    char *base = place(leaves[i] * LEAF_BYTES + numbers[i] * HAK_CHUNK_BYTES);
    chunks[i] = (hak_chunk_t){.state = HAK_CHUNK_SLICED, .base = base};
    CHECK(hak_pagemap_cover(base, HAK_CHUNK_BYTES));
    hak_pagemap_set_chunk(base, 1, &chunks[i]);
  }
  hak_pagemap_set_chunk(place(9 * LEAF_BYTES + 5 * (uintptr_t)HAK_CHUNK_BYTES), 3, &huge);
  hak_pagemap_set_chunk(place(70 * LEAF_BYTES), 2, &gone);
  uint32_t seen = 0;
  for (hak_chunk_t *chunk = NULL; (chunk = hak_pagemap_next_sliced(chunk));) {
    CHECK(chunk >= chunks && chunk < chunks + CHUNKS && !(seen >> (chunk - chunks) & 1));
    seen |= 1U << (chunk - chunks);
  }
  CHECK(seen == (1U << CHUNKS) - 1);
}

static long page_faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

/* At the exit of a small program, a walk through all of the leaf's chunk table would be a page fault for each span. */
static void a_walk_touches_no_empty_span(void) {
  hak_chunk_t chunk = {.state = HAK_CHUNK_SLICED, .base = border()};
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_pagemap_set_chunk(border(), 1, &chunk);
  long before = page_faults();
  CHECK(hak_pagemap_next_sliced(NULL) == &chunk && hak_pagemap_next_sliced(&chunk) == NULL);
  CHECK(page_faults() - before < 12);
}

static void without_memory_there_is_no_leaf(void) {
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  CHECK(!hak_pagemap_cover(border(), (size_t)2 * HAK_CHUNK_BYTES));
  CHECK(is_unknown(border() + HAK_CHUNK_BYTES));
  system_allow();
  CHECK(hak_pagemap_cover(border(), (size_t)2 * HAK_CHUNK_BYTES));
}

/* If a limit on writable memory refuses the whole leaf, it is made piece by piece, like any other. */
static void a_leaf_for_a_huge_range_is_made_in_one_call(void) {
  size_t huge = (size_t)1 << 30;
  hak_os_counts_t before, after, refused;
  hak_os_read_counts(&before);
  CHECK(hak_pagemap_cover(place(4 * LEAF_BYTES), huge));
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 1 && after.mprotect == before.mprotect);
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(hak_pagemap_cover(place(8 * LEAF_BYTES), huge));
  hak_os_read_counts(&refused);
  CHECK(refused.mprotect == after.mprotect + 3);
  for (size_t leaf = 4; leaf <= 8; leaf += 4) { /* the end of the leaf, which is writable only in the first one */
    char *last = place((leaf + 1) * LEAF_BYTES - HAK_CHUNK_BYTES);
    CHECK(hak_pagemap_cover(last, HAK_CHUNK_BYTES));
    hak_pagemap_set_class(last, 1, 7);
    CHECK(hak_pagemap_class(last) == 7 && hak_pagemap_class(place(leaf * LEAF_BYTES)) == HAK_CLASS_NONE);
  }
  hak_os_read_counts(&after);
  CHECK(after.mprotect == refused.mprotect + 2);
}

/* If the kernel refuses to change the tables' protection, they are mapped anew. If that fails, too, a later call can
 * try again. */
static void tables_are_made_writable_piece_by_piece(void) {
  hak_os_counts_t before, after;
  char *last = border() + HAK_CHUNK_BYTES - HAK_SLICE_BYTES;
  CHECK(hak_pagemap_cover(place(20 * LEAF_BYTES), HAK_CHUNK_BYTES)); /* all tables of the first leaf are writable */
  hak_os_read_counts(&before);
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 1 && after.mprotect == before.mprotect + 3);
  hak_pagemap_set_class(last, 1, 5);
  char *first = border() + HAK_CHUNK_BYTES - LEAF_BYTES;
  CHECK(hak_pagemap_class(first) == HAK_CLASS_NONE);
  system_refuse(SYSTEM_MPROTECT, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(!hak_pagemap_cover(first, HAK_CHUNK_BYTES) && hak_pagemap_class(first) == HAK_CLASS_NONE);
  CHECK(hak_pagemap_cover(first, HAK_CHUNK_BYTES) && hak_pagemap_class(first) == HAK_CLASS_NONE);
  hak_pagemap_set_class(first, 3, 6);
  CHECK(hak_pagemap_class(first) == 6 && hak_pagemap_class(last) == 5);
  CHECK(hak_pagemap_cover(border(), (size_t)2 * HAK_CHUNK_BYTES)); /* a whole leaf anew */
  hak_pagemap_set_class(border() + HAK_CHUNK_BYTES, 1, 7);
  CHECK(hak_pagemap_class(last) == 5 && hak_pagemap_class(border() + HAK_CHUNK_BYTES) == 7);
}

static char *claimed;

/* In the child, the thread that was making the piece writable does not exist. */
static void cover_in_the_child(void) {
  alarm(10);
  hak_pagemap_fork_child();
  CHECK(hak_pagemap_cover(claimed, HAK_CHUNK_BYTES));
  hak_pagemap_set_class(claimed, 1, 9);
  CHECK(hak_pagemap_class(claimed) == 9);
}

static void fork_in_the_middle(void) {
  child_succeeds(cover_in_the_child);
}

static void a_fork_meets_half_made_pieces(void) {
  CHECK(hak_pagemap_cover(place(20 * LEAF_BYTES), HAK_CHUNK_BYTES)); /* all tables of the first leaf are writable */
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_pagemap_set_class(border(), 1, 5);
  claimed = border() + HAK_CHUNK_BYTES - LEAF_BYTES;
  system_during(SYSTEM_MPROTECT, fork_in_the_middle);
  CHECK(hak_pagemap_cover(claimed, HAK_CHUNK_BYTES));
  CHECK(system_was_during() && hak_pagemap_class(claimed) == HAK_CLASS_NONE && hak_pagemap_class(border()) == 5);
}

static void cover_first_codes(void) {
  CHECK(hak_pagemap_cover(border() + HAK_CHUNK_BYTES - LEAF_BYTES, HAK_SLICE_BYTES));
}

/* The other thread makes the first of the codes writable, and the first entries. Here the last ones are needed. */
static void another_thread_makes_the_leaf_meanwhile(void) {
  CHECK(hak_pagemap_cover(place(20 * LEAF_BYTES), HAK_CHUNK_BYTES)); /* all tables of the first leaf are writable */
  system_during(SYSTEM_MMAP, cover_first_codes);
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  CHECK(system_was_during());
  hak_pagemap_set_class(border(), 1, 5);
  CHECK(hak_pagemap_class(border()) == 5);
}

/* Every piece, and every chunk pointer. */
static void all_of_a_leaf_can_be_covered(void) {
  static hak_chunk_t chunk;
  char *base = place(5 * LEAF_BYTES);
  CHECK(hak_pagemap_cover(base, LEAF_BYTES) && is_unknown(base + LEAF_BYTES) && is_unknown(base - 1));
  hak_pagemap_set_class(base, HAK_LEAF_SLICES, 1);
  hak_pagemap_set_chunk(base, HAK_LEAF_CHUNKS, &chunk);
  CHECK(hak_pagemap_class(base + LEAF_BYTES - 1) == 1 && hak_pagemap_chunk(base + LEAF_BYTES - 1) == &chunk);
  CHECK(is_unknown(base + LEAF_BYTES) && is_unknown(base - 1));
}

static void beyond_all_addresses_there_is_none(void) {
  char *end = place(HAK_LEAVES * LEAF_BYTES);
  CHECK(hak_pagemap_cover(end - HAK_CHUNK_BYTES, HAK_CHUNK_BYTES));
  CHECK(!hak_pagemap_cover(end - HAK_CHUNK_BYTES, (size_t)2 * HAK_CHUNK_BYTES) && !hak_pagemap_cover(end, 1));
  CHECK(is_unknown(end));
}

enum { THREADS = 4, LEAVES = 40 };
static pthread_barrier_t barrier;

static void *cover_all(void *number) {
  pthread_barrier_wait(&barrier);
  for (uintptr_t leaf = 0; leaf < LEAVES; leaf++) {
    CHECK(hak_pagemap_cover(place((100 + leaf) * LEAF_BYTES), HAK_CHUNK_BYTES));
    char *mine = place((100 + leaf) * LEAF_BYTES + (uintptr_t) * (int *)number * HAK_SLICE_BYTES);
    CHECK(hak_pagemap_class(mine) == HAK_CLASS_NONE);
    hak_pagemap_set_class(mine, 1, 1 + (uint32_t) * (int *)number);
  }
  return NULL;
}

/* If two threads make a leaf, the second one's is unmapped, and no code that a thread wrote is lost. */
static void threads_make_leaves_at_once(void) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  hak_os_counts_t before, after;
  hak_os_read_counts(&before);
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    CHECK(pthread_create(&threads[i], NULL, cover_all, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  hak_os_read_counts(&after);
  CHECK(after.mmap - before.mmap == LEAVES + after.munmap - before.munmap);
  for (uintptr_t leaf = 0; leaf < LEAVES; leaf++) {
    for (uint32_t i = 0; i < THREADS; i++) {
      CHECK(hak_pagemap_class(place((100 + leaf) * LEAF_BYTES + i * (uintptr_t)HAK_SLICE_BYTES)) == 1 + i);
    }
  }
}

static uintptr_t made_meanwhile;

static void make_it_first(void) {
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  made_meanwhile = hak_pagemap_leaf(border());
}

static void the_first_leaf_stays(void) {
  hak_os_counts_t before, after;
  hak_os_read_counts(&before);
  system_during(SYSTEM_MMAP, make_it_first);
  CHECK(hak_pagemap_cover(border(), HAK_CHUNK_BYTES));
  hak_os_read_counts(&after);
  CHECK(system_was_during() && hak_pagemap_leaf(border()) == made_meanwhile && made_meanwhile != 0);
  CHECK(after.mmap == before.mmap + 2 && after.munmap == before.munmap + 1);
}

int main(void) {
  child_succeeds(nothing_is_known_at_first);
  child_succeeds(only_what_is_covered_is_known);
  child_succeeds(a_leaf_is_made_once);
  child_succeeds(classes_are_those_that_were_set);
  child_succeeds(a_class_is_cleared_once);
  child_succeeds(chunks_are_those_that_were_set);
  child_succeeds(a_span_is_told_once_and_cut);
  child_succeeds(a_slab_has_its_descriptor);
  child_succeeds(all_chunks_come_in_a_row);
  child_succeeds(a_walk_touches_no_empty_span);
  child_succeeds(without_memory_there_is_no_leaf);
  child_succeeds(tables_are_made_writable_piece_by_piece);
  child_succeeds(a_leaf_for_a_huge_range_is_made_in_one_call);
  child_succeeds(a_fork_meets_half_made_pieces);
  child_succeeds(another_thread_makes_the_leaf_meanwhile);
  child_succeeds(all_of_a_leaf_can_be_covered);
  child_succeeds(beyond_all_addresses_there_is_none);
  child_succeeds(threads_make_leaves_at_once);
  child_succeeds(the_first_leaf_stays);
  return 0;
}
