/* HAKMEM_BACKGROUND where a start of the thread is not as usual. argument: filtered: none starts once the program has
 * set a filter; intercepted: another library intercepts the start of threads, and allocates in each; real_time: none
 * starts while the program's threads have a real-time priority */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "background.h"
#include "check.h"

enum { SKIPPED = 77 };
#ifdef LARGE_TLS
static _Thread_local volatile char large[(size_t)1 << 18]; /* the C library takes it from the stack of a thread */
#endif

typedef struct start {
  void *(*work)(void *);
  void *argument;
} start_t;

static bool intercepts;

static void *begin(void *allocated) {
  start_t start = *(start_t *)allocated;
  free(allocated);
  free(malloc(100));
  void *result = start.work(start.argument);
  free(malloc(100));
  return result;
}

/* As a profiler does; the library's own thread comes here, too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
  int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
  start_t *start = intercepts ? malloc(sizeof *start) : NULL;
  if (!start) {
    return next(thread, attributes, work, argument);
  }
  *start = (start_t){work, argument};
  return next(thread, attributes, begin, start);
}

/* A thread of the library's own would inherit the priority. */
static void none_in_real_time(void) {
  const struct sched_param priority = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    exit(SKIPPED);
  }
  start_workers();
  works = true;
  nap_ms(600);
  learn();
  CHECK(threads() == 1 + WORKERS);
  end_workers();
}

static void none_under_a_filter(void) {
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &all};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  works = true;
  start_workers();
  nap_ms(600);
  learn();
  CHECK(threads() == 1 + WORKERS);
  end_workers();
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  check_served();
  learn();
  if (strcmp(arguments[1], "filtered") == 0) {
    none_under_a_filter();
  } else if (strcmp(arguments[1], "real_time") == 0) {
    none_in_real_time();
  } else {
    CHECK(strcmp(arguments[1], "intercepted") == 0);
    intercepts = true;
    gone_when_joined();
  }
  return 0;
}
