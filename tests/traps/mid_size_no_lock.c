/* In steady use, a thread that is stopped anywhere in malloc or free of a block between 32 KiB and 1 MiB blocks no
 * other thread. Before each of its instructions, another thread allocates and frees a block of the same size. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "steps.h"
#include "trap.h"

enum { WARM = 300, PAIRS = 3 };

static atomic_uint asked, answered;
static atomic_size_t bytes;

static void pair(size_t size) {
  char *block = hak_malloc(size);
  CHECK(block != NULL);
  block[0] = block[size - 1] = 1;
  hak_free(block);
}

static void pairs(void *count) {
  for (int i = 0; i < *(int *)count; i++) {
    pair(atomic_load(&bytes));
  }
}

static void *answer(void *argument) {
  (void)argument;
  for (;;) {
    while (atomic_load(&asked) == atomic_load(&answered)) {
      sched_yield();
    }
    if (atomic_load(&bytes) == 0) {
      return NULL;
    }
    pair(atomic_load(&bytes));
    atomic_fetch_add(&answered, 1);
  }
}

static void ask(unsigned step) {
  (void)step;
  atomic_fetch_add(&asked, 1);
  while (atomic_load(&asked) != atomic_load(&answered)) {
    sched_yield();
  }
}

int main(void) {
  static const size_t sizes[] = {33 << 10, 40 << 10, 64 << 10, 100 << 10, 200 << 10, 500 << 10, 700 << 10, 1 << 20};
  pthread_t other;
  if (!STEPS_SUPPORTED) {
    trap_skip("no single steps on this processor");
  }
  trap_watchdog(60);
  void *in_use = hak_malloc(16 << 20); /* caches may hold a part of this amount */
  CHECK(in_use != NULL);
  CHECK(pthread_create(&other, NULL, answer, NULL) == 0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    atomic_store(&bytes, sizes[i]);
    for (int warm = 0; warm < WARM; warm++) {
      ask(0);
      pair(sizes[i]);
    }
    unsigned steps = steps_run(pairs, &(int){PAIRS}, ask);
    CHECK(steps > PAIRS);
    printf("%zu KiB: %u instructions in %d pairs\n", sizes[i] >> 10, steps, PAIRS);
  }
  atomic_store(&bytes, 0);
  atomic_fetch_add(&asked, 1);
  CHECK(pthread_join(other, NULL) == 0);
  hak_free(in_use);
  return 0;
}
