/* Another thread's cache holds the block. This thread flushed it to the slab, gets it back from there, and writes
 * nothing. */
#include <pthread.h>

#include "crime.h"

enum { BLOCKS = 8 };

static pthread_barrier_t freed, handed_out;

static void *other_thread(void *block) {
  hak_free(hide_pointer(block));
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&handed_out);
  drain(BLOCK_BYTES);
  return NULL;
}

int main(void) {
  pthread_t thread;
  void *blocks[BLOCKS]; /* so that the slab stays */
  CHECK(pthread_barrier_init(&freed, NULL, 2) == 0);
  CHECK(pthread_barrier_init(&handed_out, NULL, 2) == 0);
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = take(BLOCK_BYTES);
  }
  announce(blocks[0]);
  CHECK(pthread_create(&thread, NULL, other_thread, blocks[0]) == 0);
  pthread_barrier_wait(&freed);
  flush_thread_cache();
  give(blocks[0]);
  flush_thread_cache();
  CHECK(hak_malloc(BLOCK_BYTES) == blocks[0]); /* the only block in the slab */
  pthread_barrier_wait(&handed_out);
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
