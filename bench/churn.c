// churn OPS SLOTS MIN MAX [SEED]: a table of SLOTS blocks of MIN to MAX bytes; each step replaces a random one and
// writes a byte of every page of the new one. For mid sizes (32768 1048576) and large ones (5242880 26214400).
#include "bench.h"

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 5, "OPS SLOTS MIN MAX [SEED]");
  uint64_t ops = bench_arg(argc, argv, 1, "OPS", 50000, 1, UINT64_C(100000000000));
  uint32_t slot_count = (uint32_t)bench_arg(argc, argv, 2, "SLOTS", 64, 1, 1 << 20);
  uint64_t low = bench_arg(argc, argv, 3, "MIN", 32768, 1, 1 << 30);
  uint64_t high = bench_arg(argc, argv, 4, "MAX", 1048576, 1, 1 << 30);
  uint64_t random = bench_seed(bench_arg(argc, argv, 5, "SEED", 1, 0, UINT64_MAX));
  bench_expect_order(argv, low, high);
  void **slots = bench_map(slot_count * sizeof(void *));

  double start = bench_seconds();
  for (uint64_t i = 0; i < ops; i++) {
    uint64_t bits = bench_next(&random);
    void **slot = &slots[bench_below((uint32_t)bits, slot_count)];
    if (*slot != NULL)
      free(*slot);
    *slot = bench_filled(low + bench_below((uint32_t)(bits >> 32), (uint32_t)(high - low + 1)));
  }
  double took = bench_seconds() - start;
  printf("churn = %.1f ns/op [ops=%llu slots=%u] time=%.3fs\n", took * 1e9 / (double)ops, (unsigned long long)ops,
         slot_count, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
