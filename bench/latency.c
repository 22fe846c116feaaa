// latency RATE SECONDS [THREADS ALLOCATIONS LIVE MIN MAX WARMUP_S SEED]: an open loop. Each thread has RATE requests a
// second, with equally spaced intended starts. A request replaces ALLOCATIONS random blocks of a live set of LIVE
// blocks (MIN to MAX bytes, uniform). The response time counts from the intended start, so a stall is charged to every
// request that had to wait for it. The service time counts from the actual start. The first WARMUP_S seconds are not
// recorded. Prints:
// - both histograms: `response VALUE_NS COUNT` and `service VALUE_NS COUNT`;
// - the mean response in each second;
// - for each thread's slowest requests `slow RESPONSE_NS FAULTS WAITS PREEMPTED`: the kernel's counts of events in the
//   request and in the late requests just before it;
// - `pages FAULTS GROWTH`: faults beyond the growth of resident memory are on pages that had been given back before.
#define _GNU_SOURCE // RUSAGE_THREAD
#include "bench.h"
#include "histogram.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { MAX_THREADS = 64, MAX_SECONDS = 100000, SLOWEST = 256 };
// A sleep may end late, so it ends this long before the intended start; then the thread spins on the clock.
static const uint64_t spin_ns = 100000;
static const uint64_t second_ns = 1000000000;

typedef struct {
  uint64_t requests;
  uint64_t response_ns;
} second_t;

typedef struct {
  uint64_t response_ns;
  long faults, waits, preempted;
} slow_t;

typedef struct {
  _Alignas(BENCH_LINE_BYTES) void **live;
  uint64_t random;
  histogram_t *response;
  histogram_t *service;
  second_t *seconds;
  slow_t *slowest; // SLOWEST requests, as a heap with the fastest first
  uint64_t late;   // requests that began after the next one's intended start
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

static slow_t kernel_counts(void) {
  struct rusage used;
  getrusage(RUSAGE_THREAD, &used);
  return (slow_t){.faults = used.ru_minflt + used.ru_majflt, .waits = used.ru_nvcsw, .preempted = used.ru_nivcsw};
}

// Reads the counts after the sleep, which the kernel counts as a wait, and before the timed request. If the request is
// already late, the counts stay as they were read earlier, so they also cover whatever made it late. A late wake-up
// counts as a preemption.
static uint64_t wait_until(uint64_t ns, slow_t *counts) {
  uint64_t now = now_ns();
  if (now >= ns)
    return now;
  if (now + 2 * spin_ns < ns) {
    uint64_t wake = ns - spin_ns;
    struct timespec at = {(time_t)(wake / second_ns), (long)(wake % second_ns)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
  }
  *counts = kernel_counts();
  now = now_ns();
  counts->preempted -= now > ns;
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

static void keep_if_slow(client_t *me, uint64_t response_ns, const slow_t *before) {
  slow_t *heap = me->slowest;
  if (response_ns <= heap[0].response_ns)
    return;
  slow_t now = kernel_counts();
  now =
      (slow_t){response_ns, now.faults - before->faults, now.waits - before->waits, now.preempted - before->preempted};
  uint32_t i = 0;
  for (uint32_t child = 1; child < SLOWEST; child = 2 * i + 1) {
    child += child + 1 < SLOWEST && heap[child + 1].response_ns < heap[child].response_ns;
    if (heap[child].response_ns >= response_ns)
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = now;
}

static void *client_main(void *arg) {
  client_t *me = arg;
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  for (uint32_t i = 0; i < run.live; i++)
    me->live[i] = random_block(me);
  pthread_barrier_wait(&run.ready);
  pthread_barrier_wait(&run.go);

  slow_t before = kernel_counts();
  uint64_t count = run.rate * (run.warmup_s + run.seconds), unrecorded = run.rate * run.warmup_s;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t intended = run.start_ns + i / run.rate * second_ns + i % run.rate * second_ns / run.rate;
    uint64_t began = wait_until(intended, &before);
    request(me);
    uint64_t ended = now_ns();
    if (i < unrecorded)
      continue;
    histogram_add(me->response, ended - intended);
    histogram_add(me->service, ended - began);
    keep_if_slow(me, ended - intended, &before);
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
    client->slowest = bench_map(SLOWEST * sizeof(slow_t));
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

static void print_slowest(const client_t *clients) {
  for (uint32_t i = 0; i < run.threads; i++)
    for (const slow_t *slow = clients[i].slowest; slow < clients[i].slowest + SLOWEST; slow++)
      if (slow->response_ns > 0)
        printf("slow %llu %ld %ld %ld\n", (unsigned long long)slow->response_ns, slow->faults, slow->waits,
               slow->preempted);
}

// The process's page faults so far, and its resident pages now.
static void read_pages(long *faults, long *resident) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  *faults = used.ru_minflt + used.ru_majflt;
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
  text[length > 0 ? length : 0] = '\0';
  close(file);
  char *after_size = strchr(text, ' ');
  *resident = after_size ? strtol(after_size, NULL, 10) : 0;
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
  struct timespec unrecorded = {(time_t)run.warmup_s, 0};
  nanosleep(&unrecorded, NULL);
  long faults[2], resident[2];
  read_pages(&faults[0], &resident[0]);
  histogram_t *response[MAX_THREADS], *service[MAX_THREADS];
  uint64_t late = 0;
  uint64_t end_ns = run.start_ns + (run.warmup_s + run.seconds) * second_ns, now = now_ns();
  uint64_t left_ns = end_ns > now + second_ns / 100 ? end_ns - now - second_ns / 100 : 0;
  struct timespec recorded = {(time_t)(left_ns / second_ns), (long)(left_ns % second_ns)};
  nanosleep(&recorded, NULL);
  read_pages(&faults[1], &resident[1]);
  for (uint32_t i = 0; i < run.threads; i++) {
    pthread_join(clients[i].id, NULL);
    response[i] = clients[i].response;
    service[i] = clients[i].service;
    late += clients[i].late;
  }
  print_histogram("response", response);
  print_histogram("service", service);
  print_seconds(clients);
  print_slowest(clients);
  printf("pages %ld %ld\n", faults[1] - faults[0], resident[1] - resident[0]);
  uint64_t requests = run.rate * run.seconds * run.threads;
  printf("latency requests=%llu rate=%llu threads=%u late=%llu\n", (unsigned long long)requests,
         (unsigned long long)run.rate, run.threads, (unsigned long long)late);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
