// phases MIB ROUNDS: about MIB of live blocks whose sizes change from phase to phase. Each phase allocates as many
// bytes as are live, in its own sizes (S to 2 S), and frees random blocks meanwhile. About a third of the old blocks
// survive. The peak memory shows how well an allocator reuses half-empty pages of earlier sizes.
#include "bench.h"

enum { SMALLEST_BYTES = 24 };
static const uint32_t phase_bytes[] = {32, 512, 96, 4096, 200, 1500, 48, 12288, 700, 24};

typedef struct {
  void *at;
  uint64_t bytes;
} block_t;

typedef struct {
  block_t *blocks;
  uint64_t count;
  uint64_t live_bytes;
  uint64_t random;
  uint64_t ops;
} heap_t;

static void heap_free_one(heap_t *heap) {
  uint64_t pick = bench_next(&heap->random) % heap->count;
  free(heap->blocks[pick].at);
  heap->live_bytes -= heap->blocks[pick].bytes;
  heap->blocks[pick] = heap->blocks[--heap->count];
  heap->ops++;
}

static void phase_run(heap_t *heap, uint32_t low_bytes, uint64_t target_bytes) {
  for (uint64_t done = 0; done < target_bytes;) {
    uint64_t bytes = low_bytes + bench_random(&heap->random, low_bytes);
    heap->blocks[heap->count++] = (block_t){bench_filled(bytes), bytes};
    heap->live_bytes += bytes;
    done += bytes;
    heap->ops++;
    while (heap->live_bytes > target_bytes)
      heap_free_one(heap);
  }
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 2, "MIB ROUNDS");
  uint64_t target = bench_arg(argc, argv, 1, "MIB", 200, 1, 65536) << 20;
  uint64_t rounds = bench_arg(argc, argv, 2, "ROUNDS", 1, 1, 1000000);
  heap_t heap = {.random = bench_seed(5)};
  size_t table_bytes = (target / SMALLEST_BYTES + 2) * sizeof(block_t);
  // Not populated: only the used part becomes resident, and its size is the same with every allocator.
  heap.blocks = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (heap.blocks == MAP_FAILED)
    bench_fail("phases: not enough memory for the table");

  double start = bench_seconds();
  for (uint64_t round = 0; round < rounds; round++)
    for (size_t i = 0; i < sizeof phase_bytes / sizeof *phase_bytes; i++)
      phase_run(&heap, phase_bytes[i], target);
  double took = bench_seconds() - start;

  printf("phases = %.2f ns/op [live=%.0f MiB blocks=%llu] time=%.3fs\n", took * 1e9 / (double)heap.ops,
         (double)heap.live_bytes / (1 << 20), (unsigned long long)heap.count, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
