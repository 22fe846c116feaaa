/* Parked heaps of ended threads, which keep their blocks for the next thread: how much, how long, and which thread gets
 * them. */
#include "threads/heap.h"

#include <pthread.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/stats.h"
#include "names.h"
#include "system.h"
#include "system/options.h"

enum { BYTES = 1000, FEW = 50, MANY_BYTES = 30000, MAX_THREADS = 64, PARKED_MOST = 2 << 20 };

static size_t cached_bytes(void) {
  hak_heap_totals_t totals[HAK_BIN_COUNT];
  size_t bytes = 0;
  hak_stats_heaps(totals);
  for (int cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    bytes += totals[cls].cached_blocks * hak_class_sizes[cls];
  }
  return bytes;
}

static hak_heap_t *ended;
static hak_free_block_t *newest;

static void fill_and_free(size_t count, size_t bytes) {
  void *blocks[FEW];
  for (int round = 0; round < 10; round++) { /* the cache gets room for all of them */
    for (size_t i = 0; i < count; i++) {
      CHECK((blocks[i] = hak_malloc(bytes)) != NULL);
    }
    for (size_t i = 0; i < count; i++) {
      hak_free(blocks[i]);
    }
  }
}

static void *keep_few(void *unused) {
  (void)unused;
  fill_and_free(FEW, BYTES);
  ended = hak_heap;
  newest = ended->bin[hak_class_of(BYTES)].head;
  CHECK(newest != HAK_NO_BLOCK);
  return NULL;
}

static void run_thread(void *(*body)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/* The new thread's first block is the one that was freed last, and no refill happens. */
static void *take_over(void *unused) {
  (void)unused;
  void *block = hak_malloc(BYTES);
  CHECK(block == newest && hak_heap == ended && hak_heap->busy);
  uint32_t events = hak_heap->events;
  hak_free(block);
  fill_and_free(FEW / 2, BYTES);
  CHECK(hak_heap->events == events);
  return NULL;
}

static void park_one(void) {
  size_t open = hak_policy_caches_open();
  run_thread(keep_few);
  CHECK(!ended->busy && hak_policy_caches_open() == open && hak_bins_bytes(ended) > 0);
  CHECK(hak_heap_holds(newest, hak_class_of(BYTES)));
  hak_check();
}

static void the_next_thread_takes_over(void) {
  park_one();
  run_thread(take_over);
  CHECK(!ended->busy);
  hak_check();
}

static void a_child_takes_over(void) {
  park_one();
  child_succeeds(the_next_thread_takes_over);
  run_thread(take_over);
}

static void *keep_many(void *unused) {
  (void)unused;
  fill_and_free(FEW, MANY_BYTES);
  CHECK(hak_bins_bytes(hak_heap) > 1 << 20 && hak_bins_bytes(hak_heap) < 2 << 20);
  ended = hak_heap;
  return NULL;
}

/* This is less than the bound for all parked heaps together, but more than one heap may keep. */
static void much_goes_back(void) {
  static void *live[8]; /* so that a cache may hold much */
  for (size_t i = 0; i < 8; i++) {
    CHECK((live[i] = hak_malloc(1 << 20)) != NULL);
  }
  size_t before = cached_bytes();
  run_thread(keep_many);
  CHECK(!ended->busy && hak_bins_bytes(ended) == 0 && cached_bytes() == before);
}

static pthread_barrier_t all;

static void *keep_some(void *unused) {
  (void)unused;
  fill_and_free(FEW, 3000);
  CHECK(hak_bins_bytes(hak_heap) > 40000);
  pthread_barrier_wait(&all);
  return NULL;
}

static void end_at_once(void) {
  pthread_t threads[MAX_THREADS];
  for (size_t i = 0; i < MAX_THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, keep_some, NULL) == 0);
  }
  for (size_t i = 0; i < MAX_THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

/* The bound holds again in later rounds: a heap that is taken over frees its share. */
static void many_threads_keep_no_more_than_a_few(void) {
  CHECK(pthread_barrier_init(&all, NULL, MAX_THREADS) == 0);
  for (int round = 0; round < 5; round++) {
    end_at_once();
    CHECK(cached_bytes() > 1 << 20 && cached_bytes() < PARKED_MOST);
  }
  hak_check();
}

static void after_a_while_it_goes_back(void) {
  uint64_t decay_ms = (uint64_t)hak_option(HAK_OPTION_DECAY);
  hak_free(hak_malloc(1));
  size_t before = cached_bytes();
  system_set_clock_ms(1000000);
  park_one();
  system_advance_clock_ms(decay_ms - 1);
  hak_heap_age_parked();
  CHECK(hak_bins_bytes(ended) > 0);
  system_advance_clock_ms(1);
  hak_heap_age_parked();
  CHECK(!ended->busy && hak_bins_bytes(ended) == 0 && cached_bytes() == before);
}

static hak_heap_t *younger;

static void *end_later(void *unused) {
  fill_and_free(FEW, BYTES);
  younger = hak_heap;
  pthread_barrier_wait(&all);
  pthread_barrier_wait(&all);
  return unused;
}

/* Of two parked heaps, the older one returns its blocks. */
static void the_younger_stays(void) {
  pthread_t thread;
  uint64_t decay_ms = (uint64_t)hak_option(HAK_OPTION_DECAY);
  system_set_clock_ms(1000000);
  CHECK(pthread_barrier_init(&all, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, end_later, NULL) == 0);
  pthread_barrier_wait(&all);
  run_thread(keep_few);
  system_advance_clock_ms(decay_ms / 2);
  pthread_barrier_wait(&all);
  CHECK(pthread_join(thread, NULL) == 0 && younger != ended);
  system_advance_clock_ms(decay_ms - decay_ms / 2);
  hak_heap_age_parked();
  CHECK(hak_bins_bytes(ended) == 0 && hak_bins_bytes(younger) > 0);
}

/* Threads that reach the slabs return old parked blocks. */
static void it_goes_back_in_passing(void) {
  hak_free(hak_malloc(1)); /* this thread has another heap */
  system_set_clock_ms(1000000);
  park_one();
  system_advance_clock_ms((uint64_t)hak_option(HAK_OPTION_DECAY));
  for (int i = 0; i < 100000 && hak_bins_bytes(ended) > 0; i++) {
    CHECK(hak_malloc(5000) != NULL);
  }
  CHECK(hak_bins_bytes(ended) == 0);
}

static void a_trim_takes_it(void) {
  park_one();
  hak_trim(0);
  CHECK(hak_bins_bytes(ended) == 0 && cached_bytes() == 0);
}

static void *first_block;

static void *free_twice(void *unused) {
  (void)unused;
  fill_and_free(FEW, BYTES);
  void *second = hak_malloc(BYTES);
  hak_free(first_block);
  hak_free(second);
  hak_free(hide_pointer(first_block));
  return NULL;
}

static void a_thread_frees_twice(void) {
  run_thread(free_twice);
}

static void a_second_free_is_told_at_the_end(void) {
  first_block = hak_malloc(BYTES);
  child_is_stopped(a_thread_frees_twice, "free", "double free", first_block);
}

int main(void) {
  child_succeeds(the_next_thread_takes_over);
  child_succeeds(a_child_takes_over);
  child_succeeds(much_goes_back);
  child_succeeds(many_threads_keep_no_more_than_a_few);
  child_succeeds(after_a_while_it_goes_back);
  child_succeeds(the_younger_stays);
  child_succeeds(it_goes_back_in_passing);
  child_succeeds(a_trim_takes_it);
  child_succeeds(a_second_free_is_told_at_the_end);
  return 0;
}
