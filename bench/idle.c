// idle MODE [MIB SECONDS]: 8 threads allocate MIB in all, in blocks of 16 B to 64 KiB (mostly small), fill them and
// free them in random order. Then the threads end (MODE exit) or sleep (MODE stay). SECONDS later, without any further
// call of the allocator, prints the resident memory.
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, MAX_BLOCKS = 1 << 21, SIZES = 4096, MIN_BYTES = 16, DOUBLINGS = 12, FIRST_SEED = 1 };

static struct {
  uint64_t thread_bytes;
  int stay;
  uint32_t sizes[SIZES]; // drawn from uniformly
  pthread_barrier_t all_full;
  pthread_barrier_t all_free;
  uint64_t rss_full_kib;
} run;

static void *worker_main(void *arg) {
  uint64_t random = bench_seed((uint64_t)(uintptr_t)arg);
  size_t table_bytes = MAX_BLOCKS * sizeof(void *);
  void **blocks = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (blocks == MAP_FAILED)
    bench_fail("idle: not enough memory for the table");
  uint32_t count = 0;
  for (uint64_t bytes = 0; bytes < run.thread_bytes && count < MAX_BLOCKS; count++) {
    uint32_t size = run.sizes[bench_random(&random, SIZES)];
    blocks[count] = bench_malloc(size);
    memset(blocks[count], 1, size);
    bytes += size;
  }
  pthread_barrier_wait(&run.all_full);
  if ((uintptr_t)arg == FIRST_SEED)
    run.rss_full_kib = bench_rss_kib();
  pthread_barrier_wait(&run.all_full);
  for (; count > 0; count--) {
    uint32_t pick = bench_random(&random, count);
    free(blocks[pick]);
    blocks[pick] = blocks[count - 1];
  }
  munmap(blocks, table_bytes);
  pthread_barrier_wait(&run.all_free);
  while (run.stay)
    pause();
  return NULL;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 3, "exit|stay [MIB SECONDS]");
  if (argc < 2 || (strcmp(argv[1], "exit") != 0 && strcmp(argv[1], "stay") != 0))
    bench_fail("idle: usage: idle exit|stay [MIB SECONDS]");
  run.stay = strcmp(argv[1], "stay") == 0;
  run.thread_bytes = (bench_arg(argc, argv, 2, "MIB", 1024, 8, 16384) << 20) / THREADS;
  uint64_t seconds = bench_arg(argc, argv, 3, "SECONDS", 1, 0, 3600);
  bench_program_sizes(run.sizes, SIZES, MIN_BYTES, DOUBLINGS);
  pthread_barrier_init(&run.all_full, NULL, THREADS);
  pthread_barrier_init(&run.all_free, NULL, THREADS + 1);

  pthread_t ids[THREADS];
  double start = bench_seconds();
  for (uintptr_t t = 0; t < THREADS; t++)
    if (pthread_create(&ids[t], NULL, worker_main, (void *)(t + FIRST_SEED)) != 0)
      bench_fail("idle: cannot create a thread");
  pthread_barrier_wait(&run.all_free);
  for (int t = 0; !run.stay && t < THREADS; t++)
    pthread_join(ids[t], NULL);
  double took = bench_seconds() - start;
  struct timespec wait = {(time_t)seconds, 0};
  nanosleep(&wait, NULL);
  uint64_t rss = bench_rss_kib(), peak = bench_peak_kib();
  printf("idle = %.1f MiB [mode=%s full=%.0f MiB after=%llus] time=%.3fs\n", (double)rss / 1024, argv[1],
         (double)run.rss_full_kib / 1024, (unsigned long long)seconds, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)peak);
  fflush(NULL);
  _exit(0); // ends the process although its threads may still sleep
}
