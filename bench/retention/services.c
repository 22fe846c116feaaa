// Services: connections, requests and jobs, with quiet times between them.
#include "retention.h"

// One TLS connection: a read buffer, a write buffer, some small state.
static void connection_open(bag_t *bag) {
  enum { SMALL_BLOCKS = 12 };
  static const sizes_t buffer = {16 * KIB, 64 * KIB, false}, state = {32, 2048, false};
  bag_add(bag, sizes_draw(buffer, &bag->random));
  bag_add(bag, sizes_draw(buffer, &bag->random));
  for (uint32_t i = 0; i < SMALL_BLOCKS; i++)
    bag_add(bag, sizes_draw(state, &bag->random));
}

enum { CONNECTION_BLOCKS = 14, CONNECTION_KIB = 74 };

// A few connections at a time, each short; their number drifts.
static void run_tls_short(const pattern_t *pattern) {
  enum { OPENED = 400, LEVELS = 7 };
  uint64_t most = pattern_bytes(pattern) / (CONNECTION_KIB * KIB) + 1;
  bag_t bag = bag_open((most + 2) * CONNECTION_BLOCKS, 11);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t open = most * (round * 3 % LEVELS + 1) / LEVELS;
    measure_cycle_begin();
    for (uint32_t i = 0; i < OPENED; i++) {
      while (bag.count > open * CONNECTION_BLOCKS)
        bag_drop(&bag, bench_next(&bag.random) % bag.count);
      connection_open(&bag);
    }
    measure_cycle_end();
  }
  bag_close(&bag);
}

// All clients connect at once, stay for a moment and leave.
static void run_tls_burst(const pattern_t *pattern) {
  uint64_t clients = pattern_bytes(pattern) / (CONNECTION_KIB * KIB) + 1;
  bag_t bag = bag_open(clients * CONNECTION_BLOCKS, 12);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint64_t i = 0; i < clients; i++)
      connection_open(&bag);
    bag_drain(&bag, 0, ANY);
    measure_cycle_end();
    pause_ms(pattern->pause_ms);
  }
  bag_close(&bag);
}

// Bursts of requests that each build an answer. All memory of a burst is freed at its end. Bursts differ in size.
static void run_requests(const pattern_t *pattern) {
  enum { REQUEST_KIB = 512 };
  bag_t bag = bag_for(pattern_bytes(pattern) + MIB, pattern->sizes, 13);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t requests = pattern_bytes(pattern) / (REQUEST_KIB * KIB) * (1 + bench_random(&bag.random, 4)) / 4;
    measure_cycle_begin();
    for (uint64_t i = 0; i < requests; i++)
      bag_fill(&bag, bag.live_bytes + REQUEST_KIB * KIB, pattern->sizes);
    bag_drain(&bag, 0, pattern->order);
    measure_cycle_end();
    pause_ms(pattern->pause_ms);
  }
  bag_close(&bag);
}

// One spike of demand, then only small calls.
static void run_spike(const pattern_t *pattern) {
  bag_t bag = bag_for(pattern_bytes(pattern), pattern->sizes, 14);
  bag_fill(&bag, pattern_bytes(pattern), pattern->sizes);
  bag_close(&bag);
  small_calls(5 * MS_PER_S);
}

// Large jobs with small calls between them.
static void run_jobs(const pattern_t *pattern) {
  bag_t bag = bag_for(pattern_bytes(pattern), pattern->sizes, 15);
  for (uint32_t round = 0, rounds = pattern_rounds(pattern); round < rounds; round++) {
    measure_cycle_begin();
    bag_fill(&bag, pattern_bytes(pattern), pattern->sizes);
    bag_drain(&bag, 0, pattern->order);
    measure_cycle_end();
    if (round + 1 < rounds)
      small_calls(pattern->pause_ms);
  }
  bag_close(&bag);
}

// Start-up needs five times the memory that stays live. The requests served later never reach that peak again.
static void run_startup(const pattern_t *pattern) {
  static const sizes_t request = {64, 16 * KIB, false};
  uint64_t peak = pattern_bytes(pattern);
  bag_t bag = bag_for(peak, pattern->sizes, 16);
  bag_fill(&bag, peak, pattern->sizes);
  bag_drain(&bag, peak / 5, ANY);
  bag_t work = bag_for(peak / 16, request, 17);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    bag_fill(&work, peak / 16, request);
    bag_churn(&bag, peak / 20, pattern->sizes);
    bag_drain(&work, 0, OLDEST);
    measure_cycle_end();
  }
  bag_close(&work);
  bag_close(&bag);
}

