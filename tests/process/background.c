/* HAKMEM_BACKGROUND: a sleeping process gives idle memory back, also in the child of a fork. The thread disturbs
 * neither signals, forks, setgid nor the end of the process. argument: on or off, as in the environment; last: the
 * first thread ends before the others */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 64, BLOCK = 1 << 20, ROUNDS = 4, FORKS = 40, WAIT_S = 60 };
static const size_t peak_kib = (size_t)BLOCKS * BLOCK / 1024;

/* Memory that is faulted in twice stays resident. */
static void fill_and_free(size_t count, size_t bytes) {
  static char *block[BLOCKS];
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < count; i++) {
      block[i] = malloc(bytes);
      CHECK(block[i] != NULL);
      memset(block[i], 1, bytes);
    }
    for (size_t i = 0; i < count; i++) {
      free(block[i]);
    }
  }
}

static void learn(void) {
  fill_and_free(BLOCKS, BLOCK);
}

/* Blocks above 1 MiB take another path. */
static void use_huge_blocks(void) {
  fill_and_free(BLOCKS / 4, (size_t)4 * BLOCK);
}

static unsigned threads(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent *entry; (entry = readdir(tasks));) {
    count += entry->d_name[0] != '.';
  }
  CHECK(closedir(tasks) == 0);
  return count;
}

static void nap_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  CHECK(nanosleep(&time, NULL) == 0);
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

static void *end_later(void *unused) {
  nap_ms(300);
  return unused;
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
  if (strcmp(arguments[1], "off") == 0) {
    CHECK(threads() == 1);
    return 0;
  }
  CHECK(threads() == 2);
  falls_asleep();
  signals_pass_it_by();
  CHECK(setgid(getgid()) == 0); /* libc sends a signal of its own to every thread, and waits */
  forks_beside_it();
  in_child(learn);
  in_child(use_huge_blocks);
  return 0;
}
