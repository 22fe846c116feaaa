// churn OPS SLOTS MIN MAX [SEED [THREADS [SIZES [TOUCH]]]]: each thread has a table of SLOTS blocks of MIN to MAX
// bytes; each of its OPS steps replaces a random one. Used for mid sizes (32768 1048576) and large ones (5242880
// 26214400). SIZES is uniform (the default), log (every doubling from MIN up to MAX is equally likely) or program (the
// same doublings, but small sizes are far more frequent, as in real programs). TOUCH says which bytes of a new block
// are written: pages (the default: one byte of each page), ends (the first and the last byte) or all.
#include "bench.h"

#include <pthread.h>

enum { MAX_THREADS = 64, SIZES = 1024 };
typedef enum { UNIFORM, LOG, PROGRAM } sizes_t;
typedef enum { PAGES, ENDS, ALL } touch_t;

typedef struct {
  _Alignas(BENCH_LINE_BYTES) void **slots;
  uint64_t random;
  pthread_t id;
} worker_t;

static struct {
  uint64_t ops;
  uint32_t slots, threads, low_bytes, size_count, doublings;
  sizes_t sizes;
  uint32_t program[SIZES]; // drawn from uniformly
  touch_t touch;
  pthread_barrier_t start;
} run;

static uint32_t word_in(const char *word, const char *const *words, uint32_t count, const char *refusal) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(word, words[i]) == 0)
      return i;
  bench_fail(refusal);
  return count;
}

static uint32_t size_from(uint64_t bits) {
  if (run.sizes == PROGRAM)
    return run.program[(bits >> 32) % SIZES];
  if (run.sizes == LOG)
    return bench_log_size(bits, run.low_bytes, run.doublings);
  return run.low_bytes + bench_below((uint32_t)(bits >> 32), run.size_count);
}

static void *block_new(uint64_t bits) {
  uint32_t bytes = size_from(bits);
  if (run.touch == PAGES)
    return bench_filled(bytes);
  void *block = bench_touched(bytes);
  if (run.touch == ALL)
    memset(block, 1, bytes);
  return block;
}

static void *worker_main(void *arg) {
  worker_t *me = arg;
  pthread_barrier_wait(&run.start);
  for (uint64_t i = 0; i < run.ops; i++) {
    void **slot = &me->slots[bench_random(&me->random, run.slots)];
    if (*slot != NULL)
      free(*slot);
    *slot = block_new(bench_next(&me->random));
  }
  return NULL;
}

static void run_configure(int argc, char **argv) {
  static const char *const sizes[] = {"uniform", "log", "program"}, *const touches[] = {"pages", "ends", "all"};
  bench_expect_args(argc, argv, 8, "OPS SLOTS MIN MAX [SEED [THREADS [uniform|log|program [pages|ends|all]]]]");
  run.ops = bench_arg(argc, argv, 1, "OPS", 50000, 1, UINT64_C(100000000000));
  run.slots = (uint32_t)bench_arg(argc, argv, 2, "SLOTS", 64, 1, 1 << 20);
  run.low_bytes = (uint32_t)bench_arg(argc, argv, 3, "MIN", 32768, 1, 1 << 30);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 4, "MAX", 1048576, 1, 1 << 30);
  bench_expect_order(argv, run.low_bytes, high);
  run.size_count = high - run.low_bytes + 1;
  run.threads = (uint32_t)bench_arg(argc, argv, 6, "THREADS", 1, 1, MAX_THREADS);
  run.doublings = bench_doublings(run.low_bytes, high);
  if (argc > 7)
    run.sizes = (sizes_t)word_in(argv[7], sizes, 3, "churn: SIZES must be uniform, log or program");
  if (run.sizes != UNIFORM && run.doublings == 0)
    bench_fail("churn: for sizes by doublings MAX must be at least twice MIN");
  bench_program_sizes(run.program, SIZES, run.low_bytes, run.doublings);
  if (argc > 8)
    run.touch = (touch_t)word_in(argv[8], touches, 3, "churn: TOUCH must be pages, ends or all");
}

int main(int argc, char **argv) {
  run_configure(argc, argv);
  uint64_t seed = bench_arg(argc, argv, 5, "SEED", 1, 0, UINT64_MAX);
  worker_t *workers = bench_map(run.threads * sizeof *workers);
  pthread_barrier_init(&run.start, NULL, run.threads);
  for (uint32_t i = 0; i < run.threads; i++) {
    workers[i].slots = bench_map(run.slots * sizeof(void *));
    workers[i].random = bench_seed(seed + i);
  }

  double start = bench_seconds();
  for (uint32_t i = 1; i < run.threads; i++)
    if (pthread_create(&workers[i].id, NULL, worker_main, &workers[i]) != 0)
      bench_fail("churn: cannot create a thread");
  worker_main(&workers[0]);
  for (uint32_t i = 1; i < run.threads; i++)
    pthread_join(workers[i].id, NULL);
  double took = bench_seconds() - start;
  printf("churn = %.1f ns/op [ops=%llu slots=%u threads=%u] time=%.3fs\n", took * 1e9 / ((double)run.ops * run.threads),
         (unsigned long long)run.ops, run.slots, run.threads, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
