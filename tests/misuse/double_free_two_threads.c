/* Another thread frees the block and goes on living; then this thread frees it. Both caches hold it. */
#include <pthread.h>

#include "crime.h"

static pthread_barrier_t freed, drained;

static void *other_thread(void *block) {
  give(block);
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&drained);
  drain(BLOCK_BYTES);
  flush_thread_cache();
  return NULL;
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_barrier_init(&freed, NULL, 2) == 0);
  CHECK(pthread_barrier_init(&drained, NULL, 2) == 0);
  void *block = take(BLOCK_BYTES);
  announce(block);
  CHECK(pthread_create(&thread, NULL, other_thread, block) == 0);
  pthread_barrier_wait(&freed);
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  pthread_barrier_wait(&drained);
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
