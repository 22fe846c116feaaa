/* Pages as large as slabs: which chunks ask for them, when, and that no larger pages result. The test imitates the
 * kernel's answer, the memory that one touch makes resident. */
#include <stdlib.h>
#include <sys/mman.h>

#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum { SLAB = HAK_SLAB_SLICES, SMALL_CHUNKS = 4, SMALL_PAGES_CHUNKS = 16 };

static size_t slab_pages; /* pages in a slab */

static char *slab_take(void) {
  bool zeroed;
  return slices_take_aligned(SLAB, SLAB, &zeroed);
}

/* Takes slabs until so many more chunks are mapped. Returns the last slab. */
static char *grow(size_t chunks) {
  char *slab = NULL;
  for (size_t until = hak_arena_totals().mapped_slices + chunks * CHUNK; hak_arena_totals().mapped_slices < until;) {
    slab = slab_take();
    CHECK(slab != NULL);
  }
  return slab;
}

typedef struct Advice {
  size_t prefer, avoid;
} Advice;

static Advice advice(void) {
  return (Advice){system_advices(MADV_HUGEPAGE), system_advices(MADV_NOHUGEPAGE)};
}

/* Whether the next chunk for slabs causes so many calls of advice for huge pages, and so many against them. */
static bool chunk_brings(size_t prefer, size_t avoid) {
  Advice before = advice();
  grow(1);
  return advice().prefer == before.prefer + prefer && advice().avoid == before.avoid + avoid;
}

static void begin(size_t pages) {
  retain_everything();
  system_set_fault_pages(pages);
  slices_begin_here();
  hak_huge_pages_try_mthp();
  grow(SMALL_CHUNKS);
}

static void begin_medium(void) {
  begin(slab_pages);
  grow(1);
  CHECK(hak_arena.mthp);
}

static void small_programs_are_not_asked_about(void) {
  retain_everything();
  system_set_fault_pages(slab_pages);
  hak_huge_pages_try_mthp();
  for (size_t i = 0; i < SMALL_CHUNKS; i++) {
    CHECK(chunk_brings(0, 1));
  }
  for (size_t i = 0; i < SMALL_PAGES_CHUNKS; i++) {
    CHECK(chunk_brings(1, 0) && hak_arena.mthp);
  }
}

static void nothing(void) {}

static void the_setting_is_read_once(void) {
  retain_everything();
  slices_begin_here();
  grow(SMALL_CHUNKS + 1);
  system_during(SYSTEM_OPEN, nothing);
  grow(SMALL_CHUNKS);
  CHECK(!system_was_during());
}

/* If one touch makes a single page or too many pages resident, or the kernel does not say, no mTHP are used. */
static void are_not_wanted(size_t pages) {
  begin(pages);
  for (size_t i = SMALL_CHUNKS; i < SMALL_PAGES_CHUNKS; i++) {
    CHECK(chunk_brings(0, 1));
  }
  CHECK(chunk_brings(0, 0) && !hak_arena.mthp);
}

static void small_ones_are_not_wanted(void) {
  are_not_wanted(1);
}

static void large_ones_are_not_wanted(void) {
  are_not_wanted(slab_pages * 4);
}

static void unknown_ones_are_not_wanted(void) {
  are_not_wanted(0);
}

static void a_slice_is_large_enough(void) {
  begin(slab_pages / SLAB);
  CHECK(slab_pages / SLAB > 1 ? chunk_brings(1, 0) : chunk_brings(0, 1));
}

static void two_slabs_are_not_too_large(void) {
  begin(slab_pages * 2);
  CHECK(chunk_brings(1, 0) && hak_arena.mthp);
}

/* If the kernel refuses the first advice, it is not given again. A later refusal affects only its chunk. */
static void refusal_is_an_answer(void) {
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  begin(slab_pages);
  system_allow();
  CHECK(chunk_brings(0, 1) && !hak_arena.mthp);
  slices_add_up();
}

