// young THREADS sleep|end: each thread allocates twenty blocks of 16 to 400 bytes, and writes them. Then it sleeps
// until all threads have done so, or frees them and ends before the next one begins. Prints page faults and resident
// KiB a thread.
#include "bench.h"

#include <pthread.h>
#include <sys/resource.h>

enum { BLOCKS = 20, STEP_BYTES = 20, STACK_BYTES = 64 << 10 };

static pthread_barrier_t ready, over;
static int sleeps;

static void *thread_main(void *unused) {
  (void)unused;
  char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    size_t bytes = 16 + (size_t)i * STEP_BYTES;
    blocks[i] = bench_malloc(bytes);
    memset(blocks[i], 1, bytes);
  }
  if (sleeps) {
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&over);
  }
  for (int i = 0; i < BLOCKS; i++)
    free(blocks[i]);
  return NULL;
}

static long faults(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 2, "THREADS sleep|end");
  uint64_t count = bench_arg(argc, argv, 1, "THREADS", 1000, 1, 30000);
  sleeps = argc > 2 && strcmp(argv[2], "sleep") == 0;
  pthread_t *ids = mmap(NULL, count * sizeof *ids, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_barrier_init(&ready, NULL, (unsigned)count + 1);
  pthread_barrier_init(&over, NULL, (unsigned)count + 1);
  long before = faults();
  uint64_t resident = bench_rss_kib();
  for (uint64_t i = 0; i < count; i++) {
    if (pthread_create(&ids[i], &attributes, thread_main, NULL) != 0)
      bench_fail("young: no more threads");
    if (!sleeps)
      pthread_join(ids[i], NULL);
  }
  if (sleeps)
    pthread_barrier_wait(&ready);
  printf("faults_each = %.2f rss_each_kib = %.2f\n", (double)(faults() - before) / (double)count,
         (double)((int64_t)bench_rss_kib() - (int64_t)resident) / (double)count);
  if (sleeps)
    pthread_barrier_wait(&over);
  for (uint64_t i = 0; sleeps && i < count; i++)
    pthread_join(ids[i], NULL);
}
