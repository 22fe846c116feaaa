// stall HEAP_MIB SECONDS [THREADS]: how long a call of malloc or free can take. Each thread has its part of a heap of
// HEAP_MIB, in blocks of 256 bytes to 1 MiB; every doubling is equally likely. Each thread repeatedly frees three
// quarters of its blocks, alternately in one stretch and scattered, and fills the gaps again. Pages are written between
// the timed calls. After each sweep, a thread only reads the clock, for as long as it was in the allocator. The longest
// gap between two readings is what the machine can add to any call. Prints the longest call, the longest gap, their
// difference (at least a microsecond), and the numbers of calls and of gaps over a millisecond.
#include "bench.h"

#include <pthread.h>
#include <stdbool.h>

enum { MAX_THREADS = 16, LOW_BYTES = 256, DOUBLINGS = 12, MEAN_BYTES = 126000 };
static const uint64_t second_ns = 1000000000, long_ns = 1000000, least_beyond_ns = 1000;

typedef struct {
  void *at;
  uint32_t bytes;
} block_t;

typedef struct {
  _Alignas(BENCH_LINE_BYTES) block_t *blocks;
  uint64_t random;
  uint64_t now_ns;
  uint64_t in_calls_ns; // time in calls since the clock was last read for as long
  uint64_t calls, long_calls, longest_call_ns;
  uint64_t long_gaps, longest_gap_ns;
  pthread_t id;
} worker_t;

static struct {
  uint32_t threads, blocks; // blocks of each thread
  uint64_t end_ns;
  pthread_barrier_t filled;
} run;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * second_ns + (uint64_t)t.tv_nsec;
}

static void call_ended(worker_t *me, uint64_t began_ns) {
  me->now_ns = now_ns();
  uint64_t took_ns = me->now_ns - began_ns;
  me->in_calls_ns += took_ns;
  me->calls++;
  me->long_calls += took_ns > long_ns;
  if (took_ns > me->longest_call_ns)
    me->longest_call_ns = took_ns;
}

static void block_take(worker_t *me, block_t *block) {
  block->bytes = bench_log_size(bench_next(&me->random), LOW_BYTES, DOUBLINGS);
  uint64_t began_ns = now_ns();
  volatile char *at = malloc(block->bytes);
  call_ended(me, began_ns);
  if (at == NULL)
    bench_fail("stall: malloc returned NULL");
  for (uint32_t i = 0; i < block->bytes; i += BENCH_PAGE_BYTES)
    at[i] = 1;
  block->at = (void *)(uintptr_t)at;
}

static void block_give(worker_t *me, block_t *block) {
  uint64_t began_ns = now_ns();
  free(block->at);
  call_ended(me, began_ns);
  block->at = NULL;
}

static bool over(const worker_t *me) {
  return me->now_ns >= run.end_ns;
}

static void read_clock(worker_t *me) {
  uint64_t last_ns = now_ns(), until_ns = last_ns + me->in_calls_ns;
  me->in_calls_ns = 0;
  while (last_ns < until_ns) {
    uint64_t next_ns = now_ns(), gap_ns = next_ns - last_ns;
    me->long_gaps += gap_ns > long_ns;
    if (gap_ns > me->longest_gap_ns)
      me->longest_gap_ns = gap_ns;
    last_ns = next_ns;
  }
}

static void sweep(worker_t *me, bool scattered) {
  uint32_t from = bench_random(&me->random, run.blocks);
  for (uint32_t k = 0; k < run.blocks && !over(me); k++)
    if (scattered ? bench_random(&me->random, 4) != 0 : k < run.blocks / 4 * 3)
      block_give(me, &me->blocks[(from + k) % run.blocks]);
  read_clock(me);
  for (uint32_t k = 0; k < run.blocks && !over(me); k++)
    if (me->blocks[k].at == NULL)
      block_take(me, &me->blocks[k]);
  read_clock(me);
}

static void *worker_main(void *arg) {
  worker_t *me = arg;
  for (uint32_t k = 0; k < run.blocks; k++)
    block_take(me, &me->blocks[k]);
  pthread_barrier_wait(&run.filled);
  pthread_barrier_wait(&run.filled); // main sets end_ns before it gets here
  me->calls = me->long_calls = me->longest_call_ns = me->in_calls_ns = 0;
  for (bool scattered = false; !over(me); scattered = !scattered)
    sweep(me, scattered);
  return NULL;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 3, "HEAP_MIB SECONDS [THREADS]");
  uint64_t heap_bytes = bench_arg(argc, argv, 1, "HEAP_MIB", 4096, 16, 1 << 20) << 20;
  uint64_t seconds = bench_arg(argc, argv, 2, "SECONDS", 60, 1, 1000000);
  run.threads = (uint32_t)bench_arg(argc, argv, 3, "THREADS", 2, 1, MAX_THREADS);
  run.blocks = (uint32_t)(heap_bytes / run.threads / MEAN_BYTES) + 4;
  pthread_barrier_init(&run.filled, NULL, run.threads + 1);
  worker_t *workers = bench_map(run.threads * sizeof *workers), all = {0};
  for (uint32_t i = 0; i < run.threads; i++) {
    workers[i].blocks = bench_map(run.blocks * sizeof(block_t));
    workers[i].random = bench_seed(i);
    if (pthread_create(&workers[i].id, NULL, worker_main, &workers[i]) != 0)
      bench_fail("stall: cannot create a thread");
  }
  pthread_barrier_wait(&run.filled);
  run.end_ns = now_ns() + seconds * second_ns;
  pthread_barrier_wait(&run.filled);
  for (uint32_t i = 0; i < run.threads; i++) {
    pthread_join(workers[i].id, NULL);
    all.calls += workers[i].calls;
    all.long_calls += workers[i].long_calls;
    all.long_gaps += workers[i].long_gaps;
    if (workers[i].longest_call_ns > all.longest_call_ns)
      all.longest_call_ns = workers[i].longest_call_ns;
    if (workers[i].longest_gap_ns > all.longest_gap_ns)
      all.longest_gap_ns = workers[i].longest_gap_ns;
  }
  uint64_t beyond_ns = all.longest_call_ns > all.longest_gap_ns ? all.longest_call_ns - all.longest_gap_ns : 0;
  beyond_ns = beyond_ns > least_beyond_ns ? beyond_ns : least_beyond_ns;
  printf("stall = %llu ns [gap_ns=%llu beyond_ms=%.3f calls_over_1ms=%llu gaps_over_1ms=%llu calls=%llu threads=%u]\n",
         (unsigned long long)all.longest_call_ns, (unsigned long long)all.longest_gap_ns, (double)beyond_ns * 1e-6,
         (unsigned long long)all.long_calls, (unsigned long long)all.long_gaps, (unsigned long long)all.calls,
         run.threads);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
