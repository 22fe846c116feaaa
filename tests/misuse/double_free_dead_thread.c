/* A thread frees the block and ends; then this thread frees it. */
#include <pthread.h>

#include "crime.h"

static void *other_thread(void *block) {
  give(block);
  return NULL;
}

int main(void) {
  pthread_t thread;
  void *block = take(BLOCK_BYTES);
  announce(block);
  CHECK(pthread_create(&thread, NULL, other_thread, block) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  flush_thread_cache();
  return 0;
}
