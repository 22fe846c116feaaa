/* Scenarios of threads that begin, end, and read statistics. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "json.h"
#include "names.h"
#include "pattern.h"
#include "prng.h"
#include "scenario.h"

static pthread_barrier_t start;

static void *allocate_first(void *argument) {
  size_t index = (size_t)argument;
  pthread_barrier_wait(&start);
  /* Some begin with another function than malloc. */
  unsigned char *block = index % 4 == 0   ? hak_calloc(1, 100)
                         : index % 4 == 1 ? hak_aligned_alloc(64, 100)
                         : index % 4 == 2 ? hak_realloc(NULL, 100)
                                          : hak_malloc(index % 8 == 7 ? 1000000 : 100);
  CHECK(block != NULL);
  memset(block, (int)index, 100);
  hak_free(NULL);
  pthread_barrier_wait(&start);
  CHECK(block[0] == index && memcmp(block, block + 1, 99) == 0);
  hak_free(block);
  return NULL;
}

/* Nothing was allocated before: all threads initialise the heap at the same time. */
void first_allocation(void) {
  enum { THREADS = 16 };
  CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
  run_threads(THREADS, allocate_first);
}

static void churn(Prng *prng, int steps) {
  enum { SLOTS = 64 };
  unsigned char *blocks[SLOTS] = {NULL};
  size_t sizes[SLOTS];
  for (int i = 0; i < steps; i++) {
    size_t at = prng_below(prng, SLOTS);
    if (blocks[at] != NULL) {
      CHECK(pattern_holds(blocks[at], sizes[at], sizes[at], at));
      hak_free(blocks[at]);
    }
    sizes[at] = 1 + prng_below(prng, i % 64 == 0 ? 40000 : 1000);
    blocks[at] = hak_malloc(sizes[at]);
    CHECK(blocks[at] != NULL);
    pattern_fill(blocks[at], sizes[at], at);
  }
  for (size_t at = 0; at < SLOTS; at++) {
    hak_free(blocks[at]);
  }
}

enum { CHURNERS = 2 };
static atomic_int churners_running;

static void look_on(void) {
  static char text[1 << 20];
  char value[64];
  size_t length = hak_stats_json(text, sizeof text);
  CHECK(length == strlen(text));
  JsonReport report = json_validate(text);
  CHECK(report.valid && report.negative_numbers == 0);
  (void)hak_trim(1 << 20);
  CHECK(hak_option_set("DECAY_MS", "5") == 0);
  CHECK(hak_option_set("WARM_POOL_SIZE", "3") == 0);
  CHECK(hak_option_get("DECAY_MS", value, sizeof value) == 0);
  CHECK(strcmp(value, "5") == 0);
}

static void *churn_or_look_on(void *argument) {
  size_t index = (size_t)argument;
  if (index < CHURNERS) {
    Prng prng = prng_seeded(index);
    churn(&prng, 100000);
    atomic_fetch_sub(&churners_running, 1);
    return NULL;
  }
  while (atomic_load(&churners_running) > 0) {
    look_on();
  }
  return NULL;
}

/* Statistics, options and trim while others work: always well-formed, never negative. */
void observers(void) {
  atomic_store(&churners_running, CHURNERS);
  run_threads(CHURNERS + 1, churn_or_look_on);
}

static void *live_briefly(void *argument) {
  Prng prng = prng_seeded((size_t)argument);
  churn(&prng, 50);
  return NULL;
}

static void *start_others(void *argument) {
  for (size_t i = 0; i < 250; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, live_briefly, (void *)((size_t)argument * 1000 + i)) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  return NULL;
}

void thread_storm(void) {
  run_threads(4, start_others);
}

enum { LEFT_BLOCKS = 500, LEFT_BYTES_MAX = 3000 };
static unsigned char *left[8][LEFT_BLOCKS];

static void *leave_blocks(void *argument) {
  size_t index = (size_t)argument;
  for (size_t i = 0; i < LEFT_BLOCKS; i++) {
    left[index][i] = hak_malloc(i * 6 + 1);
    CHECK(left[index][i] != NULL);
    pattern_fill(left[index][i], i * 6 + 1, index);
  }
  return NULL;
}

static void *clear_up(void *argument) {
  size_t index = (size_t)argument, other = (index + 1) % 8;
  for (size_t i = 0; i < LEFT_BLOCKS; i++) {
    CHECK(pattern_holds(left[other][i], i * 6 + 1, i * 6 + 1, other));
    hak_free(left[other][i]);
  }
  return NULL;
}

void blocks_outlive_threads(void) {
  for (int round = 0; round < 20; round++) {
    run_threads(8, leave_blocks);
    run_threads(8, clear_up);
  }
}

static pthread_key_t keys[4];
static atomic_size_t destructor_runs;

/* Allocates, frees, and asks to be called again, PTHREAD_DESTRUCTOR_ITERATIONS times in all. By the last call, the
 * thread has given up its cache, whichever destructor came first. */
static void destroy(void *value) {
  unsigned char *block = value;
  size_t round = block[0];
  hak_free(block);
  void *others[20];
  for (size_t i = 0; i < 20; i++) {
    others[i] = hak_malloc(i * 50);
    CHECK(others[i] != NULL);
  }
  for (size_t i = 0; i < 20; i++) {
    hak_free(others[i]);
  }
  atomic_fetch_add(&destructor_runs, 1);
  if (round > 0) {
    unsigned char *next = hak_malloc(100);
    CHECK(next != NULL);
    next[0] = (unsigned char)(round - 1);
    CHECK(pthread_setspecific(keys[round % 4], next) == 0);
  }
}

static void *leave_to_destructors(void *argument) {
  (void)argument;
  unsigned char *block = hak_malloc(100);
  CHECK(block != NULL);
  block[0] = 3;
  CHECK(pthread_setspecific(keys[0], block) == 0);
  return NULL;
}

void late_destructors(void) {
  for (size_t i = 0; i < 4; i++) {
    CHECK(pthread_key_create(&keys[i], destroy) == 0);
  }
  for (int round = 0; round < 20; round++) {
    run_threads(8, leave_to_destructors);
  }
  CHECK(atomic_load(&destructor_runs) >= 8 * 20 * 2);
}

enum { EMPTY_MOST = 1 << 16, EMPTY_SLOTS = 1000 };
static atomic_uchar empty_owned[EMPTY_MOST]; /* by address: blocks of no bytes lie within 16 * EMPTY_MOST bytes */
static _Atomic(void *) empty_slots[EMPTY_SLOTS];

static atomic_uchar *owned_of(const void *block) {
  return &empty_owned[(uintptr_t)block / 16 % EMPTY_MOST];
}

/* A thread may free the blocks that another one allocated. */
static void *take_and_give_empty(void *argument) {
  Prng prng = prng_seeded((size_t)argument);
  pthread_barrier_wait(&start);
  for (int i = 0; i < 300000; i++) {
    void *block = hak_malloc(0);
    CHECK(block != NULL && hak_malloc_usable_size(block) == 0 && atomic_exchange(owned_of(block), 1) == 0);
    block = atomic_exchange(&empty_slots[prng_below(&prng, EMPTY_SLOTS)], block);
    if (block) {
      CHECK(atomic_exchange(owned_of(block), 0) == 1);
      hak_free(block);
    }
  }
  return NULL;
}

void empty_blocks(void) {
  enum { THREADS = 8 };
  CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
  run_threads(THREADS, take_and_give_empty);
  for (size_t i = 0; i < EMPTY_SLOTS; i++) {
    hak_free(atomic_load(&empty_slots[i]));
  }
}
