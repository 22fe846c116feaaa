// soak SECONDS [THREADS SLOTS PHASE_S LIFE_S LEAK_KIB SEED]: one process that runs for hours. Each thread frees and
// allocates at random in its own table of SLOTS pointers. Every PHASE_S seconds the sizes and the part of the table in
// use change. Every LIFE_S seconds (0: never) a thread ends, and a new one inherits its table with all live blocks.
// Once a second, prints a line with the time, the operations so far, the live bytes, the present and the next phase,
// the threads, and the service times of every 64th operation in that second. Leaks LEAK_KIB a second on purpose, which
// a measurement of leaks must find.
#include "bench.h"
#include "histogram.h"

#include <pthread.h>
#include <stdbool.h>

enum { MAX_THREADS = 64, BATCH = 1024, TIMED_EVERY = 64, LEAK_BLOCK_BYTES = 1024 };

typedef struct {
  const char *name;
  uint32_t low_bytes; // lowest size; sizes are log-uniform over `doublings` doublings
  uint32_t doublings;
  uint32_t share; // 1/share of the table is in use
} phase_t;

static const phase_t phases[] = {
    {"small", 16, 4, 1}, {"mixed", 16, 8, 4}, {"large", 4096, 4, 64}, {"shrunk", 16, 4, 8}, {"medium", 512, 3, 8},
};
enum { PHASE_COUNT = sizeof phases / sizeof *phases };

typedef struct {
  void *at;
  uint32_t bytes;
} slot_t;

// A table that threads use one after another. The present thread writes `live_bytes` and `ops`; main reads them.
typedef struct {
  _Alignas(BENCH_LINE_BYTES) slot_t *slots;
  uint64_t random;
  atomic_uint_fast64_t ops;
  atomic_uint_fast64_t live_bytes;
  atomic_bool stop;
  pthread_t id;
  histogram_t *service;
} place_t;

static struct {
  uint64_t seconds, phase_s, life_s, leak_kib, seed;
  uint32_t threads, slot_count;
  atomic_uint phase;
} run;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int64_t slot_free(slot_t *slot) {
  int64_t before = slot->bytes;
  free(slot->at);
  *slot = (slot_t){NULL, 0};
  return -before;
}

static int64_t slot_toggle(slot_t *slot, uint64_t bits, const phase_t *phase) {
  int64_t before = slot->bytes;
  if (slot->at != NULL) {
    slot_free(slot);
  } else {
    slot->bytes = bench_log_size(bits, phase->low_bytes, phase->doublings);
    slot->at = bench_filled(slot->bytes);
  }
  return (int64_t)slot->bytes - before;
}

// Frees the blocks in slots that the new phase does not use; returns the change of live bytes.
static int64_t place_shrink(place_t *me, uint32_t used, uint64_t *ops) {
  int64_t change = 0;
  for (uint32_t i = used; i < run.slot_count; i++) {
    if (me->slots[i].at != NULL) {
      change += slot_free(&me->slots[i]);
      ++*ops;
    }
  }
  return change;
}

static int64_t place_batch(place_t *me, const phase_t *phase, uint32_t used) {
  int64_t change = 0;
  for (uint32_t i = 0; i < BATCH; i++) {
    uint64_t bits = bench_next(&me->random);
    slot_t *slot = &me->slots[bench_below((uint32_t)bits, used)];
    if (i % TIMED_EVERY != 0) {
      change += slot_toggle(slot, bits, phase);
      continue;
    }
    uint64_t start = now_ns();
    change += slot_toggle(slot, bits, phase);
    histogram_add(me->service, now_ns() - start);
  }
  return change;
}

static void *place_main(void *arg) {
  place_t *me = arg;
  uint64_t ops = atomic_load_explicit(&me->ops, memory_order_relaxed);
  int64_t live = (int64_t)atomic_load_explicit(&me->live_bytes, memory_order_relaxed);
  uint32_t before = PHASE_COUNT;
  while (!atomic_load_explicit(&me->stop, memory_order_relaxed)) {
    uint32_t at = atomic_load_explicit(&run.phase, memory_order_relaxed);
    uint32_t used = run.slot_count / phases[at].share;
    if (at != before)
      live += place_shrink(me, used, &ops);
    before = at;
    live += place_batch(me, &phases[at], used);
    ops += BATCH;
    atomic_store_explicit(&me->ops, ops, memory_order_relaxed);
    atomic_store_explicit(&me->live_bytes, (uint64_t)live, memory_order_relaxed);
  }
  return NULL;
}

