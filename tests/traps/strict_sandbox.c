/* Under strict seccomp the kernel kills the process for any call but read, write and exit. A program that warmed up can
 * go on with blocks as before: what the heap needs from the system it has then. argument: largest blocks */
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

static void use(Prng *prng, int rounds, uint32_t most) {
  static char *blocks[BLOCKS];
  for (int round = 0; round < rounds; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t bytes = 1 + prng_below(prng, most);
      blocks[i] = malloc(bytes);
      CHECK(blocks[i] != NULL);
      blocks[i][0] = blocks[i][bytes - 1] = 1;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      free(blocks[i]);
    }
    char *grown = NULL;
    for (uint32_t bytes = 1; bytes < most; bytes += bytes / 2 + 1) {
      CHECK((grown = realloc(grown, bytes)) != NULL);
    }
    free(grown);
  }
}

static void shut_and_use(void *argument) {
  uint32_t most = *(uint32_t *)argument;
  Prng prng = prng_seeded(7);
  use(&prng, WARM_ROUNDS, most);
  prng = prng_seeded(7);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
    syscall(SYS_exit, TRAP_SKIP);
  }
  use(&prng, ROUNDS, most);
  syscall(SYS_exit, 0);
}

int main(int count, char **arguments) {
  uint32_t most = count > 1 ? (uint32_t)atoi(arguments[1]) : 1000;
  trap_watchdog(60);
  TrapEnd end = trap_in_child(shut_and_use, &most);
  if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == TRAP_SKIP) {
    trap_skip("no strict seccomp");
  }
  CHECK(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
  return 0;
}
