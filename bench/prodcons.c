// prodcons BLOCKS [INFLIGHT MIN MAX]: one thread allocates, another frees. Blocks travel in batches through a bounded
// ring; at most INFLIGHT blocks are alive. The consumer starts when the ring is full, so the peak of the live data does
// not depend on the speeds of the two threads.
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { BATCH = 128 };

static struct {
  _Alignas(BENCH_LINE_BYTES) atomic_uint_fast64_t produced; // batches; written by the producer
  _Alignas(BENCH_LINE_BYTES) atomic_uint_fast64_t consumed; // batches; written by the consumer
  _Alignas(BENCH_LINE_BYTES) atomic_uint_fast64_t freed_bytes;
  _Alignas(BENCH_LINE_BYTES) uint64_t batches;
  uint64_t ring_batches;
  void **ring;
  uint32_t *batch_bytes; // requested bytes of each batch in the ring
  uint32_t min_bytes, size_count;
  uint64_t peak_bytes; // largest sum of requested bytes in flight; written by the producer
} flow;

static void flow_wait(atomic_uint_fast64_t *counter, uint64_t least) {
  for (unsigned spins = 0; atomic_load_explicit(counter, memory_order_acquire) < least; spins++)
    if (spins % 64 == 63)
      sched_yield();
}

static void *produce(void *unused) {
  uint64_t random = bench_seed(7), made_bytes = 0;
  for (uint64_t batch = 0; batch < flow.batches; batch++) {
    if (batch >= flow.ring_batches)
      flow_wait(&flow.consumed, batch - flow.ring_batches + 1);
    uint64_t at = batch % flow.ring_batches;
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
      uint32_t size = flow.min_bytes + bench_random(&random, flow.size_count);
      flow.ring[at * BATCH + i] = bench_touched(size);
      bytes += size;
    }
    flow.batch_bytes[at] = bytes;
    made_bytes += bytes;
    uint64_t live = made_bytes - atomic_load_explicit(&flow.freed_bytes, memory_order_relaxed);
    if (live > flow.peak_bytes)
      flow.peak_bytes = live;
    atomic_store_explicit(&flow.produced, batch + 1, memory_order_release);
  }
  return unused;
}

static void *consume(void *unused) {
  uint64_t freed_bytes = 0;
  flow_wait(&flow.produced, flow.batches < flow.ring_batches ? flow.batches : flow.ring_batches);
  for (uint64_t batch = 0; batch < flow.batches; batch++) {
    flow_wait(&flow.produced, batch + 1);
    uint64_t at = batch % flow.ring_batches;
    freed_bytes += flow.batch_bytes[at];
    for (uint32_t i = 0; i < BATCH; i++)
      free(flow.ring[at * BATCH + i]);
    atomic_store_explicit(&flow.freed_bytes, freed_bytes, memory_order_relaxed);
    atomic_store_explicit(&flow.consumed, batch + 1, memory_order_release);
  }
  return unused;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 4, "BLOCKS [INFLIGHT MIN MAX]");
  uint64_t blocks = bench_arg(argc, argv, 1, "BLOCKS", 10000000, BATCH, UINT64_C(100000000000));
  uint64_t inflight = bench_arg(argc, argv, 2, "INFLIGHT", 65536, BATCH, 1 << 26);
  flow.min_bytes = (uint32_t)bench_arg(argc, argv, 3, "MIN", 16, 1, 1 << 20);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 4, "MAX", 1040, 1, 1 << 20);
  bench_expect_order(argv, flow.min_bytes, high);
  flow.size_count = high - flow.min_bytes + 1;
  flow.batches = blocks / BATCH;
  flow.ring_batches = inflight / BATCH;
  flow.ring = bench_map(flow.ring_batches * BATCH * sizeof(void *));
  flow.batch_bytes = bench_map(flow.ring_batches * sizeof(uint32_t));

  pthread_t producer = 0, consumer = 0;
  double start = bench_seconds();
  if (pthread_create(&producer, NULL, produce, NULL) != 0 || pthread_create(&consumer, NULL, consume, NULL) != 0)
    bench_fail("prodcons: cannot create a thread");
  pthread_join(producer, NULL);
  pthread_join(consumer, NULL);
  double took = bench_seconds() - start;
  uint64_t peak = bench_peak_kib();
  unsigned long long passed = flow.batches * BATCH;
  printf("prodcons = %.2f ns/op [blocks=%llu] time=%.3fs\n", took * 1e9 / (double)passed, passed, took);
  printf("RSS peak_kib=%llu live_kib=%llu ratio=%.3f\n", (unsigned long long)peak,
         (unsigned long long)(flow.peak_bytes >> 10), (double)peak * 1024 / (double)flow.peak_bytes);
  return 0;
}
