/* Thousands of forks from a process whose other threads allocate without a pause: none may deadlock. Most children
 * allocate and free one block; every 64th does more work and ends through exit().
 * argument: number of forks */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { THREADS = 3, WORK_EVERY = 64, WORK_STEPS = 3000 };

static void child_main(unsigned number) {
  if (number % WORK_EVERY != 0) {
    struct churn_block block = {malloc(1 + number % 2000), 1 + number % 2000};
    CHECK(block.start != NULL);
    churn_block_fill(block);
    churn_block_verify(block);
    free(block.start);
    _exit(0);
  }
  static struct churn_table table;
  churn_table_init(&table, CHURN_MIXED, number + 1);
  churn_table_steps(&table, WORK_STEPS);
  churn_table_clear(&table);
  exit(0);
}

int main(int count, char **arguments) {
  static struct churn_thread threads[THREADS];
  CHECK(count == 2);
  check_served();
  unsigned forks = check_count(arguments[1]);
  for (unsigned i = 0; i < THREADS; i++)
    churn_thread_start(&threads[i], CHURN_SMALL, 11 + i);
  for (unsigned number = 0; number < forks; number++) {
    pid_t child = fork();
    if (child == 0)
      child_main(number);
    check_child(child);
  }
  for (unsigned i = 0; i < THREADS; i++) {
    CHECK(atomic_load(&threads[i].rounds) > 0);
    churn_thread_stop(&threads[i]);
  }
  return 0;
}
