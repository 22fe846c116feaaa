/* fork() in a program whose pthread_atfork handlers allocate. Some are registered from .preinit_array, before any
 * allocation and any library's constructor; others later, from main. Prepare handlers run in reverse order of
 * registration, the others in that order. So some of these handlers run between the allocator's own. More handlers are
 * registered early than glibc stores without allocating, so a registration makes the first allocation of the process.
 * argument: number of forks */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { EARLY_HANDLERS = 64, LATE_HANDLERS = 4, THREADS = 2, BLOCKS = 8 };

static struct churn_block kept[BLOCKS];
static unsigned prepared, parents, children;

static void allocate_all(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    kept[i].bytes = (size_t)24 << (2 * i); /* up to 393,216: small, medium and large */
    kept[i].start = malloc(kept[i].bytes);
    CHECK(kept[i].start != NULL);
    churn_block_fill(kept[i]);
  }
}

static void free_all(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (kept[i].start == NULL)
      continue;
    churn_block_verify(kept[i]);
    free(kept[i].start);
    kept[i].start = NULL;
  }
}

/* Allocates a block that no cache serves. */
static void allocate_uncached(void) {
  void *block = malloc((size_t)3 << 20);
  CHECK(block != NULL);
  free(block);
}

static void exercise(unsigned *counter) {
  free_all();
  allocate_all();
  allocate_uncached();
  ++*counter;
}

static void prepare(void) {
  exercise(&prepared);
}

static void in_parent(void) {
  exercise(&parents);
}

static void in_child(void) {
  exercise(&children);
}

static void register_early(void) {
  for (unsigned i = 0; i < EARLY_HANDLERS; i++)
    pthread_atfork(prepare, in_parent, in_child);
}

__attribute__((section(HAK_TEST_EARLIEST), used)) static void (*const preinit)(void) = register_early;

int main(int count, char **arguments) {
  static struct churn_thread threads[THREADS];
  CHECK(count == 2);
  check_served();
  unsigned handlers = EARLY_HANDLERS + LATE_HANDLERS;
  unsigned forks = check_count(arguments[1]);
  for (unsigned i = 0; i < LATE_HANDLERS; i++) {
    CHECK(pthread_atfork(prepare, in_parent, in_child) == 0);
  }
  for (unsigned i = 0; i < THREADS; i++)
    churn_thread_start(&threads[i], CHURN_MIXED, 5 + i);
  for (unsigned round = 1; round <= forks; round++) {
    pid_t child = fork();
    if (child == 0) {
      CHECK(children == handlers);
      free_all();
      exit(0);
    }
    check_child(child);
    CHECK(prepared == round * handlers);
    CHECK(parents == round * handlers);
  }
  for (unsigned i = 0; i < THREADS; i++)
    churn_thread_stop(&threads[i]);
  free_all();
  return 0;
}
