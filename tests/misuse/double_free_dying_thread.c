/* free(a), free(b), free(a) in a thread that then ends: only the check of the cache that it leaves can notice it. */
#include <pthread.h>

#include "crime.h"

static void *run(void *none) {
  free_aba(BLOCK_BYTES);
  return none;
}

int main(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  drain(BLOCK_BYTES);
  return 0;
}
