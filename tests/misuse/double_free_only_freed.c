/* A thread that never allocated frees another thread's block twice in a row, and does not end. */
#include <pthread.h>
#include <unistd.h>

#include "crime.h"

static pthread_barrier_t freed;

static void *other_thread(void *block) {
  give(block);
  hak_free(hide_pointer(block));
  pthread_barrier_wait(&freed);
  for (;;) {
    pause();
  }
  return NULL;
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_barrier_init(&freed, NULL, 2) == 0);
  void *block = take(BLOCK_BYTES);
  announce(block);
  CHECK(pthread_create(&thread, NULL, other_thread, block) == 0);
  pthread_barrier_wait(&freed);
  return 0;
}
