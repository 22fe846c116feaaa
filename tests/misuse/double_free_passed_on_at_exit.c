/* A thread that only frees has passed the block on, and it is in the depot. It is freed again, and the program ends. */
#include <pthread.h>

#include "crime.h"

enum { BLOCKS = 100 };

static void *blocks[BLOCKS];

static void *other_thread(void *unused) {
  (void)unused;
  for (int i = 0; i < BLOCKS; i++) {
    give(blocks[i]);
  }
  return NULL;
}

int main(void) {
  pthread_t thread;
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = take(16);
  }
  announce(blocks[10]);
  CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  hak_free(hide_pointer(blocks[10]));
  return 0;
}
