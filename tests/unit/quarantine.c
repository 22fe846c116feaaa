/* Where freed blocks of the hardened profile wait, and how many. */
#include <string.h>

#include "child.h"
#include "hakmem.h"
#include "hardened/quarantine.h"
#include "threads/heap.h"
#include "two_bins.h"

enum { BYTES = 1000, BLOCKS = 300, SLOTS = 16 /* the delay of 16 KiB, in blocks of the class */ };

static uint32_t cls(void) {
  return hak_class_of(BYTES + HAK_SEAL_BYTES);
}

static void begin(size_t threads) {
  open_both();
  hak_heap = &mine;
  CHECK(hak_hard.on && hak_quarantine_open(&mine) && hak_quarantine_open(&other));
  hak_policy_set_open(threads);
}

static void use(hak_heap_t *heap, size_t count) {
  alloc_many(heap, BYTES, count);
  free_many(heap, count);
}

static uint32_t waiting(const hak_heap_t *heap) {
  return heap->quarantine->waiting[cls()].count;
}

static uint32_t of_ended_threads(void) {
  return hak_ended_blocks(cls());
}

/* The delay outlives a trim, and a flush of the thread's cache. */
static void blocks_wait_on_after_a_trim(void) {
  begin(1);
  use(&mine, BLOCKS);
  CHECK(waiting(&mine) == 2 * SLOTS && mine.quarantine->waiting[cls()].ready > 0);
  hak_trim(0);
  CHECK(waiting(&mine) == 2 * SLOTS && mine.quarantine->waiting[cls()].ready == 0);
  use(&mine, BLOCKS);
  hak_thread_flush();
  CHECK(hak_quarantine_blocks(&mine, cls()) == 2 * SLOTS);
}

/* It outlives the thread, within a bound for all threads together. */
static void blocks_wait_on_after_their_thread(void) {
  begin(2);
  use(&mine, BLOCKS);
  hak_cache_close(&mine, "test");
  CHECK(hak_quarantine_blocks(&mine, cls()) == 0 && of_ended_threads() > SLOTS);
  for (int i = 0; i < 20; i++) {
    use(&other, BLOCKS);
    hak_cache_close(&other, "test");
  }
  CHECK(of_ended_threads() >= 2 * SLOTS && of_ended_threads() < 4 * SLOTS + 64); /* an array has up to 63 blocks */
  hak_quarantine_release(NULL);
  CHECK(of_ended_threads() == 0);
  hak_aside_t aside;
  hak_heap_step_aside(&aside); /* as a thread that has begun to end */
  hak_free(hak_malloc(BYTES));
  CHECK(of_ended_threads() == 1);
}

/* Every thread gives its blocks up when it fetches others. */
static void blocks_end_waiting_when_memory_is_short(void) {
  begin(2);
  use(&mine, BLOCKS);
  use(&other, BLOCKS);
  hak_cache_close(&other, "test");
  use(&other, BLOCKS);
  CHECK(of_ended_threads() > SLOTS);
  hak_quarantine_release(&mine);
  CHECK(of_ended_threads() == 0 && hak_quarantine_blocks(&mine, cls()) == 0 && waiting(&other) == 2 * SLOTS);
  alloc_many(&other, BYTES, BLOCKS);
  CHECK(waiting(&other) == 0);
  hak_check();
}

/* The bounds of a thread among many. */
static void many_threads_divide_the_bounds(void) {
  begin(1000);
  use(&mine, BLOCKS);
  CHECK(waiting(&mine) == 2 * 2 && hak_quarantine_blocks(&mine, cls()) <= 2 * 2 + 4);
}

/* Only a request that could fit ends the delay. */
static void a_request_that_cannot_fit_ends_no_delay(void) {
  begin(1);
  use(&mine, BLOCKS);
  uint32_t ready = mine.quarantine->waiting[cls()].ready;
  CHECK(hak_malloc(((size_t)1 << 47) - (1 << 20)) == NULL);
  CHECK(waiting(&mine) == 2 * SLOTS && mine.quarantine->waiting[cls()].ready == ready && ready > 0);
}

int main(void) {
  child_succeeds(blocks_wait_on_after_a_trim);
  child_succeeds(blocks_wait_on_after_their_thread);
  child_succeeds(blocks_end_waiting_when_memory_is_short);
  child_succeeds(many_threads_divide_the_bounds);
  child_succeeds(a_request_that_cannot_fit_ends_no_delay);
  return 0;
}
