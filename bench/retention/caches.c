// Caches that are full: each new block replaces blocks of other sizes.
#include "retention.h"

// Frees the oldest entries until the new one fits.
static void run_lru(const pattern_t *pattern) {
  enum { REPLACED_SHARE = 4 };
  uint64_t budget = pattern_bytes(pattern), slots = 2 * budget / sizes_mean(pattern->sizes) + KIB;
  block_t *ring = table_open(slots * sizeof *ring);
  uint64_t random = bench_seed(21), live = 0, head = 0, tail = 0;
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint64_t added = 0; added < budget / REPLACED_SHARE;) {
      uint64_t bytes = sizes_draw(pattern->sizes, &random);
      for (; head != tail && (live + bytes > budget || head - tail == slots); tail++) {
        free(ring[tail % slots].at);
        live -= ring[tail % slots].bytes;
      }
      ring[head++ % slots] = (block_t){bench_filled(bytes), bytes};
      live += bytes;
      added += bytes;
    }
    measure_cycle_end();
  }
  for (; tail != head; tail++)
    free(ring[tail % slots].at);
  table_close(ring, slots * sizeof *ring);
}

// Evicts random entries, which leaves holes of all sizes everywhere.
static void run_evict_any(const pattern_t *pattern) {
  uint64_t budget = pattern_bytes(pattern);
  bag_t bag = bag_for(budget, pattern->sizes, 22);
  bag_fill(&bag, budget, pattern->sizes);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    bag_churn(&bag, budget / 4, pattern->sizes);
    measure_cycle_end();
  }
  bag_close(&bag);
}

// The whole cache expires at once and is refilled little by little, as after a restart of the server behind it.
static void run_expiry(const pattern_t *pattern) {
  enum { STEPS = 20, STEP_MS = 10 };
  uint64_t budget = pattern_bytes(pattern);
  bag_t bag = bag_for(budget, pattern->sizes, 23);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint32_t step = 1; step <= STEPS; step++) {
      bag_fill(&bag, budget * step / STEPS, pattern->sizes);
      pause_ms(STEP_MS);
    }
    bag_drain(&bag, 0, ANY);
    measure_cycle_end();
  }
  bag_close(&bag);
}

// Every 64th small block outlives the large ones that were allocated beside it, and keeps its page in use.
static void run_pins(const pattern_t *pattern) {
  enum { PIN_EVERY = 64, PINS = 1 << 20 };
  static const sizes_t pinned = {32, 256, false};
  uint64_t peak = pattern_bytes(pattern);
  bag_t bag = bag_for(peak, pattern->sizes, 24), pins = bag_open(PINS, 25);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint64_t i = 0; bag.live_bytes < peak; i++) {
      bag_add(&bag, sizes_draw(pattern->sizes, &bag.random));
      if (i % PIN_EVERY == 0)
        bag_add(&pins, sizes_draw(pinned, &pins.random));
    }
    bag_drain(&bag, 0, ANY);
    bag_drain(&pins, pins.live_bytes / 2, OLDEST);
    measure_cycle_end();
  }
  bag_close(&pins);
  bag_close(&bag);
}

const pattern_t cache_patterns[] = {
    {.name = "lru",
     .run = run_lru,
     .mib = 200,
     .rounds = 40,
     .sizes = {64, 64 * KIB, false},
     .what = "200 MiB of 64 B-64 KiB entries, the oldest replaced"},
    {.name = "lru-large",
     .run = run_lru,
     .mib = 300,
     .rounds = 40,
     .sizes = {64 * KIB, 4 * MIB, false},
     .what = "300 MiB of 64 KiB-4 MiB entries, the oldest replaced"},
    {.name = "evict-any",
     .run = run_evict_any,
     .mib = 200,
     .rounds = 30,
     .sizes = {64, 256 * KIB, false},
     .what = "200 MiB of 64 B-256 KiB entries, any of them replaced"},
    {.name = "expiry",
     .run = run_expiry,
     .mib = 200,
     .rounds = 10,
     .sizes = {128, 32 * KIB, false},
     .what = "200 MiB of entries that fill in 0.2 s and expire at once"},
    {.name = "pins",
     .run = run_pins,
     .mib = 200,
     .rounds = 15,
     .sizes = {512, 64 * KIB, false},
     .what = "rises to 200 MiB among small blocks that stay for longer"},
    {0},
};
