/* Pages of 2 MiB at the front of a large heap: which chunks ask for one, for how long, and that slow ones are given up.
 * The clock is set by hand. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum {
  SLAB = HAK_SLAB_SLICES,
  FRONT_CHUNKS = 8,
  DECLINED_CHUNKS = 16,
  SLOW_MS = 6,
  TRIES_MAX = 16,
  PAUSE_MAX = 512,
  READ_CHUNKS = 64
};
#define FRONT_FROM ((size_t)FRONT_CHUNKS * CHUNK)

static size_t block_bytes = 64;

/* Takes a slab as slab.c does. The pages of a large heap are not read, since each would be faulted in. */
static char *slab_take(void) {
  bool zeroed;
  char *slab = hak_arena_take(SLAB, SLAB, &zeroed);
  CHECK(slab != NULL);
  hak_huge_pages_fill(slab, zeroed ? SLAB : 0, block_bytes);
  CHECK(!zeroed || hak_retain_used_slices() > READ_CHUNKS * CHUNK || all_zero(slab, SLAB << HAK_SLICE_SHIFT));
  return slab;
}

static void fill_until(size_t used) {
  while (hak_retain_used_slices() < used) {
    slab_take();
  }
}

static void begin(void) {
  retain_everything();
  system_set_clock_ms(1000);
  slices_begin_here();
}

/* Makes the heap so large that new mappings no longer decline such pages. */
static void begin_large(void) {
  begin();
  fill_until((size_t)DECLINED_CHUNKS * CHUNK);
}

/* Fills so many chunks. Returns the number for which a huge page was requested; no advice must remain. */
static size_t asked_in(size_t chunks) {
  size_t asked = system_advices(MADV_HUGEPAGE), ended = system_advices(MADV_NOHUGEPAGE);
  fill_until(hak_retain_used_slices() + chunks * CHUNK);
  asked = system_advices(MADV_HUGEPAGE) - asked;
  CHECK(system_advices(MADV_NOHUGEPAGE) - ended == asked);
  return asked;
}

/* The thread works between any two such calls. */
static void be_slow(void) {
  system_be_busy_ms(SLOW_MS);
  system_during(SYSTEM_MADVISE, be_slow);
}

/* Other programs run between any two such calls. */
static void wait_for_others(void) {
  system_advance_clock_ms(SLOW_MS);
  system_during(SYSTEM_MADVISE, wait_for_others);
}

/* Fills so many chunks, with that between the calls. Returns the number of requests. */
static size_t asked_while(void (*delay)(void), size_t chunks) {
  size_t asked = 0;
  for (size_t i = 0; i < chunks; i++) {
    system_during(SYSTEM_MADVISE, delay);
    asked += asked_in(1);
  }
  system_during(SYSTEM_MADVISE, NULL);
  return asked;
}

static void small_heaps_do_without(void) {
  begin();
  fill_until(FRONT_FROM);
  CHECK(system_advices(MADV_HUGEPAGE) == 0);
  fill_until(FRONT_FROM + 3 * CHUNK);
  CHECK(system_advices(MADV_HUGEPAGE) == 3);
}

static void each_chunk_of_a_large_one_asks_once(void) {
  begin_large();
  CHECK(asked_in(5) == 5);
}

static void blocks_above_a_page_do_without(void) {
  begin_large();
  block_bytes = hak_os_page_bytes() + 16;
  CHECK(asked_in(3) == 0);
  block_bytes = hak_os_page_bytes();
  CHECK(asked_in(3) == 3);
}

static void a_chunk_that_was_begun_does_without(void) {
  begin_large();
  CHECK(slices_take(SLAB) != NULL);
  size_t asked = system_advices(MADV_HUGEPAGE);
  fill_until(hak_retain_used_slices() + CHUNK / 2);
  CHECK(system_advices(MADV_HUGEPAGE) == asked);
}

/* A chunk that was given back may ask again when it is reused. */
static void a_chunk_that_went_back_asks_again(void) {
  begin_large();
  char *slabs[CHUNK / SLAB];
  for (size_t i = 0; i < CHUNK / SLAB; i++) {
    slabs[i] = slab_take();
  }
  for (size_t i = 0; i < CHUNK / SLAB; i++) {
    hak_arena_give(slabs[i], SLAB);
  }
  hak_purge_all(0);
  CHECK(asked_in(1) == 1);
}

static void an_option_switches_them_off(void) {
  begin_large();
  CHECK(hak_option_set("HUGE_PAGES", "off") == 0);
  CHECK(asked_in(3) == 0);
  CHECK(hak_option_set("HUGE_PAGES", "auto") == 0);
  CHECK(asked_in(3) == 3);
}

static void a_refusal_is_for_one_chunk(void) {
  begin_large();
  system_refuse(SYSTEM_MADVISE, 0, 1);
  size_t asked = system_advices(MADV_HUGEPAGE);
  fill_until(hak_retain_used_slices() + CHUNK);
  CHECK(system_advices(MADV_HUGEPAGE) == asked + 1);
  system_allow();
  CHECK(asked_in(3) == 3);
}

/* One slow page does not count. */
static void slow_ones_are_given_up(void) {
  begin_large();
  CHECK(asked_while(be_slow, 1) == 1 && asked_in(4) == 4);
  size_t asked = asked_while(be_slow, TRIES_MAX);
  CHECK(asked > 1 && asked < TRIES_MAX / 2);
  asked = asked_while(be_slow, PAUSE_MAX);
  CHECK(asked > 1 && asked < PAUSE_MAX / 32);
  CHECK(asked_in(2 * PAUSE_MAX) > PAUSE_MAX); /* when huge pages are quick again, they are requested as before */
  CHECK(asked_in(5) == 5);
  CHECK(asked_while(be_slow, 5 * 8) > 3); /* the pauses are again as short as at first */
  slices_add_up();
}

static void time_of_other_programs_does_not_count(void) {
  begin_large();
  CHECK(asked_while(wait_for_others, TRIES_MAX) == TRIES_MAX);
}

int main(void) {
  if (hak_os_page_bytes() << 9 != HAK_CHUNK_BYTES) {
    return 77; /* a huge page has another size there */
  }
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0); /* the advice is what counts; clearing gigabytes takes seconds */
  child_succeeds(small_heaps_do_without);
  child_succeeds(each_chunk_of_a_large_one_asks_once);
  child_succeeds(blocks_above_a_page_do_without);
  child_succeeds(a_chunk_that_was_begun_does_without);
  child_succeeds(a_chunk_that_went_back_asks_again);
  child_succeeds(an_option_switches_them_off);
  child_succeeds(a_refusal_is_for_one_chunk);
  child_succeeds(slow_ones_are_given_up);
  child_succeeds(time_of_other_programs_does_not_count);
  return 0;
}
