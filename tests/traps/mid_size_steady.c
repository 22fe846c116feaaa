/* Blocks of 33 KiB to 1 MiB in steady use: after a warm-up, no system call is made, except at a new peak of a random
 * walk. */
#include "prng.h"
#include "trap.h"

enum { LIVE = 48, STEPS = 30000, PAIRS = 10000, PEAKS = STEPS / 300 };

typedef struct {
  char *live[LIVE];
  Prng prng;
} Set;

static void replace(Set *set, size_t low, size_t high) {
  size_t i = prng_below(&set->prng, LIVE);
  hak_free(set->live[i]);
  size_t bytes = low + prng_below(&set->prng, (uint32_t)(high - low));
  set->live[i] = hak_malloc(bytes);
  CHECK(set->live[i] != NULL);
  set->live[i][0] = set->live[i][bytes - 1] = 1;
}

static void clear(Set *set) {
  for (size_t i = 0; i < LIVE; i++) {
    hak_free(set->live[i]);
    set->live[i] = NULL;
  }
}

static void steady_set(size_t low, size_t high) {
  static Set set;
  set.prng = prng_seeded(low);
  for (int i = 0; i < STEPS; i++) {
    replace(&set, low, high);
  }
  uint64_t before = trap_os_calls();
  for (int i = 0; i < STEPS; i++) {
    replace(&set, low, high);
  }
  uint64_t calls = trap_os_calls() - before;
  printf("%zu to %zu KiB: %llu system calls in %d steps\n", low >> 10, high >> 10, (unsigned long long)calls, STEPS);
  CHECK(calls <= PEAKS);
  clear(&set);
}

static void steady_pairs(size_t bytes) {
  for (int i = 0; i < 100; i++) {
    hak_free(hide_pointer(hak_malloc(bytes)));
  }
  uint64_t before = trap_os_calls();
  for (int i = 0; i < PAIRS; i++) {
    hak_free(hide_pointer(hak_malloc(bytes)));
  }
  CHECK(trap_os_calls() == before);
}

int main(void) {
  static const size_t sizes[] = {33 << 10, 40 << 10, 64 << 10, 100 << 10, 200 << 10, 500 << 10, 700 << 10, 1 << 20};
  trap_watchdog(60);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    steady_pairs(sizes[i]);
  }
  steady_set(33 << 10, 64 << 10);
  steady_set(33 << 10, 256 << 10);
  steady_set(33 << 10, 1 << 20);
  return 0;
}
