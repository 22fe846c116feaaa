/* fork() in the middle of other threads' heavy traffic, large blocks included. The child frees what other
 * threads of its parent had allocated, allocates, starts threads and forks again; the parent goes on.
 * argument: number of forks */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { THREADS = 3, CHILD_THREADS = 2, CHILD_STEPS = 2000, DEPTH = 4 };

static struct churn_table parked[THREADS];

/* Fills a table and ends. The main thread waits for it, so the blocks come from threads that a child does not have. */
static void *park(void *argument) {
  churn_table_fill(argument);
  return NULL;
}

static void refill_parked(unsigned round) {
  pthread_t ids[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    churn_table_init(&parked[i], CHURN_MIXED, 1000 + round * THREADS + i);
    CHECK(pthread_create(&ids[i], NULL, park, &parked[i]) == 0);
  }
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_join(ids[i], NULL) == 0);
}

static void clear_parked(void) {
  for (unsigned i = 0; i < THREADS; i++)
    churn_table_clear(&parked[i]);
}

static void work(unsigned seed) {
  static struct churn_table own;
  static struct churn_thread threads[CHILD_THREADS];
  churn_table_init(&own, CHURN_MIXED, seed);
  churn_table_steps(&own, CHILD_STEPS);
  for (unsigned i = 0; i < CHILD_THREADS; i++) {
    churn_thread_start(&threads[i], CHURN_MIXED, seed + i);
  }
  churn_table_steps(&own, CHILD_STEPS);
  for (unsigned i = 0; i < CHILD_THREADS; i++)
    churn_thread_stop(&threads[i]);
  churn_table_clear(&own);
}

/* Each generation forks while its threads run, and lives on after its child has ended. */
static void nest(unsigned depth) {
  struct churn_thread thread;
  if (depth == 0)
    return;
  churn_thread_start(&thread, CHURN_MIXED, depth);
  pid_t child = fork();
  if (child == 0) {
    nest(depth - 1);
    work(depth);
    _exit(0);
  }
  check_child(child);
  churn_thread_stop(&thread);
}

static void child_main(unsigned round) {
  clear_parked();
  work(round + 1);
  if (round % 8 == 0)
    nest(DEPTH);
  if (round % 2 == 0)
    exit(0);
  _exit(0);
}

int main(int count, char **arguments) {
  static struct churn_thread threads[THREADS];
  CHECK(count == 2);
  check_served();
  unsigned forks = check_count(arguments[1]);
  for (unsigned i = 0; i < THREADS; i++)
    churn_thread_start(&threads[i], CHURN_MIXED, 7 + i);
  for (unsigned round = 0; round < forks; round++) {
    refill_parked(round);
    pid_t child = fork();
    if (child == 0)
      child_main(round);
    clear_parked();
    work(round);
    check_child(child);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    CHECK(atomic_load(&threads[i].rounds) > 0);
    churn_thread_stop(&threads[i]);
  }
  return 0;
}