// Lines of a log file collect in a buffer. When the file is full, they are copied into one block, which is compressed;
// the compressed file replaces the oldest of three.
static void run_logs(const pattern_t *pattern) {
  enum { KEPT = 3 };
  static const sizes_t line = {64, 512, false};
  uint64_t file_bytes = pattern_bytes(pattern) / 2;
  bag_t lines = bag_for(file_bytes, line, 18);
  char *kept[KEPT] = {0};
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    bag_fill(&lines, file_bytes, line);
    char *whole = bench_filled(file_bytes);
    bag_drain(&lines, 0, OLDEST);
    free(kept[round % KEPT]);
    kept[round % KEPT] = bench_filled(file_bytes / 8);
    free(whole);
    measure_cycle_end();
  }
  for (uint32_t i = 0; i < KEPT; i++)
    free(kept[i]);
  bag_close(&lines);
}

// Database queries that each take from 1/64 of the memory to all of it, for a hash table, its rows and a result.
static void run_queries(const pattern_t *pattern) {
  static const sizes_t rows = {64, KIB, false};
  uint64_t most = pattern_bytes(pattern), random = bench_seed(19);
  bag_t bag = bag_for(most, rows, 20);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t bytes = bench_log_size(bench_next(&random), (uint32_t)(most / 64), 6);
    measure_cycle_begin();
    char *table = calloc(1, bytes / 8);
    if (table == NULL)
      bench_fail("retention: calloc returned NULL");
    for (uint64_t at = 0; at < bytes / 8; at += BENCH_PAGE_BYTES)
      table[at] = 1;
    bag_fill(&bag, bytes * 3 / 4, rows);
    char *result = bench_filled(bytes / 8);
    bag_drain(&bag, 0, OLDEST);
    free(table);
    free(result);
    measure_cycle_end();
  }
  bag_close(&bag);
}

const pattern_t service_patterns[] = {
    {.name = "tls-short",
     .run = run_tls_short,
     .mib = 64,
     .rounds = 60,
     .what = "short connections with buffers of 16-64 KiB, as many as 64 MiB at a time"},
    {.name = "tls-burst",
     .run = run_tls_burst,
     .mib = 100,
     .rounds = 15,
     .pause_ms = 100,
     .what = "100 MiB of connections at once, all closed, every 100 ms and more"},
    {.name = "requests",
     .run = run_requests,
     .mib = 120,
     .rounds = 30,
     .sizes = {32, 128 * KIB, false},
     .order = ANY,
     .pause_ms = 60,
     .what = "bursts of requests of 30-120 MiB, 60 ms to think between"},
    {.name = "requests-slow",
     .run = run_requests,
     .mib = 200,
     .rounds = 6,
     .sizes = {32, 16 * KIB, false},
     .pause_ms = 600,
     .what = "bursts of requests of 50-200 MiB, 600 ms to think between"},
    {.name = "spike",
     .run = run_spike,
     .mib = 400,
     .rounds = 1,
     .sizes = {256, MIB, false},
     .what = "a spike of 400 MiB, then 400 small calls a second for 5 s"},
    {.name = "jobs",
     .run = run_jobs,
     .mib = 200,
     .rounds = 5,
     .sizes = {256, MIB, false},
     .pause_ms = 800,
     .what = "a job of 200 MiB every 0.8 s, 400 small calls a second between"},
    {.name = "startup",
     .run = run_startup,
     .mib = 400,
     .rounds = 40,
     .sizes = {64, 32 * KIB, false},
     .what = "loads 400 MiB, serves from 80"},
    {.name = "logs", .run = run_logs, .mib = 120, .rounds = 8, .what = "lines of a log, joined, packed and rotated"},
    {.name = "queries",
     .run = run_queries,
     .mib = 300,
     .rounds = 24,
     .what = "hash joins of 5-300 MiB, one after the other"},
    {0},
};