static void a_late_refusal_is_for_one_chunk(void) {
  begin_medium();
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  CHECK(chunk_brings(1, 1));
  system_allow();
  CHECK(chunk_brings(1, 0) && hak_arena.mthp);
  slices_add_up();
}

static void nobody_asks_where_they_are_off(void) {
  CHECK(hak_option_set("HUGE_PAGES", "off") == 0);
  begin(slab_pages);
  CHECK(chunk_brings(0, 1));
  CHECK(hak_option_set("HUGE_PAGES", "dense") == 0);
  CHECK(chunk_brings(0, 1));
  CHECK(hak_option_set("HUGE_PAGES", "auto") == 0);
  CHECK(chunk_brings(1, 0) && hak_arena.mthp);
}

static void the_lean_profile_does_without(void) {
  set_variable("HAKMEM_PROFILE=lean");
  begin(slab_pages);
  CHECK(chunk_brings(0, 1));
}

/* Chunks for runs or huge blocks get no such advice. */
static void other_chunks_get_none(void) {
  begin_medium();
  Advice before = advice();
  CHECK(chunks_take(1, 0) != NULL && slices_take(CHUNK) != NULL);
  CHECK(advice().prefer == before.prefer && advice().avoid == before.avoid + 2);
  for (size_t mapped = hak_arena_totals().mapped_slices; hak_arena_totals().mapped_slices == mapped;) {
    CHECK(slices_take(SLAB) != NULL); /* runs as long as a slab */
  }
  CHECK(advice().prefer == before.prefer && advice().avoid == before.avoid + 3);
  grow(SMALL_PAGES_CHUNKS);
  before = advice();
  CHECK(chunks_take(1, 0) != NULL && slices_take(CHUNK) != NULL);
  CHECK(advice().prefer == before.prefer && advice().avoid == before.avoid);
}

/* In a large heap no chunk gets the advice, so that few mappings are needed. */
static void a_large_heap_gets_none(void) {
  begin_medium();
  size_t mapped = hak_arena.mapped_slices;
  hak_arena.mapped_slices = ((size_t)8 << 30 >> HAK_SLICE_SHIFT) - CHUNK;
  CHECK(chunk_brings(1, 0) && chunk_brings(0, 0));
  hak_arena.mapped_slices -= ((size_t)8 << 30 >> HAK_SLICE_SHIFT) - CHUNK - mapped;
  slices_add_up();
}

/* Slabs and runs fill different chunks; they share only slices that are resident already. */
static void slabs_lie_apart(void) {
  begin_medium();
  char *slab = slab_take(), *run = slices_take(SLAB - 1);
  const hak_chunk_t *slabs = hak_pagemap_chunk(slab), *runs = hak_pagemap_chunk(run);
  CHECK(slabs != runs && slabs->for_slabs && !runs->for_slabs);
  CHECK(hak_pagemap_chunk(slab_take()) == slabs && hak_pagemap_chunk(slices_take(1)) == runs);
  CHECK(hak_pagemap_chunk(slices_take(SLAB)) == runs); /* a run as long as a slab is not aligned like one */
  hak_arena_give(slab, SLAB);
  CHECK(slices_take(1) == slab && slices_take(SLAB - 1) == slice_of(slab, 1));
  CHECK(hak_pagemap_chunk(slices_take(SLAB - 1)) == runs);
  slices_add_up();
}

/* Memory is given back from both kinds of chunks. */
static void both_kinds_go_back(void) {
  begin_medium();
  char *slab = slab_take(), *run = slices_take(SLAB - 1);
  slices_take(1);
  hak_arena_give(slab, SLAB);
  hak_arena_give(run, SLAB - 1);
  CHECK(dirty_slices() == 2 * SLAB - 1);
  CHECK(hak_purge_all(0) && dirty_slices() == 0);
  slices_add_up();
}

