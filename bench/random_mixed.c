// random_mixed ITERS WS SEED [MIN MAX]: a table of WS pointers. Each step picks a random slot. It frees a full slot's
// block; into an empty one it puts a block of a uniform random size and writes the first and the last byte.
#include "bench.h"

typedef struct {
  void **slots;
  uint64_t iters;
  uint32_t slot_count;
  uint32_t min_bytes;
  uint32_t size_count;
} mix_t;

static void mix_run(const mix_t *mix, uint64_t random) {
  void **slots = mix->slots;
  for (uint64_t i = 0; i < mix->iters; i++) {
    uint64_t bits = bench_next(&random);
    void **slot = &slots[bench_below((uint32_t)bits, mix->slot_count)];
    if (*slot != NULL) {
      free(*slot);
      *slot = NULL;
    } else {
      *slot = bench_touched(mix->min_bytes + bench_below((uint32_t)(bits >> 32), mix->size_count));
    }
  }
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 5, "ITERS WS SEED [MIN MAX]");
  uint64_t iters = bench_arg(argc, argv, 1, "ITERS", 20000000, 1, UINT64_C(1000000000000));
  uint64_t ws = bench_arg(argc, argv, 2, "WS", 400, 1, 100000000);
  uint64_t seed = bench_arg(argc, argv, 3, "SEED", 1, 0, UINT64_MAX);
  uint64_t low = bench_arg(argc, argv, 4, "MIN", 16, 1, 1 << 30);
  uint64_t high = bench_arg(argc, argv, 5, "MAX", 1040, 1, 1 << 30);
  bench_expect_order(argv, low, high);

  mix_t mix = {bench_map(ws * sizeof(void *)), iters, (uint32_t)ws, (uint32_t)low, (uint32_t)(high - low + 1)};
  double start = bench_seconds();
  mix_run(&mix, bench_seed(seed));
  double took = bench_seconds() - start;

  uint64_t peak = bench_peak_kib();
  for (uint64_t i = 0; i < ws; i++)
    free(mix.slots[i]);
  printf("Throughput = %.0f ops/s [iter=%llu ws=%llu] time=%.3fs\n", (double)iters / took, (unsigned long long)iters,
         (unsigned long long)ws, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)peak);
  return 0;
}
