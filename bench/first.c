// first BLOCKS: allocates and writes BLOCKS blocks of 16, 32, 48, ... bytes, and frees every third one at once.
#include "bench.h"

enum { MAX_BLOCKS = 1000, STEP_BYTES = 16, FREED = 3 };

int main(int argc, char **argv) {
  static void *kept[MAX_BLOCKS];
  bench_expect_args(argc, argv, 1, "BLOCKS");
  uint64_t count = bench_arg(argc, argv, 1, "BLOCKS", 200, 1, MAX_BLOCKS);
  for (uint64_t i = 0; i < count; i++) {
    size_t bytes = (i + 1) * STEP_BYTES;
    kept[i] = bench_malloc(bytes);
    memset(kept[i], 1, bytes);
    if (i % FREED == FREED - 1)
      free(kept[i]);
  }
}
