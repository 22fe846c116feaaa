/* Two threads free one block at the same moment, and one of them reports it at once: the process ends before any later
 * call could. free_at_once TRIALS BYTES */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void *block;
static atomic_int waiting;

static void *free_it(void *unused) {
  free(malloc(1)); /* the thread has its cache */
  atomic_fetch_add(&waiting, 1);
  while (atomic_load(&waiting) < 2) { /* both leave as nearly at once as the machine can */
  }
  free(hide_pointer(block));
  return unused;
}

static void commit(size_t bytes) {
  pthread_t thread;
  (void)!freopen("/dev/null", "w", stderr);
  signal(SIGABRT, SIG_DFL);
  CHECK((block = malloc(bytes)) != NULL);
  CHECK(pthread_create(&thread, NULL, free_it, NULL) == 0);
  free_it(NULL);
  pthread_join(thread, NULL);
  _exit(0);
}

int main(int count, char **words) {
  CHECK(count == 3);
  int trials = atoi(words[1]), missed = 0;
  for (int i = 0; i < trials; i++) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      commit(strtoul(words[2], NULL, 10));
    }
    CHECK(waitpid(child, &status, 0) == child);
    missed += !WIFSIGNALED(status);
  }
  printf("%d of %d missed\n", missed, trials);
  CHECK(missed == 0);
  return 0;
}
