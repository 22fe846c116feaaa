/* The cache is full and holds the block. Another thread asks all threads to flush their caches; then the block is freed
 * again. The same call flushes the cache and returns the block. */
#include <pthread.h>

#include "crime.h"

static void *other_thread(void *unused) {
#ifdef HAK_TEST_STANDARD_NAMES
  (void)malloc_trim(0);
#else
  (void)hak_trim(0);
#endif
  return unused;
}

int main(void) {
  pthread_t thread;
  void *other = take(BLOCK_BYTES), *block = take(BLOCK_BYTES);
  announce(block);
  give(block);
  give(other);
  CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  hak_free(hide_pointer(block));
  drain(BLOCK_BYTES);
  return 0;
}
