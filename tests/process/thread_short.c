/* Thousands of short-lived threads, each of which leaves blocks that a later one frees. The memory of the process must
 * not grow with the number of threads.
 * argument: number of threads */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "churn.h"

enum {
  LIVE_THREADS = 4,
  INHERITED = 512, /* blocks alive between threads */
  LEFT = 32,       /* blocks that one thread exchanges for its own */
  STEPS = 300,
  WARM_SHARE = 5, /* memory is compared from the fifth part of the run on */
  GROWTH_KIB = 12 * 1024,
};

static struct churn_block inherited[INHERITED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct churn_block exchange(size_t place, struct churn_block block) {
  pthread_mutex_lock(&lock);
  struct churn_block old = inherited[place];
  inherited[place] = block;
  pthread_mutex_unlock(&lock);
  return old;
}

static void *run(void *argument) {
  struct churn_table table;
  uint64_t random = (uint64_t)(uintptr_t)argument * 0x9E3779B97F4A7C15u + 1;
  churn_table_init(&table, CHURN_SMALL, random);
  churn_table_steps(&table, STEPS);
  for (unsigned i = 0; i < LEFT; i++) {
    struct churn_block block = {NULL, 1 + check_random(&random) % 5000};
    block.start = malloc(block.bytes);
    CHECK(block.start != NULL);
    churn_block_fill(block);
    block = exchange(check_random(&random) % INHERITED, block);
    if (block.start == NULL)
      continue;
    churn_block_verify(block);
    free(block.start);
  }
  churn_table_clear(&table);
  return NULL;
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  check_served();
  unsigned threads = check_count(arguments[1]);
  size_t warm_kib = 0;
  pthread_t ids[LIVE_THREADS];
  for (unsigned done = 0; done < threads; done += LIVE_THREADS) {
    for (unsigned i = 0; i < LIVE_THREADS; i++) {
      void *number = (void *)(uintptr_t)(done + i + 1);
      CHECK(pthread_create(&ids[i], NULL, run, number) == 0);
    }
    for (unsigned i = 0; i < LIVE_THREADS; i++)
      CHECK(pthread_join(ids[i], NULL) == 0);
    if (warm_kib == 0 && done >= threads / WARM_SHARE)
      warm_kib = check_rss_kib();
  }
  check_growth(warm_kib, GROWTH_KIB);
  for (size_t i = 0; i < INHERITED; i++)
    free(inherited[i].start);
  return 0;
}
