// ends THREADS [BLOCKS]: all threads end at once. Each allocates BLOCKS blocks of seven sizes, and frees every second
// one. When all have done so, each frees the rest, and ends. Prints resident KiB a thread while all live; and of the
// ends, from the first to the last: processor seconds, seconds, and how often a thread waited.
#include "bench.h"

#include <pthread.h>
#include <sys/resource.h>

enum { SIZES = 7, BLOCKS_MAX = 256, STACK_BYTES = 64 << 10 };

static const uint32_t sizes[SIZES] = {24, 64, 100, 250, 600, 1500, 4000};
static pthread_barrier_t ready, over;
static uint32_t blocks_each;

static void free_every(char **blocks, uint32_t first, uint32_t step) {
  for (uint32_t i = first; i < blocks_each * SIZES; i += step)
    free(blocks[i]);
}

static void *thread_main(void *unused) {
  (void)unused;
  char *blocks[BLOCKS_MAX * SIZES];
  for (uint32_t i = 0; i < blocks_each * SIZES; i++)
    blocks[i] = bench_touched(sizes[i % SIZES]);
  free_every(blocks, 0, 2);
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&over);
  free_every(blocks, 1, 2);
  return NULL;
}

static double cpu_seconds(const struct rusage *used) {
  return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
         1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 2, "THREADS [BLOCKS]");
  uint32_t count = (uint32_t)bench_arg(argc, argv, 1, "THREADS", 1000, 1, 30000);
  blocks_each = (uint32_t)bench_arg(argc, argv, 2, "BLOCKS", 8, 1, BLOCKS_MAX);
  pthread_t *ids = bench_map(count * sizeof *ids);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_barrier_init(&ready, NULL, count + 1);
  pthread_barrier_init(&over, NULL, count + 1);
  uint64_t resident = bench_rss_kib();
  for (uint32_t i = 0; i < count; i++)
    if (pthread_create(&ids[i], &attributes, thread_main, NULL) != 0)
      bench_fail("ends: no more threads");
  pthread_barrier_wait(&ready);
  uint64_t with_threads = bench_rss_kib();
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  double start = bench_seconds();
  pthread_barrier_wait(&over);
  for (uint32_t i = 0; i < count; i++)
    pthread_join(ids[i], NULL);
  double took = bench_seconds() - start;
  getrusage(RUSAGE_SELF, &after);
  printf("rss_each_kib = %.2f cpu_s = %.3f s = %.3f waits = %ld\n", (double)(with_threads - resident) / (double)count,
         cpu_seconds(&after) - cpu_seconds(&before), took, after.ru_nvcsw - before.ru_nvcsw);
  return 0;
}
