/* A program linked with libhakmem.a, and otherwise dynamically or statically. malloc must be ours, and so must every
 * function that the C library would define together with its malloc. */
#include <hakmem.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { THREADS = 3, STEPS = 20000 };

/* Blocks of each interface are freed through the other. If there were two allocators, they would refuse them. */
static void check_same_heap(void) {
  char *text = strdup("one heap");
  CHECK(text != NULL);
  CHECK(hak_malloc_usable_size(text) == malloc_usable_size(text));
  hak_free(text);
  void *block = hak_malloc(1000);
  CHECK(block != NULL);
  free(realloc(block, 100000));
  CHECK(posix_memalign(&block, 4096, 100) == 0);
  hak_free(block);
  hak_free(valloc(1));
  hak_free(memalign(64, 64));
  hak_free(reallocarray(NULL, 10, 10));
  block = malloc(0);
  CHECK(block != NULL && hak_malloc_usable_size(block) == 0);
  hak_free(block);
}

int main(void) {
  static struct churn_thread threads[THREADS];
  static struct churn_table table;
  CHECK(hak_version() == HAKMEM_VERSION);
  check_same_heap();
  for (unsigned i = 0; i < THREADS; i++)
    churn_thread_start(&threads[i], CHURN_MIXED, 3 + i);
  churn_table_init(&table, CHURN_MIXED, 1);
  churn_table_steps(&table, STEPS);
  pid_t child = fork();
  churn_table_steps(&table, STEPS);
  churn_table_clear(&table);
  if (child == 0)
    exit(0);
  check_child(child);
  for (unsigned i = 0; i < THREADS; i++)
    churn_thread_stop(&threads[i]);
  hak_check();
  return puts("done") >= 0 ? 0 : 1;
}
