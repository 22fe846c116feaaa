// bigheap GIB [SEED]: how much slower requests become on a large heap. Times requests of 100 B, 50 KB, 3 MB and 40 MB;
// each replaces one of 16 blocks and writes nothing. Then builds a heap of GIB from blocks of 1 to 32 MiB, writes one
// page in each, frees every eighth block, and times the same requests again. Prints the ratio of the medians for each
// size; the figure is the largest ratio.
#include "bench.h"

#include <sys/prctl.h>

enum { SIZES = 4, HELD = 16, STEPS = 128, BATCHES = 31, LOW_BYTES = 1 << 20, DOUBLINGS = 5, HOLE_EVERY = 8 };

static const struct {
  const char *name;
  uint32_t bytes;
} sizes[SIZES] = {{"100B", 100}, {"50KB", 50000}, {"3MB", 3000000}, {"40MB", 40000000}};

static int double_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Mean time of a free and a malloc in each batch; returns the median over the batches.
static double request_ns(uint32_t bytes, uint64_t *random) {
  void *held[HELD] = {NULL};
  double batch_ns[BATCHES];
  // The first batch fills the caches and is not timed.
  for (int batch = -1; batch < BATCHES; batch++) {
    double start = bench_seconds();
    for (int i = 0; i < STEPS; i++) {
      void **block = &held[bench_random(random, HELD)];
      free(*block);
      *block = bench_malloc(bytes);
    }
    if (batch >= 0)
      batch_ns[batch] = (bench_seconds() - start) * 1e9 / STEPS;
  }
  for (int i = 0; i < HELD; i++)
    free(held[i]);
  qsort(batch_ns, BATCHES, sizeof *batch_ns, double_order);
  return batch_ns[BATCHES / 2];
}

static uint32_t heap_build(uint64_t heap_bytes, uint64_t *random) {
  void **blocks = bench_map((heap_bytes / LOW_BYTES + 1) * sizeof(void *));
  uint32_t count = 0;
  for (uint64_t bytes = 0; bytes < heap_bytes; count++) {
    uint32_t size = bench_log_size(bench_next(random), LOW_BYTES, DOUBLINGS);
    blocks[count] = bench_malloc(size);
    *(volatile char *)blocks[count] = 1;
    bytes += size;
  }
  for (uint32_t i = 0; i < count; i += HOLE_EVERY)
    free(blocks[i]);
  return count;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 2, "GIB [SEED]");
  uint64_t heap_bytes = bench_arg(argc, argv, 1, "GIB", 100, 1, 4096) << 30;
  uint64_t random = bench_seed(bench_arg(argc, argv, 2, "SEED", 1, 0, UINT64_MAX));
  // Without huge pages, so that writing one page does not make 2 MiB resident.
  prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL);
  double empty_ns[SIZES], ratio[SIZES], worst = 0;
  for (int i = 0; i < SIZES; i++)
    empty_ns[i] = request_ns(sizes[i].bytes, &random);
  double start = bench_seconds();
  uint32_t count = heap_build(heap_bytes, &random);
  double took = bench_seconds() - start;
  for (int i = 0; i < SIZES; i++) {
    double big_ns = request_ns(sizes[i].bytes, &random);
    ratio[i] = big_ns / empty_ns[i];
    worst = ratio[i] > worst ? ratio[i] : worst;
    printf("request of %s: %.1f ns on the empty heap, %.1f ns on the big one\n", sizes[i].name, empty_ns[i], big_ns);
  }
  printf("bigheap = %.2f times [", worst);
  for (int i = 0; i < SIZES; i++)
    printf("%s=%.2f ", sizes[i].name, ratio[i]);
  printf("blocks=%u] time=%.3fs\n", count, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
