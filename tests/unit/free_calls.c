/* Gate TINY_FREE_CALLS: every call of free counts, whatever it frees. */
#include "free_calls.h"

#include <pthread.h>

#include "check.h"
#include "hakmem.h"

enum { ROUNDS = 1000, THREADS = 4, CALLS_PER_ROUND = 3 };

static void *free_much(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    hak_free(hak_malloc(100));
    hak_free(hak_malloc(100000));
    hak_free(NULL);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  uint64_t before = atomic_load(&hak_free_calls.count);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, free_much, NULL) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(atomic_load(&hak_free_calls.count) - before == THREADS * ROUNDS * CALLS_PER_ROUND);
  return 0;
}
