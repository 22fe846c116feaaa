/* One thread waits for its vfork child, which waits for a line on standard input; another thread allocates. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_bool ended;

static void *allocate(void *unused) {
  while (!ended) {
    free(malloc(100));
    usleep(1000);
  }
  puts("lives");
  fflush(stdout);
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, allocate, NULL);
  puts("ready");
  fflush(stdout);
  if (vfork() == 0) {
    char byte;
    _exit(read(0, &byte, 1) != 1);
  }
  ended = true;
  pthread_join(thread, NULL);
  return 0;
}
