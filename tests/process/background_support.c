#include "background.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { ROUNDS = 4, JOINS = 20 };

void fill_and_free(size_t count, size_t bytes) {
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

void learn(void) {
  fill_and_free(BLOCKS, BLOCK);
}

unsigned threads(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent *entry; (entry = readdir(tasks));) {
    count += entry->d_name[0] != '.';
  }
  CHECK(closedir(tasks) == 0);
  return count;
}

/* False: the task has ended. */
static bool read_of(const char *task, const char *what, char *text, size_t bytes) {
  char name[300];
  CHECK(snprintf(name, sizeof name, "/proc/self/task/%s/%s", task, what) < (int)sizeof name);
  int file = open(name, O_RDONLY);
  ssize_t length = file >= 0 ? read(file, text, bytes - 1) : -1;
  CHECK(file < 0 || close(file) == 0);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

static bool is_background(const char *task) {
  char text[17];
  return read_of(task, "comm", text, sizeof text) && strcmp(text, "hakmem\n") == 0;
}

static bool status_of_background(char *text, size_t bytes) {
  bool found = false;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent *entry; !found && (entry = readdir(tasks));) {
    found = entry->d_name[0] != '.' && is_background(entry->d_name) && read_of(entry->d_name, "status", text, bytes);
  }
  CHECK(closedir(tasks) == 0);
  return found;
}

bool has_background(void) {
  char text[4096];
  return status_of_background(text, sizeof text);
}

bool background_blocks(int signal) {
  char text[4096];
  CHECK(status_of_background(text, sizeof text));
  const char *line = strstr(text, "SigBlk:");
  CHECK(line != NULL);
  return strtoull(line + strlen("SigBlk:"), NULL, 16) >> (signal - 1) & 1;
}

void nap_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0) { /* setgid interrupts it in other threads */
    CHECK(errno == EINTR);
  }
}

void wait_for_threads(unsigned count) {
  int naps = WAIT_S * 100;
  for (; threads() != count && naps > 0; naps--) {
    nap_ms(10);
  }
  CHECK(naps > 0);
}

_Atomic bool works, ends;

static void *worker(void *unused) {
  sigset_t signals;
  CHECK(sigfillset(&signals) == 0 && pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
  free(malloc(100));
  while (!ends) {
    if (works) {
      char *block = malloc((size_t)4 * BLOCK);
      CHECK(block != NULL);
      block[0] = 1;
      free(block);
    }
    nap_ms(1);
  }
  return unused;
}

static pthread_t workers[WORKERS];

void start_workers(void) {
  ends = false;
  for (int i = 0; i < WORKERS; i++) {
    CHECK(pthread_create(&workers[i], NULL, worker, NULL) == 0);
  }
}

void end_workers(void) {
  ends = true;
  for (int i = 0; i < WORKERS; i++) {
    CHECK(pthread_join(workers[i], NULL) == 0);
  }
}

void none_starts(void) {
  start_workers();
  works = true;
  nap_ms(600);
  learn();
  CHECK(threads() == 1 + WORKERS);
  end_workers();
}

void gone_when_joined(void) {
  for (int i = 0; i < JOINS; i++) {
    start_workers();
    works = true;
    for (int naps = WAIT_S * 100; !has_background(); naps--) {
      CHECK(naps > 0);
      nap_ms(10);
    }
    end_workers();
    CHECK(!has_background());
  }
}
