/* Processor time of a loop that replaces one of 16 live blocks, and writes its first and last byte: loop BYTES TIMES
 * THREADS prints nanoseconds for a replacement. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LIVE = 16, THREADS_MAX = 64 };

static size_t bytes;
static long times;

static void *replace(void *number) {
  uint32_t random = (uint32_t)(uintptr_t)number;
  char *volatile blocks[LIVE] = {NULL};
  for (long i = 0; i < times; i++) {
    random = random * 1664525 + 1013904223;
    uint32_t at = (random >> 16) % LIVE;
    free(blocks[at]);
    volatile char *block = malloc(bytes);
    if (!block) {
      abort();
    }
    block[0] = block[bytes - 1] = 1;
    blocks[at] = (char *)block;
  }
  for (int i = 0; i < LIVE; i++) {
    free(blocks[i]);
  }
  return NULL;
}

int main(int count, char **words) {
  if (count != 4) {
    return 2;
  }
  bytes = strtoul(words[1], NULL, 10);
  times = strtol(words[2], NULL, 10);
  int threads = atoi(words[3]);
  pthread_t thread[THREADS_MAX];
  for (int i = 1; i < threads && i < THREADS_MAX; i++) {
    pthread_create(&thread[i], NULL, replace, (void *)(uintptr_t)i);
  }
  replace(NULL);
  for (int i = 1; i < threads && i < THREADS_MAX; i++) {
    pthread_join(thread[i], NULL);
  }
  struct timespec spent;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  printf("%.1f\n", ((double)spent.tv_sec * 1e9 + (double)spent.tv_nsec) / ((double)times * threads));
  return 0;
}
