/* HAKMEM_BACKGROUND where a start of the thread is not as usual. argument: filtered: none starts once the program has
 * set a filter; intercepted: another library intercepts the start of threads, and allocates in each; real_time: none
 * starts while the program's threads have a real-time priority; signals: the program waits for blocked signals, and
 * libc sends one of its own. The last also with much thread-local storage. */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "background.h"
#include "check.h"

enum { SKIPPED = 77, LIVES = 150 };
#ifdef LARGE_TLS
static _Thread_local volatile char large[LARGE_TLS]; /* the C library takes it from the stack of a thread */
#endif

typedef struct start {
  void *(*work)(void *);
  void *argument;
} start_t;

static bool intercepts;

static void *begin(void *allocated) {
  start_t start = *(start_t *)allocated;
  free(allocated);
  void *block = malloc(100);
  nap_ms(2);
  free(block);
  void *result = start.work(start.argument);
  free(malloc(100));
  return result;
}

/* Threads end while the library's own is about to begin. */
static void gone_after_short_lives(void) {
  for (int i = 0; i < LIVES; i++) {
    start_workers();
    works = true;
    nap_ms(3 + i % 30);
    end_workers();
    CHECK(!has_background());
  }
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
  none_starts();
}

static void blocked_signals_reach_the_program(void) {
  const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGUSR1};
  sigset_t all;
  CHECK(sigfillset(&all) == 0 && pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  start_workers();
  works = true;
  wait_for_threads(1 + WORKERS + 1);
  nap_ms(50); /* it may have just begun */
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    int got = 0;
    CHECK(kill(getpid(), own[i]) == 0);
    CHECK(sigwait(&all, &got) == 0 && got == own[i]);
  }
  CHECK(setgid(getgid()) == 0); /* its handler runs on the stack of the library's thread, too */
  end_workers();
}

static void none_under_a_filter(void) {
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &all};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  none_starts();
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  check_served();
#ifdef LARGE_TLS
  large[0] = 1;
#endif
  learn();
  if (strcmp(arguments[1], "filtered") == 0) {
    none_under_a_filter();
  } else if (strcmp(arguments[1], "real_time") == 0) {
    none_in_real_time();
  } else if (strcmp(arguments[1], "signals") == 0) {
    blocked_signals_reach_the_program();
  } else {
    CHECK(strcmp(arguments[1], "intercepted") == 0);
    intercepts = true;
    gone_when_joined();
    gone_after_short_lives();
  }
  return 0;
}
