/* HAKMEM_BACKGROUND: a sleeping process gives idle memory back, also in the child of a fork. The thread disturbs
 * neither signals, forks, setgid nor the end of the process. argument: on or off, as in the environment; auto: a
 * thread while the program has several; last: the first thread ends before the others */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "background.h"
#include "check.h"

enum { FORKS = 40, CHURNS = 300 };
#ifdef __GLIBC__
enum { LEAVES = 10 };
#else
enum { LEAVES = 0 }; /* musl 1.2.3: pthread_exit of a forked child's first thread keeps a lock */
#endif
static const size_t peak_kib = (size_t)BLOCKS * BLOCK / 1024;

/* Blocks above 1 MiB take another path. */
static void use_huge_blocks(void) {
  fill_and_free(BLOCKS / 4, (size_t)4 * BLOCK);
}

/* Memory is given back although the program does not call the allocator. */
static void falls_asleep(void) {
  int naps = WAIT_S * 100;
  for (; check_rss_kib() > peak_kib / 4 && naps > 0; naps--) {
    nap_ms(10);
  }
  CHECK(naps > 0);
}

static volatile sig_atomic_t handled_by;

static void handle(int signal) {
  (void)signal;
  handled_by = gettid();
}

/* The program's handlers see what the thread's own instructions raise, as in the thread that started it. */
static void faults_are_told(void) {
  const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    CHECK(!background_blocks(own[i]));
  }
  CHECK(background_blocks(SIGUSR1));
}

/* A signal to the process is handled by a thread of the program. */
static void signals_pass_it_by(void) {
  CHECK(signal(SIGUSR1, handle) != SIG_ERR);
  for (int i = 0; i < 100; i++) {
    handled_by = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0);
    while (handled_by == 0) {
      nap_ms(1);
    }
    CHECK(handled_by == getpid());
  }
}

static void forks_beside_it(void) {
  for (int i = 0; i < FORKS; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      void *block = malloc((size_t)3 << 20);
      CHECK(block != NULL);
      memset(block, 1, (size_t)3 << 20);
      free(block);
      _exit(0);
    }
    check_child(child);
  }
}

/* The child does not count its threads: counting would allocate, and so start the background thread. */
static void in_child(void (*body)(void)) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    body();
    falls_asleep();
    exit(0);
  }
  check_child(child);
}

/* The child of a program with several threads has one. */
static void alone_in_child(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 4; i++) {
      learn();
      nap_ms(100);
      CHECK(threads() == 1);
    }
    exit(0);
  }
  check_child(child);
}

static void *end_later(void *unused) {
  nap_ms(300);
  return unused;
}

static void check_not_in_background(void) {
  char name[16] = "";
  CHECK(prctl(PR_GET_NAME, name) == 0);
  CHECK(strcmp(name, "hakmem") != 0);
}

/* All threads end at once. The last one runs the handlers of exit, and needs a whole stack for them. */
static void leave_together(void) {
  for (int i = 0; i < LEAVES; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(atexit(check_not_in_background) == 0);
      start_workers();
      works = true;
      nap_ms(300);
      ends = true;
      pthread_exit(NULL);
    }
    check_child(child);
  }
}

/* Libc knows the parent's threads there, and none of the child's. */
static void vfork_starts_none(void) {
  pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
  CHECK(child >= 0);
  if (child == 0) {
    learn(); /* NOLINT(clang-analyzer-unix.Vfork) */
    _exit(threads() == 1 ? 0 : 1);
  }
  check_child(child);
}

static void *churn(void *unused) {
  char *block = malloc(BLOCK / 16);
  CHECK(block != NULL);
  memset(block, 1, BLOCK / 16);
  free(block);
  return unused;
}

/* Starts and ends of the background thread meet those of the program's threads. */
static void churn_threads(void) {
  for (int i = 0; i < CHURNS; i++) {
    pthread_t several[WORKERS];
    for (int j = 0; j < WORKERS; j++) {
      CHECK(pthread_create(&several[j], NULL, churn, NULL) == 0);
    }
    nap_ms(i % 3);
    free(churn(malloc(100)));
    for (int j = 0; j < WORKERS; j++) {
      CHECK(pthread_join(several[j], NULL) == 0);
    }
  }
  wait_for_threads(1);
}

static void *learn_and_end(void *unused) {
  free(malloc(100));
  nap_ms(16 * BLOCKS); /* long enough to pay for the pages of all blocks */
  learn();
  return unused;
}

/* The last of several threads to end gives back what they left: no call of the program shows then that the load is
 * over, and the background thread is gone. */
static void ended_threads_leave_nothing(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, learn_and_end, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(!has_background() && check_rss_kib() < peak_kib / 4);
}

static void one_while_there_are_several(void) {
  CHECK(threads() == 1);
  start_workers();
  nap_ms(300); /* longer than the program must have several threads first */
  vfork_starts_none();
  works = true;
  wait_for_threads(1 + WORKERS + 1);
  works = false;
  learn();
  falls_asleep();
  nap_ms(2000); /* the thread sleeps without a limit by now */
  learn();
  falls_asleep();
  alone_in_child();
  signals_pass_it_by();
  CHECK(setgid(getgid()) == 0); /* libc sends a signal of its own to every thread, and waits */
  forks_beside_it();
  end_workers();
  wait_for_threads(1);
  ended_threads_leave_nothing();
  churn_threads();
  gone_when_joined();
  leave_together();
  start_workers();
  works = true;
  wait_for_threads(1 + WORKERS + 1);
}

/* The process ends with the last thread of the program. */
static void outlive_the_first_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, end_later, NULL) == 0 && pthread_detach(thread) == 0);
  pthread_exit(NULL);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  check_served();
  learn();
  if (strcmp(arguments[1], "last") == 0) {
    outlive_the_first_thread();
  }
  if (strcmp(arguments[1], "auto") == 0) {
    one_while_there_are_several();
    return 0;
  }
  if (strcmp(arguments[1], "off") == 0) {
    none_starts();
    return 0;
  }
  CHECK(threads() == 2);
  faults_are_told();
  falls_asleep();
  signals_pass_it_by();
  CHECK(setgid(getgid()) == 0); /* libc sends a signal of its own to every thread, and waits */
  forks_beside_it();
  in_child(learn);
  in_child(use_huge_blocks);
  return 0;
}
