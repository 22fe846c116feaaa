/* Under strict seccomp the kernel kills the process for any call but read, write and exit. A program that warmed up can
 * go on with blocks as before: what the heap needs from the system it has then. After a shorter warm-up some requests
 * are refused, but memory that was freed serves again. arguments: largest blocks, rounds of the warm-up */
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { BLOCKS = 400, ROUNDS = 60, WARM_ROUNDS = 200 };

static uint32_t most = 1000;
static int warm_rounds = WARM_ROUNDS;

/* Returns how many requests were refused. */
static int use(Prng *prng, int rounds) {
  static char *blocks[BLOCKS];
  int refused = 0;
  for (int round = 0; round < rounds; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t bytes = 1 + prng_below(prng, most);
      blocks[i] = malloc(bytes);
      refused += blocks[i] == NULL;
      if (blocks[i] != NULL) {
        blocks[i][0] = blocks[i][bytes - 1] = 1;
      }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      free(blocks[i]);
    }
    char *grown = NULL, *next;
    for (uint32_t bytes = 1; bytes < most; bytes += bytes / 2 + 1) {
      next = realloc(grown, bytes);
      refused += next == NULL;
      grown = next != NULL ? next : grown;
    }
    free(grown);
  }
  return refused;
}

static void shut_and_use(void *unused) {
  (void)unused;
  Prng prng = prng_seeded(7);
  CHECK(use(&prng, warm_rounds) == 0);
  prng = prng_seeded(7);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
    syscall(SYS_exit, TRAP_SKIP);
  }
  int refused = use(&prng, ROUNDS);
  CHECK(refused == 0 || (warm_rounds < WARM_ROUNDS && refused < ROUNDS * BLOCKS / 2));
  syscall(SYS_exit, 0);
}

int main(int count, char **arguments) {
  most = count > 1 ? (uint32_t)atoi(arguments[1]) : most;
  warm_rounds = count > 2 ? atoi(arguments[2]) : warm_rounds;
  trap_watchdog(60);
  TrapEnd end = trap_in_child(shut_and_use, NULL);
  if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == TRAP_SKIP) {
    trap_skip("no strict seccomp");
  }
  CHECK(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
  return 0;
}
