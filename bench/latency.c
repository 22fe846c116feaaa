// latency RATE SECONDS [THREADS ALLOCATIONS LIVE MIN MAX WARMUP_S SEED]: an open loop. In each thread RATE requests a
// second have an intended start, equally spaced; a request replaces ALLOCATIONS random blocks of a live set of LIVE
// (MIN to MAX bytes, uniform). Its response time counts from the intended start, so a
// stall is charged to every request that had to wait for it; its service time from the actual start. The first WARMUP_S
// seconds of the schedule are not recorded. Prints both histograms, `response VALUE_NS COUNT`, and for each second of
// the recorded part the mean response.
#include "bench.h"
#include "histogram.h"

#include <pthread.h>
#include <sys/prctl.h>

enum { MAX_THREADS = 64, MAX_SECONDS = 100000 };
// Sleeping wakes up late; the rest of the way is waited for with the clock.
static const uint64_t spin_ns = 100000;
static const uint64_t second_ns = 1000000000;

typedef struct {
  uint64_t requests;
  uint64_t response_ns;
} second_t;

typedef struct {
  _Alignas(BENCH_LINE_BYTES) void **live;
  uint64_t random;
  histogram_t *response;
  histogram_t *service;
  second_t *seconds;
  uint64_t late; // requests that began after the next one's intended start
  pthread_t id;
} client_t;

static struct {
  uint64_t rate, seconds, warmup_s, seed;
  uint32_t threads, allocations, live, min_bytes, size_count;
  uint64_t start_ns;
  pthread_barrier_t ready, go;
} run;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * second_ns + (uint64_t)t.tv_nsec;
}

static uint64_t wait_until(uint64_t ns) {
  uint64_t now = now_ns();
  if (now + 2 * spin_ns < ns) {
    uint64_t wake = ns - spin_ns;
    struct timespec at = {(time_t)(wake / second_ns), (long)(wake % second_ns)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
  }
  while (now < ns)
    now = now_ns();
  return now;
}

static void *random_block(client_t *me) {
  return bench_touched(run.min_bytes + bench_random(&me->random, run.size_count));
}

static void request(client_t *me) {
  for (uint32_t i = 0; i < run.allocations; i++) {
    void **slot = &me->live[bench_random(&me->random, run.live)];
    free(*slot);
    *slot = random_block(me);
  }
}

static void *client_main(void *arg) {
  client_t *me = arg;
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  for (uint32_t i = 0; i < run.live; i++)
    me->live[i] = random_block(me);
  pthread_barrier_wait(&run.ready);
  pthread_barrier_wait(&run.go);

  uint64_t count = run.rate * (run.warmup_s + run.seconds), unrecorded = run.rate * run.warmup_s;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t intended = run.start_ns + i / run.rate * second_ns + i % run.rate * second_ns / run.rate;
    uint64_t began = wait_until(intended);
    request(me);
    uint64_t ended = now_ns();
    if (i < unrecorded)
      continue;
    histogram_add(me->response, ended - intended);
    histogram_add(me->service, ended - began);
    second_t *second = &me->seconds[(i - unrecorded) / run.rate];
    second->requests++;
    second->response_ns += ended - intended;
    me->late += began - intended >= second_ns / run.rate;
  }
  for (uint32_t i = 0; i < run.live; i++)
    free(me->live[i]);
  return NULL;
}

static client_t *clients_start(void) {
  client_t *clients = bench_map(run.threads * sizeof *clients);
  pthread_barrier_init(&run.ready, NULL, run.threads + 1);
  pthread_barrier_init(&run.go, NULL, run.threads + 1);
  for (uint32_t i = 0; i < run.threads; i++) {
    client_t *client = &clients[i];
    client->live = bench_map(run.live * sizeof(void *));
    client->response = bench_map(sizeof(histogram_t));
    client->service = bench_map(sizeof(histogram_t));
    client->seconds = bench_map(run.seconds * sizeof(second_t));
    client->random = bench_seed(run.seed + i);
    if (pthread_create(&client->id, NULL, client_main, client) != 0)
      bench_fail("latency: cannot create a thread");
  }
  pthread_barrier_wait(&run.ready);
  run.start_ns = now_ns() + second_ns / 100;
  pthread_barrier_wait(&run.go);
  return clients;
}

static void print_histogram(const char *name, histogram_t *const *parts) {
  uint64_t largest = 0;
  for (uint32_t i = 0; i < run.threads; i++) {
    uint64_t value = atomic_load(&parts[i]->largest_ns);
    largest = value > largest ? value : largest;
  }
  for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    uint64_t count = 0, value = histogram_value_ns(bucket);
    for (uint32_t i = 0; i < run.threads; i++)
      count += atomic_load(&parts[i]->counts[bucket]);
    if (count > 0)
      printf("%s %llu %llu\n", name, (unsigned long long)(value < largest ? value : largest),
             (unsigned long long)count);
  }
}

static void print_seconds(const client_t *clients) {
  for (uint64_t second = 0; second < run.seconds; second++) {
    uint64_t requests = 0, response_ns = 0;
    for (uint32_t i = 0; i < run.threads; i++) {
      requests += clients[i].seconds[second].requests;
      response_ns += clients[i].seconds[second].response_ns;
    }
    printf("second %llu %.0f\n", (unsigned long long)second, (double)response_ns / (double)requests);
  }
}

static void run_configure(int argc, char **argv) {
  bench_expect_args(argc, argv, 9, "RATE SECONDS [THREADS ALLOCATIONS LIVE MIN MAX WARMUP_S SEED]");
  run.rate = bench_arg(argc, argv, 1, "RATE", 10000, 1, 10000000);
  run.seconds = bench_arg(argc, argv, 2, "SECONDS", 10, 1, MAX_SECONDS);
  run.threads = (uint32_t)bench_arg(argc, argv, 3, "THREADS", 1, 1, MAX_THREADS);
  run.allocations = (uint32_t)bench_arg(argc, argv, 4, "ALLOCATIONS", 32, 1, 1000000);
  run.live = (uint32_t)bench_arg(argc, argv, 5, "LIVE", 10000, 1, 1 << 26);
  run.min_bytes = (uint32_t)bench_arg(argc, argv, 6, "MIN", 16, 1, 1 << 30);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 7, "MAX", 1040, 1, 1 << 30);
  run.warmup_s = bench_arg(argc, argv, 8, "WARMUP_S", 1, 0, MAX_SECONDS);
  run.seed = bench_arg(argc, argv, 9, "SEED", 1, 0, UINT64_MAX);
  bench_expect_order(argv, run.min_bytes, high);
  run.size_count = high - run.min_bytes + 1;
}

int main(int argc, char **argv) {
  run_configure(argc, argv);
  client_t *clients = clients_start();
  histogram_t *response[MAX_THREADS], *service[MAX_THREADS];
  uint64_t late = 0;
  for (uint32_t i = 0; i < run.threads; i++) {
    pthread_join(clients[i].id, NULL);
    response[i] = clients[i].response;
    service[i] = clients[i].service;
    late += clients[i].late;
  }
  print_histogram("response", response);
  print_histogram("service", service);
  print_seconds(clients);
  uint64_t requests = run.rate * run.seconds * run.threads;
  printf("latency requests=%llu rate=%llu threads=%u late=%llu\n", (unsigned long long)requests,
         (unsigned long long)run.rate, run.threads, (unsigned long long)late);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
