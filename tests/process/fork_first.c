/* fork() races the first allocation of a process. Neither a constructor nor an earlier call has allocated. Threads wait
 * at a gate; then all make their first allocation while the main thread forks.
 * argument: number of processes, each with its own first allocation; or "once" */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { THREADS = 2 };

static _Atomic unsigned waiting;
static _Atomic bool gate;

static void allocate_some(unsigned seed) {
  struct churn_table table;
  churn_table_init(&table, CHURN_MIXED, seed);
  churn_table_steps(&table, CHURN_SLOTS);
  churn_table_clear(&table);
}

static void *race(void *argument) {
  atomic_fetch_add(&waiting, 1);
  while (!atomic_load(&gate))
    sched_yield();
  allocate_some((unsigned)(uintptr_t)argument);
  return NULL;
}

static void fork_and_verify(void) {
  pid_t child = fork();
  if (child == 0) {
    allocate_some(3);
    exit(0);
  }
  allocate_some(4);
  check_child(child);
}

static void once(void) {
  pthread_t ids[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&ids[i], NULL, race, (void *)(i + 1)) == 0);
  }
  while (atomic_load(&waiting) != THREADS)
    sched_yield();
  atomic_store(&gate, true);
  fork_and_verify();
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_join(ids[i], NULL) == 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  if (strcmp(arguments[1], "once") == 0) {
    once();
    return 0;
  }
  check_served();
  unsigned processes = check_count(arguments[1]);
  for (unsigned i = 0; i < processes; i++)
    check_run_again("once");
  return 0;
}
