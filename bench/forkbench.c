// forkbench MODE THREADS FORKS [BLOCKS]: THREADS threads fill their caches and sleep; the main thread forks FORKS
// times. To fill its cache, a thread allocates BLOCKS blocks of 16 bytes to 32 KiB (mostly small), writes and frees
// them. MODE fork: prints the median time in ms from before the fork to the child's first instruction, and the median
// of the child's page faults until then. MODE exec: prints the rate of forks that run /bin/true, per second and without
// a preloaded library.
#include "bench.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MAX_THREADS = 1024, MAX_BLOCKS = 1 << 20, SIZES = 1024, MIN_BYTES = 16, DOUBLINGS = 11 };

// Shared with the children.
typedef struct {
  double at;
  long faults;
} first_instruction_t;

static struct {
  uint32_t blocks;
  uint32_t sizes[SIZES];
  pthread_barrier_t warm;
} run;

static void *sleeper_main(void *arg) {
  uint64_t random = bench_seed((uintptr_t)arg);
  void **blocks = bench_map(run.blocks * sizeof(void *));
  for (uint32_t i = 0; i < run.blocks; i++)
    blocks[i] = bench_filled(run.sizes[bench_random(&random, SIZES)]);
  for (uint32_t i = 0; i < run.blocks; i++)
    free(blocks[i]);
  munmap(blocks, run.blocks * sizeof(void *));
  pthread_barrier_wait(&run.warm);
  for (;;)
    pause();
  return NULL;
}

static pid_t fork_checked(void) {
  pid_t child = fork();
  if (child < 0)
    bench_fail("forkbench: cannot fork");
  return child;
}

static void child_wait(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0)
    bench_fail("forkbench: a child did not end well");
}

static int double_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run_fork(uint32_t threads, uint64_t forks) {
  first_instruction_t *first = mmap(NULL, sizeof *first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED)
    bench_fail("forkbench: not enough memory");
  double *took_ms = bench_map(forks * sizeof *took_ms), *faults = bench_map(forks * sizeof *faults);
  for (uint64_t i = 0; i < forks; i++) {
    double start = bench_seconds();
    pid_t child = fork_checked();
    if (child == 0) {
      double at = bench_seconds();
      struct rusage usage;
      getrusage(RUSAGE_SELF, &usage);
      *first = (first_instruction_t){at, usage.ru_minflt};
      _exit(0);
    }
    child_wait(child);
    took_ms[i] = (first->at - start) * 1e3;
    faults[i] = (double)first->faults;
  }
  qsort(took_ms, forks, sizeof *took_ms, double_order);
  qsort(faults, forks, sizeof *faults, double_order);
  printf("forkbench = %.3f ms [threads=%u forks=%llu faults=%.0f longest=%.3f]\n", took_ms[forks / 2], threads,
         (unsigned long long)forks, faults[forks / 2], took_ms[forks - 1]);
}

static void run_exec(uint32_t threads, uint64_t forks) {
  double start = bench_seconds();
  for (uint64_t i = 0; i < forks; i++) {
    pid_t child = fork_checked();
    if (child == 0) {
      char *argv[] = {(char[]){"true"}, NULL}, *none[] = {NULL};
      execve("/bin/true", argv, none);
      _exit(BENCH_USAGE_EXIT);
    }
    child_wait(child);
  }
  double took = bench_seconds() - start;
  printf("forkbench = %.1f per second [threads=%u forks=%llu] time=%.3fs\n", (double)forks / took, threads,
         (unsigned long long)forks, took);
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 4, "fork|exec THREADS FORKS [BLOCKS]");
  int with_exec = argc > 1 && strcmp(argv[1], "exec") == 0;
  if (argc > 1 && !with_exec && strcmp(argv[1], "fork") != 0)
    bench_fail("forkbench: MODE must be fork or exec");
  uint32_t threads = (uint32_t)bench_arg(argc, argv, 2, "THREADS", 64, 0, MAX_THREADS);
  uint64_t forks = bench_arg(argc, argv, 3, "FORKS", 200, 1, 10000000);
  run.blocks = (uint32_t)bench_arg(argc, argv, 4, "BLOCKS", 500, 1, MAX_BLOCKS);
  bench_program_sizes(run.sizes, SIZES, MIN_BYTES, DOUBLINGS);
  pthread_barrier_init(&run.warm, NULL, threads + 1);
  for (uintptr_t i = 0; i < threads; i++) {
    pthread_t id;
    if (pthread_create(&id, NULL, sleeper_main, (void *)i) != 0)
      bench_fail("forkbench: cannot create a thread");
  }
  pthread_barrier_wait(&run.warm);
  if (with_exec)
    run_exec(threads, forks);
  else
    run_fork(threads, forks);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  fflush(NULL);
  _exit(0); // ends the process although its threads still sleep
}