/* A chunk that became empty can serve either kind. */
static void an_empty_chunk_is_of_no_kind(void) {
  begin_medium();
  char *slab = grow(1);
  CHECK(hak_pagemap_chunk(slab)->for_slabs);
  hak_arena_give(slab, SLAB);
  CHECK(hak_pagemap_chunk(slab)->state == HAK_CHUNK_FREE && !hak_pagemap_chunk(slab)->for_slabs);
}

/* Without memory for another chunk, free slices of either kind are used. */
static void in_need_they_share(void) {
  begin_medium();
  slab_take();
  slices_take(1);
  size_t free = hak_arena_totals().mapped_slices - hak_retain_used_slices();
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  for (; free > 0; free--) {
    CHECK(slices_take(1) != NULL);
  }
  CHECK(slices_take(1) == NULL);
  slices_add_up();
}

typedef struct Range {
  uintptr_t begin, end;
} Range;

/* The mappings with the advice: their number and bytes. */
typedef struct Asked {
  size_t mappings, bytes;
} Asked;

static void add_range(Range range, Asked *asked) {
  uintptr_t chunk = (range.begin + HAK_CHUNK_BYTES - 1) & ~(uintptr_t)(HAK_CHUNK_BYTES - 1);
  CHECK(chunk + HAK_CHUNK_BYTES > range.end); /* no aligned 2 MiB */
  asked->bytes += range.end - range.begin;
  asked->mappings++;
}

/* By the kernel's own list, no place allows a page of 2 MiB, and nearly all of each chunk allows smaller huge pages. */
static void pages_of_2_mib_fit_nowhere(void) {
  enum { CHUNKS = 20 };
  char line[512];
  Asked asked = {0, 0};
  Range range = {0, 0};
  begin_medium();
  grow(CHUNKS - 1);
  FILE *maps = fopen("/proc/self/smaps", "re");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps)) {
    char *dash;
    uintptr_t begins = strtoul(line, &dash, 16);
    if (*dash == '-') {
      range = (Range){begins, strtoul(dash + 1, NULL, 16)};
    } else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg")) {
      add_range(range, &asked);
    }
  }
  fclose(maps);
  CHECK(asked.bytes == CHUNKS * (size_t)(HAK_CHUNK_BYTES - HAK_SLAB_BYTES));
  CHECK(asked.mappings <= CHUNKS / 2 + 1); /* one for two chunks */
}

static bool kernel_takes_advice(void) {
  char *pages = hak_os_map(NULL, HAK_SLAB_BYTES);
  bool takes = pages && hak_os_set_huge(pages, HAK_SLAB_BYTES, true);
  return takes && hak_os_unmap(pages, HAK_SLAB_BYTES);
}

int main(void) {
  slab_pages = HAK_SLAB_BYTES / hak_os_page_bytes();
  if (slab_pages <= 1 || !kernel_takes_advice()) {
    fputs("skipped: no pages but small ones\n", stderr);
    return 77;
  }
  child_succeeds(small_programs_are_not_asked_about);
  child_succeeds(the_setting_is_read_once);
  child_succeeds(small_ones_are_not_wanted);
  child_succeeds(large_ones_are_not_wanted);
  child_succeeds(unknown_ones_are_not_wanted);
  child_succeeds(a_slice_is_large_enough);
  child_succeeds(two_slabs_are_not_too_large);
  child_succeeds(refusal_is_an_answer);
  child_succeeds(a_late_refusal_is_for_one_chunk);
  child_succeeds(nobody_asks_where_they_are_off);
  child_succeeds(the_lean_profile_does_without);
  child_succeeds(other_chunks_get_none);
  child_succeeds(a_large_heap_gets_none);
  child_succeeds(slabs_lie_apart);
  child_succeeds(both_kinds_go_back);
  child_succeeds(an_empty_chunk_is_of_no_kind);
  child_succeeds(in_need_they_share);
  child_succeeds(pages_of_2_mib_fit_nowhere);
  return 0;
}