static void place_start(place_t *place) {
  atomic_store(&place->stop, false);
  if (pthread_create(&place->id, NULL, place_main, place) != 0)
    bench_fail("soak: cannot create a thread");
}

static void place_end(place_t *place) {
  atomic_store(&place->stop, true);
  pthread_join(place->id, NULL);
}

static place_t *places_start(void) {
  place_t *places = bench_map(run.threads * sizeof *places);
  for (uint32_t i = 0; i < run.threads; i++) {
    places[i].slots = bench_map(run.slot_count * sizeof(slot_t));
    places[i].service = bench_map(sizeof(histogram_t));
    places[i].random = bench_seed(run.seed + i);
    place_start(&places[i]);
  }
  return places;
}

static void leak(uint64_t kib) {
  for (uint64_t bytes = 0; bytes < kib << 10; bytes += LEAK_BLOCK_BYTES)
    bench_filled(LEAK_BLOCK_BYTES);
}

// Sums the histograms of all places. `fresh` gets the counts since the last call, `seen` the total counts.
static void service_since(place_t *places, uint64_t *seen, uint64_t *fresh) {
  for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run.threads; i++)
      sum += atomic_load_explicit(&places[i].service->counts[bucket], memory_order_relaxed);
    fresh[bucket] = sum - seen[bucket];
    seen[bucket] = sum;
  }
}

static void print_epoch(double t_s, place_t *places, uint64_t started, uint32_t next, const uint64_t *service) {
  uint64_t ops = 0, live = 0;
  for (uint32_t i = 0; i < run.threads; i++) {
    ops += atomic_load_explicit(&places[i].ops, memory_order_relaxed);
    live += atomic_load_explicit(&places[i].live_bytes, memory_order_relaxed);
  }
  printf("soak t=%.3f ops=%llu live_kib=%llu phase=%s next=%s threads=%u started=%llu", t_s, (unsigned long long)ops,
         (unsigned long long)(live >> 10), phases[atomic_load(&run.phase)].name, phases[next].name, run.threads,
         (unsigned long long)started);
  printf(" p50_ns=%llu p99_ns=%llu p999_ns=%llu\n", (unsigned long long)histogram_quantile_ns(service, 0.50),
         (unsigned long long)histogram_quantile_ns(service, 0.99),
         (unsigned long long)histogram_quantile_ns(service, 0.999));
}

static void sleep_until(uint64_t ns) {
  struct timespec at = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
  }
}

static void run_configure(int argc, char **argv) {
  bench_expect_args(argc, argv, 7, "SECONDS [THREADS SLOTS PHASE_S LIFE_S LEAK_KIB SEED]");
  run.seconds = bench_arg(argc, argv, 1, "SECONDS", 600, 1, 10000000);
  run.threads = (uint32_t)bench_arg(argc, argv, 2, "THREADS", 4, 1, MAX_THREADS);
  run.slot_count = (uint32_t)bench_arg(argc, argv, 3, "SLOTS", 65536, 64, 1 << 26);
  run.phase_s = bench_arg(argc, argv, 4, "PHASE_S", 30, 1, 1000000);
  run.life_s = bench_arg(argc, argv, 5, "LIFE_S", 5, 0, 1000000);
  run.leak_kib = bench_arg(argc, argv, 6, "LEAK_KIB", 0, 0, 1 << 20);
  run.seed = bench_arg(argc, argv, 7, "SEED", 1, 0, UINT64_MAX);
}

int main(int argc, char **argv) {
  static char line[BUFSIZ];
  setvbuf(stdout, line, _IOLBF, sizeof line);
  run_configure(argc, argv);
  uint64_t *seen = bench_map(HISTOGRAM_BUCKETS * sizeof *seen);
  uint64_t *fresh = bench_map(HISTOGRAM_BUCKETS * sizeof *fresh);
  place_t *places = places_start();
  uint64_t started = run.threads, start = now_ns();

  for (uint64_t second = 1; second <= run.seconds; second++) {
    sleep_until(start + second * 1000000000u);
    service_since(places, seen, fresh);
    uint32_t next = (uint32_t)(second / run.phase_s % PHASE_COUNT);
    print_epoch((double)(now_ns() - start) * 1e-9, places, started, next, fresh);
    atomic_store(&run.phase, next);
    leak(run.leak_kib);
    if (run.life_s > 0 && second % run.life_s == 0) {
      place_t *place = &places[second / run.life_s % run.threads];
      place_end(place);
      place_start(place);
      started++;
    }
  }
  for (uint32_t i = 0; i < run.threads; i++)
    place_end(&places[i]);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
