/* Destructors of thread-specific data that allocate, in every round that POSIX grants. So some run after the
 * allocator's own. After all destructors, the C library frees its per-thread buffers. Keys are made before any
 * library's constructor, and again in main. Neither blocks nor thread caches may be lost.
 * argument: number of threads */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "churn.h"

enum { LATE_KEYS = 3, KEYS = LATE_KEYS + 1, STEPS = 200, GROWTH_KIB = 12 * 1024, WARM_SHARE = 5 };

/* The value of a key; a new one is allocated in each round. */
struct holder {
  pthread_key_t key;
  unsigned rounds;
  struct churn_block block;
};

static pthread_key_t keys[KEYS];
static _Atomic unsigned long destroyed;

static void hold(pthread_key_t key, unsigned rounds) {
  struct holder *holder = malloc(sizeof *holder);
  CHECK(holder != NULL);
  holder->key = key;
  holder->rounds = rounds;
  holder->block.bytes = 100 + 10000 * (size_t)rounds;
  holder->block.start = malloc(holder->block.bytes);
  CHECK(holder->block.start != NULL);
  churn_block_fill(holder->block);
  CHECK(pthread_setspecific(key, holder) == 0);
}

static void destroy(void *value) {
  struct holder *holder = value;
  struct churn_table table;
  churn_table_init(&table, CHURN_SMALL, holder->rounds + 1);
  churn_table_steps(&table, STEPS);
  if (holder->rounds + 1 < PTHREAD_DESTRUCTOR_ITERATIONS)
    hold(holder->key, holder->rounds + 1);
  churn_block_verify(holder->block);
  free(holder->block.start);
  free(holder);
  churn_table_clear(&table);
  atomic_fetch_add(&destroyed, 1);
}

static void make_early_key(void) {
  CHECK(pthread_key_create(&keys[0], destroy) == 0);
}

__attribute__((section(HAK_TEST_EARLIEST), used)) static void (*const preinit)(void) = make_early_key;

static void *run(void *argument) {
  (void)argument;
  /* glibc's strerror allocates a buffer per thread for a number without a name. */
  CHECK(strlen(strerror(123456)) > 0);
  for (unsigned i = 0; i < KEYS; i++)
    hold(keys[i], 0);
  return NULL;
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  check_served();
  unsigned threads = check_count(arguments[1]);
  for (unsigned i = 1; i < KEYS; i++)
    CHECK(pthread_key_create(&keys[i], destroy) == 0);
  size_t warm_kib = 0;
  for (unsigned i = 0; i < threads; i++) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, run, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
    if (i == threads / WARM_SHARE)
      warm_kib = check_rss_kib();
  }
  CHECK(atomic_load(&destroyed) == (unsigned long)threads * KEYS * PTHREAD_DESTRUCTOR_ITERATIONS);
  check_growth(warm_kib, GROWTH_KIB);
  return 0;
}
