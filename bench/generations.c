// generations THREADS OPS [MIN MAX]: THREADS threads run one after another. Each inherits a table of live blocks, most
// of them allocated by earlier threads. It runs OPS steps (free a random full slot, fill an empty one) and ends.
#include "bench.h"

#include <pthread.h>

enum { SLOTS = 4096 };

static struct {
  void **slots;
  uint64_t ops;
  uint64_t random;
  uint32_t min_bytes, size_count;
} run;

static void *generation_main(void *unused) {
  for (uint64_t i = 0; i < run.ops; i++) {
    uint64_t bits = bench_next(&run.random);
    void **slot = &run.slots[bits % SLOTS];
    if (*slot != NULL) {
      free(*slot);
      *slot = NULL;
    } else {
      *slot = bench_touched(run.min_bytes + bench_below((uint32_t)(bits >> 32), run.size_count));
    }
  }
  return unused;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 4, "THREADS OPS [MIN MAX]");
  uint64_t threads = bench_arg(argc, argv, 1, "THREADS", 3000, 1, 10000000);
  run.ops = bench_arg(argc, argv, 2, "OPS", 4000, 1, UINT64_C(1000000000));
  run.min_bytes = (uint32_t)bench_arg(argc, argv, 3, "MIN", 16, 1, 1 << 24);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 4, "MAX", 1040, 1, 1 << 24);
  bench_expect_order(argv, run.min_bytes, high);
  run.size_count = high - run.min_bytes + 1;
  run.random = bench_seed(3);
  run.slots = bench_map(SLOTS * sizeof(void *));

  double start = bench_seconds();
  for (uint64_t i = 0; i < threads; i++) {
    pthread_t id;
    if (pthread_create(&id, NULL, generation_main, NULL) != 0)
      bench_fail("generations: cannot create a thread");
    pthread_join(id, NULL);
  }
  double took = bench_seconds() - start;
  printf("generations = %.2f ns/op [threads=%llu ops=%llu] time=%.3fs\n",
         took * 1e9 / ((double)threads * (double)run.ops), (unsigned long long)threads, (unsigned long long)run.ops,
         took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
