// Prints values over the whole range, each with the value that the benchmarks' histogram shows for it.
#include "../../../bench/histogram.h"

int main(void) {
  uint64_t random = bench_seed(1);
  for (uint64_t i = 0; i < 300; i++)
    printf("%llu %llu\n", (unsigned long long)i, (unsigned long long)histogram_value_ns(histogram_bucket(i)));
  for (int i = 0; i < 3000; i++) {
    uint64_t value = bench_next(&random) >> (23 + bench_random(&random, 40));
    printf("%llu %llu\n", (unsigned long long)value, (unsigned long long)histogram_value_ns(histogram_bucket(value)));
  }
  return 0;
}
