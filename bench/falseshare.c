// falseshare MODE ROUNDS [BYTES]: how much threads slow each other down when the allocator puts their blocks on one
// cache line. MODE scratch: the main thread allocates blocks for both threads in turn. Each thread frees its blocks,
// then repeatedly allocates some, writes to them many times and frees them. MODE thrash: the same without the blocks of
// the main thread. MODE both: first one, then the other. Without BYTES, runs the sizes 8, 16, 32 and 64 in turn.
#include "bench.h"

#include <pthread.h>

enum { THREADS = 2, BLOCKS = 8, WRITES = 100 };

typedef struct {
  _Alignas(BENCH_LINE_BYTES) void *inherited[BLOCKS];
  void *held[BLOCKS];
  uint64_t rounds;
  size_t bytes;
  pthread_barrier_t *start;
  pthread_t id;
} worker_t;

static void write_often(volatile char *block, size_t bytes) {
  for (int i = 0; i < WRITES; i++)
    block[(size_t)i % bytes] = (char)(block[(size_t)i % bytes] + 1);
}

static void *worker_main(void *arg) {
  worker_t *me = arg;
  pthread_barrier_wait(me->start);
  for (int i = 0; i < BLOCKS; i++)
    free(me->inherited[i]);
  for (uint64_t round = 0; round < me->rounds; round++) {
    for (int i = 0; i < BLOCKS; i++)
      me->held[i] = bench_malloc(me->bytes);
    for (int i = 0; i < BLOCKS; i++)
      write_often(me->held[i], me->bytes);
    for (int i = 0; i < BLOCKS; i++)
      free(me->held[i]);
  }
  return NULL;
}

static double share_run(int inherit, uint64_t rounds, size_t bytes) {
  static worker_t workers[THREADS];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, THREADS + 1);
  memset(workers, 0, sizeof workers);
  for (int i = 0; inherit && i < BLOCKS; i++)
    for (int t = 0; t < THREADS; t++)
      workers[t].inherited[i] = bench_touched(bytes);
  for (int t = 0; t < THREADS; t++) {
    workers[t].rounds = rounds;
    workers[t].bytes = bytes;
    workers[t].start = &start;
    if (pthread_create(&workers[t].id, NULL, worker_main, &workers[t]) != 0)
      bench_fail("falseshare: cannot create a thread");
  }
  pthread_barrier_wait(&start);
  double begin = bench_seconds();
  for (int t = 0; t < THREADS; t++)
    pthread_join(workers[t].id, NULL);
  double took = bench_seconds() - begin;
  pthread_barrier_destroy(&start);
  return took;
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {8, 16, 32, 64};
  bench_expect_args(argc, argv, 3, "MODE ROUNDS [BYTES]");
  const char *mode = argc > 1 ? argv[1] : "both";
  if (strcmp(mode, "scratch") != 0 && strcmp(mode, "thrash") != 0 && strcmp(mode, "both") != 0)
    bench_fail("falseshare: MODE must be scratch, thrash or both");
  uint64_t rounds = bench_arg(argc, argv, 2, "ROUNDS", 200000, 1, UINT64_C(1000000000));
  size_t only = bench_arg(argc, argv, 3, "BYTES", 0, 1, 1 << 20);

  double took = 0;
  int runs = 0;
  for (int inherit = 1; inherit >= 0; inherit--) {
    if (strcmp(mode, inherit ? "thrash" : "scratch") == 0)
      continue;
    for (size_t i = 0; i < (only ? 1 : sizeof sizes / sizeof *sizes); i++, runs++)
      took += share_run(inherit, rounds, only ? only : sizes[i]);
  }
  printf("falseshare = %.2f ns/block [mode=%s rounds=%llu] time=%.3fs\n", took * 1e9 / ((double)rounds * BLOCKS * runs),
         mode, (unsigned long long)rounds, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
