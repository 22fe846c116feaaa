// spawn ROUNDS SEED LIBRARY... -- PROGRAM [ARGS]: starts PROGRAM ROUNDS times with each LIBRARY preloaded ("-" for
// none), in a new random order every round, and prints for each start: index of the library, milliseconds from start to
// end, peak resident KiB, exit status. Linked statically: a child's figure is never below its parent's at the start.
#include "bench.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MAX_LIBRARIES = 32, MAX_VARIABLES = 1024, MAX_PATH_BYTES = 4096 };
extern char **environ;

// The present environment with LD_PRELOAD replaced.
static char **environment_with(const char *library) {
  static char *variables[MAX_VARIABLES];
  static char preload[MAX_PATH_BYTES + sizeof "LD_PRELOAD="];
  size_t count = 0;
  for (char **v = environ; *v != NULL && count < MAX_VARIABLES - 2; v++)
    if (strncmp(*v, "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
      variables[count++] = *v;
  if (strcmp(library, "-") != 0) {
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    variables[count++] = preload;
  }
  variables[count] = NULL;
  return variables;
}

static void spawn_once(int index, const char *library, char **program, const posix_spawn_file_actions_t *quiet) {
  char **variables = environment_with(library);
  pid_t child;
  double start = bench_seconds();
  int error = posix_spawnp(&child, program[0], quiet, NULL, program, variables);
  if (error != 0) {
    fprintf(stderr, "spawn: cannot start %s: %s\n", program[0], strerror(error));
    exit(BENCH_USAGE_EXIT);
  }
  int status = 0;
  struct rusage usage;
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR)
    ;
  double took = bench_seconds() - start;
  printf("%d %.4f %ld %d\n", index, took * 1e3, usage.ru_maxrss,
         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int main(int argc, char **argv) {
  uint64_t rounds = bench_arg(argc, argv, 1, "ROUNDS", 1, 1, 1000000);
  uint64_t random = bench_seed(bench_arg(argc, argv, 2, "SEED", 1, 0, UINT64_MAX));
  uint32_t count = 0;
  while (3 + (int)count < argc && strcmp(argv[3 + count], "--") != 0)
    count++;
  int program = 4 + (int)count;
  if (count == 0 || count > MAX_LIBRARIES || program >= argc)
    bench_fail("spawn: usage: spawn ROUNDS SEED LIBRARY... -- PROGRAM [ARGS]");

  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  int order[MAX_LIBRARIES];
  for (uint32_t i = 0; i < count; i++)
    order[i] = (int)i;
  for (uint64_t round = 0; round < rounds; round++) {
    for (uint32_t i = count - 1; i > 0; i--) {
      uint32_t j = bench_random(&random, i + 1);
      int t = order[i];
      order[i] = order[j];
      order[j] = t;
    }
    for (uint32_t i = 0; i < count; i++)
      spawn_once(order[i], argv[3 + order[i]], argv + program, &quiet);
  }
  return 0;
}
