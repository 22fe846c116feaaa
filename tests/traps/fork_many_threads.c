/* fork() while many threads hold full caches: the child starts without touching the cached blocks. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { THREADS = 64, FORKS = 5, FAULTS_MAX = 200, CLASS_BYTES = 16 << 10, BLOCKS_MAX = 256 };

static pthread_barrier_t filled, done;

/* Leaves up to 16 KiB of every size in the thread's cache. */
static void fill_cache(void) {
  for (size_t bytes = 16; bytes <= 16384; bytes += bytes < 1024 ? bytes / 2 : bytes / 4) {
    void *blocks[BLOCKS_MAX];
    size_t count = CLASS_BYTES / bytes < BLOCKS_MAX ? CLASS_BYTES / bytes : BLOCKS_MAX;
    for (size_t i = 0; i < count; i++) {
      blocks[i] = hak_malloc(bytes);
      CHECK(blocks[i] != NULL);
      memset(blocks[i], 1, bytes);
    }
    for (size_t i = 0; i < count; i++) {
      hak_free(blocks[i]);
    }
  }
}

static void *hold_cache(void *argument) {
  (void)argument;
  fill_cache();
  pthread_barrier_wait(&filled);
  pthread_barrier_wait(&done);
  return NULL;
}

static long minor_faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

static void fork_once(void) {
  pid_t child = fork();
  if (child == 0) {
    long faults = minor_faults();
    fill_cache(); /* and goes on allocating */
    if (faults > FAULTS_MAX) {
      fprintf(stderr, "%ld page faults before the child's first instruction\n", faults);
    }
    _exit(faults > FAULTS_MAX);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

int main(void) {
  pthread_t threads[THREADS];
  trap_watchdog(60);
  CHECK(pthread_barrier_init(&filled, NULL, THREADS + 1) == 0 && pthread_barrier_init(&done, NULL, THREADS + 1) == 0);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, hold_cache, NULL) == 0);
  }
  pthread_barrier_wait(&filled);
  for (int i = 0; i < FORKS; i++) {
    fork_once();
  }
  pthread_barrier_wait(&done);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  return 0;
}
