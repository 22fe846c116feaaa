// touchall THREADS [SECONDS [BLOCKS]]: how much memory an idle thread retains. Each of THREADS threads allocates BLOCKS
// blocks of every size from 16 bytes to 32 KiB (four sizes to a doubling), writes and frees them, and sleeps. SECONDS
// later, without any further call of the allocator, prints how many KiB of resident memory each thread has added.
#include "bench.h"

#include <pthread.h>

enum { MAX_THREADS = 1024, FIRST_BYTES = 16, LAST_BYTES = 32768, MAX_BLOCKS = 64, STACK_BYTES = 16384 };
enum { SIZES = 45 }; // 11 doublings with four sizes each, and the first size

static struct {
  uint32_t blocks;
  pthread_barrier_t ready, go, done;
} run;

static uint32_t size_at(uint32_t i) {
  uint32_t base = (uint32_t)FIRST_BYTES << i / 4;
  return base + base / 4 * (i % 4);
}
_Static_assert(FIRST_BYTES << (SIZES - 1) / 4 == LAST_BYTES, "the last size");

static void touch_all_sizes(void) {
  void *blocks[SIZES][MAX_BLOCKS];
  for (uint32_t i = 0; i < SIZES; i++)
    for (uint32_t k = 0; k < run.blocks; k++) {
      blocks[i][k] = bench_malloc(size_at(i));
      memset(blocks[i][k], 1, size_at(i));
    }
  for (uint32_t i = 0; i < SIZES; i++)
    for (uint32_t k = 0; k < run.blocks; k++)
      free(blocks[i][k]);
}

// Makes the stack resident before the first measurement, so that it does not count as growth.
static __attribute__((noinline)) void touch_stack(void) {
  volatile char stack[sizeof(void *[SIZES][MAX_BLOCKS]) + STACK_BYTES];
  for (size_t at = 0; at < sizeof stack; at += BENCH_PAGE_BYTES)
    stack[at] = 1;
}

static void *worker_main(void *unused) {
  touch_stack();
  pthread_barrier_wait(&run.ready);
  pthread_barrier_wait(&run.go);
  touch_all_sizes();
  pthread_barrier_wait(&run.done);
  for (;;)
    pause();
  return unused;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 3, "THREADS [SECONDS [BLOCKS]]");
  uint32_t threads = (uint32_t)bench_arg(argc, argv, 1, "THREADS", 64, 1, MAX_THREADS);
  uint64_t seconds = bench_arg(argc, argv, 2, "SECONDS", 2, 0, 3600);
  run.blocks = (uint32_t)bench_arg(argc, argv, 3, "BLOCKS", 1, 1, MAX_BLOCKS);
  pthread_barrier_init(&run.ready, NULL, threads + 1);
  pthread_barrier_init(&run.go, NULL, threads + 1);
  pthread_barrier_init(&run.done, NULL, threads + 1);
  for (uint32_t i = 0; i < threads; i++) {
    pthread_t id;
    if (pthread_create(&id, NULL, worker_main, NULL) != 0)
      bench_fail("touchall: cannot create a thread");
  }
  pthread_barrier_wait(&run.ready);
  int64_t before = (int64_t)bench_rss_kib();
  pthread_barrier_wait(&run.go);
  pthread_barrier_wait(&run.done);
  int64_t at_once = (int64_t)bench_rss_kib();
  struct timespec wait = {(time_t)seconds, 0};
  nanosleep(&wait, NULL);
  int64_t after = (int64_t)bench_rss_kib();
  // The laboratory accepts only figures above 0, so this reports at least one page.
  double kib = (double)(after - before > BENCH_PAGE_BYTES / 1024 ? after - before : BENCH_PAGE_BYTES / 1024);
  printf("touchall = %.2f KiB/thread [threads=%u at_once=%.1f after=%llus]\n", kib / threads, threads,
         (double)(at_once - before) / threads, (unsigned long long)seconds);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  fflush(NULL);
  _exit(0); // ends the process although its threads still sleep
}
