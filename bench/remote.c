// remote THREADS PERCENT OPS [MIN MAX [SIZES [LIVES]]]: each thread churns its own table in OPS steps: it frees a full
// slot or fills an empty one. It sends PERCENT of the blocks to be freed to the next thread, through a bounded ring
// with one writer and one reader. If the ring is full, the writer frees the blocks that it received itself, then
// yields. SIZES is uniform (the default) or log: every doubling from MIN up to MAX is equally likely. With LIVES above
// 1, OPS is split among LIVES threads that run one after another and take over the table and the rings.
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SLOTS = 1024, RING = 512, BATCH = 16, MAX_THREADS = 64 };

// Only the sender writes `sent`, and only the receiver writes `taken`. Both publish in batches, so that the rings cause
// little cache traffic compared with the blocks.
typedef struct {
  _Alignas(BENCH_LINE_BYTES) atomic_uint_fast64_t sent;
  _Alignas(BENCH_LINE_BYTES) atomic_uint_fast64_t taken;
  _Alignas(BENCH_LINE_BYTES) void *blocks[RING];
} ring_t;

typedef struct {
  _Alignas(BENCH_LINE_BYTES) ring_t *in;
  ring_t *out;
  void **slots;
  uint64_t random;
  uint64_t frees_left_to_others;
  uint64_t frees;
  uint64_t sent;       // blocks written to `out`, including unpublished ones
  uint64_t taken_seen; // value of out->taken when this thread last read it
} worker_t;

static struct {
  uint64_t ops; // steps of one thread before its successor takes over
  uint32_t percent, threads, lives, min_bytes, size_count, doublings;
  atomic_uint working;
  pthread_barrier_t start;
} run;

static void ring_drain(ring_t *ring) {
  uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
  uint64_t sent = atomic_load_explicit(&ring->sent, memory_order_acquire); // pairs with ring_publish
  if (taken == sent)
    return;
  for (; taken != sent; taken++)
    free(ring->blocks[taken % RING]);
  atomic_store_explicit(&ring->taken, taken, memory_order_release); // pairs with ring_wait_for_room
}

static void ring_publish(worker_t *me) {
  atomic_store_explicit(&me->out->sent, me->sent, memory_order_release);
}

static void ring_wait_for_room(worker_t *me) {
  while (me->sent - me->taken_seen == RING) {
    me->taken_seen = atomic_load_explicit(&me->out->taken, memory_order_acquire);
    if (me->sent - me->taken_seen < RING)
      return;
    ring_publish(me);
    ring_drain(me->in);
    sched_yield();
  }
}

static void ring_send(worker_t *me, void *block) {
  ring_wait_for_room(me);
  me->out->blocks[me->sent++ % RING] = block;
  if (me->sent % BATCH == 0) {
    ring_publish(me);
    ring_drain(me->in);
  }
}

static uint32_t size_from(uint64_t bits) {
  if (run.doublings > 0)
    return bench_log_size(bits, run.min_bytes, run.doublings);
  return run.min_bytes + bench_below((uint32_t)(bits >> 32), run.size_count);
}

static void *worker_live(void *arg) {
  worker_t *me = arg;
  uint64_t random = me->random;
  uint32_t remote_below = (uint32_t)(((uint64_t)run.percent << 20) / 100);
  for (uint64_t i = 0; i < run.ops; i++) {
    uint64_t bits = bench_next(&random);
    void **slot = &me->slots[bits % SLOTS];
    if (*slot == NULL) {
      *slot = bench_touched(size_from(bits));
      continue;
    }
    me->frees++;
    if (bits >> 44 < remote_below) {
      me->frees_left_to_others++;
      ring_send(me, *slot);
    } else {
      free(*slot);
    }
    *slot = NULL;
  }
  me->random = random;
  return NULL;
}

static void worker_live_in_turn(worker_t *me) {
  for (uint32_t life = 0; life < run.lives; life++) {
    pthread_t id;
    if (pthread_create(&id, NULL, worker_live, me) != 0)
      bench_fail("remote: cannot create a thread");
    pthread_join(id, NULL);
  }
}

static void *worker_main(void *arg) {
  worker_t *me = arg;
  pthread_barrier_wait(&run.start);
  if (run.lives == 1)
    worker_live(me);
  else
    worker_live_in_turn(me);
  for (int i = 0; i < SLOTS; i++)
    free(me->slots[i]);
  ring_publish(me);
  atomic_fetch_sub(&run.working, 1);
  while (atomic_load(&run.working) > 0) {
    ring_drain(me->in);
    sched_yield();
  }
  ring_drain(me->in);
  return NULL;
}

static void run_configure(int argc, char **argv) {
  bench_expect_args(argc, argv, 7, "THREADS PERCENT OPS [MIN MAX [uniform|log [LIVES]]]");
  run.threads = (uint32_t)bench_arg(argc, argv, 1, "THREADS", 2, 2, MAX_THREADS);
  run.percent = (uint32_t)bench_arg(argc, argv, 2, "PERCENT", 50, 0, 100);
  run.lives = (uint32_t)bench_arg(argc, argv, 7, "LIVES", 1, 1, 1 << 20);
  run.ops = bench_arg(argc, argv, 3, "OPS", 30000000, 1, UINT64_C(100000000000)) / run.lives;
  run.min_bytes = (uint32_t)bench_arg(argc, argv, 4, "MIN", 16, 1, 1 << 24);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 5, "MAX", 1040, 1, 1 << 24);
  bench_expect_order(argv, run.min_bytes, high);
  run.size_count = high - run.min_bytes + 1;
  const char *sizes = argc > 6 ? argv[6] : "uniform";
  if (strcmp(sizes, "uniform") == 0)
    return;
  if (strcmp(sizes, "log") != 0 || high < 2 * run.min_bytes)
    bench_fail("remote: SIZES must be uniform, or log with MAX at least twice MIN");
  run.doublings = bench_doublings(run.min_bytes, high);
}

static worker_t *workers_start(pthread_t *ids) {
  ring_t *rings = bench_map(run.threads * sizeof *rings);
  worker_t *workers = bench_map(run.threads * sizeof *workers);
  atomic_store(&run.working, run.threads);
  pthread_barrier_init(&run.start, NULL, run.threads + 1);
  for (uint32_t i = 0; i < run.threads; i++) {
    workers[i] = (worker_t){.in = &rings[i], .out = &rings[(i + 1) % run.threads], .random = bench_seed(i + 1)};
    workers[i].slots = bench_map(SLOTS * sizeof(void *));
    if (pthread_create(&ids[i], NULL, worker_main, &workers[i]) != 0)
      bench_fail("remote: cannot create a thread");
  }
  return workers;
}

int main(int argc, char **argv) {
  pthread_t ids[MAX_THREADS] = {0};
  run_configure(argc, argv);
  worker_t *workers = workers_start(ids);
  pthread_barrier_wait(&run.start);
  double start = bench_seconds();
  uint64_t remote = 0, frees = 0;
  for (uint32_t i = 0; i < run.threads; i++) {
    pthread_join(ids[i], NULL);
    remote += workers[i].frees_left_to_others;
    frees += workers[i].frees;
  }
  double took = bench_seconds() - start;
  printf("remote = %.2f ns/op [threads=%u remote=%.1f%%] time=%.3fs\n",
         took * 1e9 / ((double)run.ops * run.lives * run.threads), run.threads, 100.0 * (double)remote / (double)frees,
         took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
