/* The number of system calls for a huge block does not depend on its size, whether it is allocated or grown. */
#include "trap.h"

enum { ROUNDS = 10, CALLS_MAX = 10, STEPS = 200, STEP_CALLS_MAX = 20 };
#define BYTES ((size_t)3 << 30)

static char *take(char *block, size_t bytes) {
  block = hak_realloc(block, bytes);
  if (!block) {
    trap_skip("the system has no memory for it");
  }
  block[bytes - 1] = 1;
  return block;
}

int main(void) {
  trap_watchdog(60);
  hak_free(take(NULL, BYTES));
  uint64_t before = trap_os_calls();
  for (int i = 0; i < ROUNDS; i++) {
    hak_free(take(NULL, BYTES));
  }
  uint64_t calls = trap_os_calls() - before;
  printf("%ju calls in %d rounds\n", (uintmax_t)calls, ROUNDS);
  CHECK(calls <= (uint64_t)ROUNDS * CALLS_MAX);
  char *block = NULL;
  for (size_t i = 1; i <= STEPS; i++) {
    block = take(block, BYTES / STEPS * i);
  }
  hak_free(block);
  calls = trap_os_calls() - before;
  printf("%ju calls in %d steps\n", (uintmax_t)calls, STEPS);
  CHECK(calls <= (uint64_t)STEPS * STEP_CALLS_MAX);
  return 0;
}
