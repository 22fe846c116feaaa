/* Forks while other threads end, and new threads take over their caches. In a child, every block is as valid as in the
 * parent, and is handed out once. argument: number of forks */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { ENDERS = 2, BLOCKS = 1500, BYTES = 300, CHILD_BLOCKS = 4 * BLOCKS };

static atomic_bool over;

static void *fill_and_free(void *unused) {
  void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = hak_malloc(BYTES)) != NULL);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  return unused;
}

static void *end_threads(void *unused) {
  while (!over) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fill_and_free, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  return unused;
}

static _Noreturn void live_in_a_child(void) {
  static size_t *blocks[CHILD_BLOCKS];
  trap_watchdog(60);
  for (size_t i = 0; i < CHILD_BLOCKS; i++) {
    CHECK((blocks[i] = hak_malloc(BYTES)) != NULL);
    *blocks[i] = i;
  }
  for (size_t i = 0; i < CHILD_BLOCKS; i++) {
    CHECK(*blocks[i] == i);
    hak_free(blocks[i]);
  }
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fill_and_free, NULL) == 0 && pthread_join(thread, NULL) == 0);
  _exit(0);
}

int main(int count, char **arguments) {
  pthread_t enders[ENDERS];
  trap_watchdog(120);
  for (size_t i = 0; i < ENDERS; i++) {
    CHECK(pthread_create(&enders[i], NULL, end_threads, NULL) == 0);
  }
  CHECK(count == 2);
  for (int i = atoi(arguments[1]); i > 0; i--) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      live_in_a_child();
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  over = true;
  for (size_t i = 0; i < ENDERS; i++) {
    CHECK(pthread_join(enders[i], NULL) == 0);
  }
  return 0;
}
