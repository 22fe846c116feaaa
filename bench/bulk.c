// bulk ROUNDS SEED [ORDER [RUN [MIN MAX]]]: a ring of 20,000 blocks of MIN to MAX (1 to 1000) bytes is filled and
// emptied ROUNDS times; ORDER says in which order the blocks go back: fifo, lifo, mixed (even ones upwards, odd ones
// downwards), random, or all (the first three in turn). RUN successive blocks have one size (default 1).
#include "bench.h"

enum { BLOCKS = 20000 };
typedef enum { FIFO, LIFO, MIXED, RANDOM, ALL } order_t;

static order_t order_named(const char *name) {
  static const char *const names[] = {"fifo", "lifo", "mixed", "random", "all"};
  for (int i = FIFO; i <= ALL; i++)
    if (strcmp(name, names[i]) == 0)
      return (order_t)i;
  fprintf(stderr, "bulk: ORDER must be fifo, lifo, mixed, random or all, not '%s'\n", name);
  exit(BENCH_USAGE_EXIT);
}

// The k-th block to go back is turn[k].
static void order_fill(uint32_t *turn, order_t order) {
  uint64_t random = bench_seed(99);
  for (uint32_t k = 0; k < BLOCKS; k++) {
    uint32_t half = BLOCKS / 2;
    turn[k] = k;
    if (order == LIFO)
      turn[k] = BLOCKS - 1 - k;
    if (order == MIXED)
      turn[k] = k < half ? 2 * k : 2 * (BLOCKS - 1 - k) + 1;
  }
  for (uint32_t k = BLOCKS - 1; order == RANDOM && k > 0; k--) {
    uint32_t j = bench_random(&random, k + 1), t = turn[k];
    turn[k] = turn[j];
    turn[j] = t;
  }
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 6, "ROUNDS SEED [fifo|lifo|mixed|random|all [RUN [MIN MAX]]]");
  uint64_t rounds = bench_arg(argc, argv, 1, "ROUNDS", 1500, 1, 100000000);
  uint64_t random = bench_seed(bench_arg(argc, argv, 2, "SEED", 1, 0, UINT64_MAX));
  order_t order = order_named(argc > 3 ? argv[3] : "all");
  uint32_t run = (uint32_t)bench_arg(argc, argv, 4, "RUN", 1, 1, BLOCKS);
  uint32_t low = (uint32_t)bench_arg(argc, argv, 5, "MIN", 1, 1, 1 << 20);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 6, "MAX", 1000, 1, 1 << 20);
  bench_expect_order(argv, low, high);

  void **ring = bench_map(BLOCKS * sizeof(void *));
  uint32_t(*turns)[BLOCKS] = bench_map(ALL * sizeof *turns);
  for (int i = FIFO; i < ALL; i++)
    order_fill(turns[i], (order_t)i);

  double start = bench_seconds();
  for (uint64_t round = 0; round < rounds; round++) {
    for (uint32_t i = 0, left = 0, bytes = 0; i < BLOCKS; i++, left--) {
      if (left == 0) {
        bytes = low + bench_random(&random, high - low + 1);
        left = run;
      }
      ring[i] = bench_touched(bytes);
    }
    const uint32_t *turn = turns[order == ALL ? round % RANDOM : order];
    for (uint32_t i = 0; i < BLOCKS; i++)
      free(ring[turn[i]]);
  }
  double took = bench_seconds() - start;

  printf("bulk = %.2f ns/block [rounds=%llu order=%s run=%u] time=%.3fs\n", took * 1e9 / ((double)rounds * BLOCKS),
         (unsigned long long)rounds, argc > 3 ? argv[3] : "all", run, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
