/* A region that is made while a fork takes the locks of the others is not left out: the fork begins again. */
#include "check.h"
#include "hakmem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 20, PATIENCE_S = 20 };

static _Atomic(hak_region_t *) newest;
static _Atomic int stop, forks;

/* Stands before libc's, which the heap calls when a fork begins, before it takes the locks of regions. */
void _IO_list_lock(void);
void _IO_list_unlock(void);
void _IO_list_resetlock(void);
void _IO_list_lock(void) {
  if (atomic_exchange(&forks, 0) > 0) {
    atomic_store(&newest, hak_region_new(NULL));
    usleep(1000); /* until the other thread uses it */
  }
}
void _IO_list_unlock(void) {}
void _IO_list_resetlock(void) {}

/* Holds the region's lock nearly all the time. */
static void *use(void *unused) {
  while (!stop) {
    hak_region_usage_t usage;
    hak_region_t *region = atomic_load(&newest);
    if (region) {
      hak_region_usage(region, &usage);
    }
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  hak_region_t *first = hak_region_new(NULL);
  CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
  for (int i = 0; i < FORKS; i++) {
    atomic_store(&forks, 1);
    pid_t child = fork();
    if (child == 0) {
      alarm(PATIENCE_S);
      _exit(hak_region_malloc(atomic_load(&newest), 100) ? 0 : 1);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(atomic_load(&forks) == 0);
  }
  atomic_store(&stop, 1);
  CHECK(pthread_join(thread, NULL) == 0);
  hak_region_destroy(first);
  return 0;
}
