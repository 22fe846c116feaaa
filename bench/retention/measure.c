// RUSAGE_THREAD
#define _GNU_SOURCE
#include "retention.h"

#include <pthread.h>
#include <sys/resource.h>

enum { CYCLES_MAX = 4096, TAIL_MS = 5000, LEARNED_DIVISOR = 10 };

typedef struct {
  double wall_s;
  double cpu_s;
  uint64_t faults;
} usage_t;

static usage_t started, cycle_started, cycles[CYCLES_MAX];
static uint32_t cycle_count;

// Protects the figures of the patterns' own tables, since threads of a pattern may open some at the same time.
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t table_faults, table_bytes, table_peak_bytes;

static uint64_t thread_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return (uint64_t)usage.ru_minflt;
}

void *table_open(uint64_t bytes) {
  uint64_t before = thread_faults();
  void *table = bench_map(bytes);
  pthread_mutex_lock(&table_lock);
  table_faults += thread_faults() - before;
  table_bytes += bytes;
  if (table_bytes > table_peak_bytes)
    table_peak_bytes = table_bytes;
  pthread_mutex_unlock(&table_lock);
  return table;
}

void table_close(void *table, uint64_t bytes) {
  munmap(table, bytes);
  pthread_mutex_lock(&table_lock);
  table_bytes -= bytes;
  pthread_mutex_unlock(&table_lock);
}

static void usage_add(usage_t *sum, int who) {
  struct rusage usage;
  getrusage(who, &usage);
  sum->cpu_s += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  sum->faults += (uint64_t)usage.ru_minflt;
}

// Includes the child processes that have ended, for the pattern fork-workers.
static usage_t usage_now(void) {
  usage_t now = {.wall_s = bench_seconds()};
  usage_add(&now, RUSAGE_SELF);
  usage_add(&now, RUSAGE_CHILDREN);
  pthread_mutex_lock(&table_lock);
  now.faults -= table_faults;
  pthread_mutex_unlock(&table_lock);
  return now;
}

static usage_t usage_since(usage_t from) {
  usage_t now = usage_now();
  return (usage_t){now.wall_s - from.wall_s, now.cpu_s - from.cpu_s, now.faults - from.faults};
}

void measure_start(void) {
  started = usage_now();
}

void measure_cycle_begin(void) {
  cycle_started = usage_now();
}

void measure_cycle_end(void) {
  if (cycle_count < CYCLES_MAX)
    cycles[cycle_count++] = usage_since(cycle_started);
}

// Number of cycles before one has less than a tenth of the first cycle's faults; -1 if none has.
static int cycles_to_learn(void) {
  for (uint32_t i = 1; i < cycle_count; i++)
    if (cycles[i].faults < cycles[0].faults / LEARNED_DIVISOR)
      return (int)i;
  return -1;
}

static void report_cycles(void) {
  if (cycle_count < 2)
    return;
  usage_t first = cycles[0], last = cycles[cycle_count - 1];
  printf(" cycles=%u first_ms=%.1f first_faults=%llu last_ms=%.1f last_faults=%llu learned=%d", cycle_count,
         first.wall_s * MS_PER_S, (unsigned long long)first.faults, last.wall_s * MS_PER_S,
         (unsigned long long)last.faults, cycles_to_learn());
}

void measure_report(const char *name, bool tail, bool tail_silent) {
  usage_t all = usage_since(started);
  uint64_t rss_kib = bench_rss_kib(), peak_kib = bench_peak_kib() - table_peak_bytes / KIB;
  printf("retention %s cpu_ms=%.1f wall_ms=%.1f faults=%llu peak_kib=%llu rss_free_kib=%llu", name,
         all.cpu_s * MS_PER_S, all.wall_s * MS_PER_S, (unsigned long long)all.faults, (unsigned long long)peak_kib,
         (unsigned long long)rss_kib);
  report_cycles();
  // The silent tail comes first, since the calls of the other tail could make the allocator release memory.
  if (tail_silent) {
    pause_ms(TAIL_MS);
    printf(" tail_silent_kib=%llu", (unsigned long long)bench_rss_kib());
  }
  if (tail) {
    small_calls(TAIL_MS);
    printf(" tail_kib=%llu", (unsigned long long)bench_rss_kib());
  }
  printf("\n");
}
