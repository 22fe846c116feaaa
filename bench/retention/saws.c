// A whole heap grows and shrinks: how soon, and at which sizes and speeds, does an allocator retain memory for reuse?
#include "retention.h"

#define SMALL \
  { 16, 512, false }
#define WIDE \
  { KIB, 2 * MIB, false }
#define LARGE \
  { MIB, 8 * MIB, true }

// Demand rises to the peak and falls to a part of it; then the pattern pauses.
static void run_saw(const pattern_t *pattern) {
  uint64_t peak = pattern_bytes(pattern), foot = peak * pattern->keep_percent / PERCENT;
  bag_t bag = bag_for(peak, pattern->sizes, 1);
  double start = bench_seconds();
  for (uint32_t round = 0, rounds = pattern_rounds(pattern); round < rounds; round++) {
    if (pattern->every_ms != 0)
      pause_until(start + (double)round * pattern->every_ms / MS_PER_S);
    measure_cycle_begin();
    bag_fill(&bag, peak, pattern->sizes);
    compute(pattern->steps_m);
    bag_drain(&bag, foot, pattern->order);
    measure_cycle_end();
    if (round + 1 < rounds)
      pause_ms(pattern->pause_ms);
  }
  bag_close(&bag);
}

// Peaks that change from cycle to cycle, in percent of the highest.
static void saw_of_peaks(const pattern_t *pattern, const uint32_t *percents, uint32_t count) {
  uint64_t peak = pattern_bytes(pattern);
  bag_t bag = bag_for(peak, pattern->sizes, 2);
  for (uint32_t round = 0, rounds = pattern_rounds(pattern); round < rounds; round++) {
    measure_cycle_begin();
    bag_fill(&bag, peak * percents[round % count] / PERCENT, pattern->sizes);
    bag_drain(&bag, 0, pattern->order);
    measure_cycle_end();
  }
  bag_close(&bag);
}

static void run_ramp_up(const pattern_t *pattern) {
  static const uint32_t percents[] = {5, 10, 16, 25, 36, 50, 65, 80, 90, 100};
  saw_of_peaks(pattern, percents, sizeof percents / sizeof *percents);
}

static void run_ramp_down(const pattern_t *pattern) {
  static const uint32_t percents[] = {100, 90, 80, 65, 50, 36, 25, 16, 10, 5};
  saw_of_peaks(pattern, percents, sizeof percents / sizeof *percents);
}

static void run_uneven(const pattern_t *pattern) {
  static const uint32_t percents[] = {100, 20, 60, 5, 100, 10, 40, 15, 80, 5};
  saw_of_peaks(pattern, percents, sizeof percents / sizeof *percents);
}

// Demand goes up and down in steps of a twentieth, each held for a while by replacing a part of the blocks.
static void run_tide(const pattern_t *pattern) {
  enum { STEPS = 20, STEP_MS = 20 };
  uint64_t peak = pattern_bytes(pattern);
  bag_t bag = bag_for(peak, pattern->sizes, 3);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint32_t step = 1; step < 2 * STEPS; step++) {
      uint64_t level = peak * (step <= STEPS ? step : 2 * STEPS - step) / STEPS;
      bag_fill(&bag, level, pattern->sizes);
      bag_drain(&bag, level, ANY);
      bag_churn(&bag, level / 4, pattern->sizes);
      pause_ms(STEP_MS);
    }
    measure_cycle_end();
  }
  bag_close(&bag);
}

// Buffers replaced at random, each filled wholly.
static void run_replace(const pattern_t *pattern) {
  enum { REPLACED = 20 };
  uint64_t live = pattern_bytes(pattern) / sizes_mean(pattern->sizes), random = bench_seed(4);
  char **buffers = table_open(live * sizeof *buffers);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint32_t i = 0; i < REPLACED; i++) {
      char **place = &buffers[bench_random(&random, (uint32_t)live)];
      uint64_t bytes = sizes_draw(pattern->sizes, &random);
      free(*place);
      *place = bench_malloc(bytes);
      memset(*place, pattern->fill, bytes);
    }
    measure_cycle_end();
  }
  for (uint64_t i = 0; i < live; i++)
    free(buffers[i]);
  table_close(buffers, live * sizeof *buffers);
}

// Buffers of which only the first quarter is written, so that the rest never becomes resident.
static void run_partial(const pattern_t *pattern) {
  enum { BUFFERS = 256 };
  uint64_t peak = pattern_bytes(pattern), random = bench_seed(5);
  char **buffers = table_open(BUFFERS * sizeof *buffers);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    uint32_t count = 0;
    for (uint64_t live = 0; live < peak && count < BUFFERS;) {
      uint64_t bytes = sizes_draw(pattern->sizes, &random);
      char *buffer = buffers[count++] = bench_malloc(bytes);
      memset(buffer, 1, bytes / 4);
      live += bytes;
    }
    while (count != 0)
      free(buffers[--count]);
    measure_cycle_end();
  }
  table_close(buffers, BUFFERS * sizeof *buffers);
}

#define RISE(size, count) \
  { \
    .name = "rise-" #size, .run = run_saw, .mib = size, .rounds = count, .sizes = WIDE, \
    .what = "rises to " #size " MiB of 1 KiB-2 MiB blocks and frees all" \
  }
#define RISE_LARGE(size, count) \
  { \
    .name = "rise-large-" #size, .run = run_saw, .mib = size, .rounds = count, .sizes = LARGE, \
    .what = "rises to " #size " MiB of 1-8 MiB blocks and frees all" \
  }

const pattern_t saw_patterns[] = {
    RISE(50, 16),
    RISE(200, 10),
    RISE(400, 8),
    RISE(800, 6),
    RISE(1500, 5),
    RISE(3000, 4),
    RISE_LARGE(200, 10),
    RISE_LARGE(800, 6),
    RISE_LARGE(1500, 4),
    {.name = "rise-small-100",
     .run = run_saw,
     .mib = 100,
     .rounds = 4,
     .sizes = SMALL,
     .order = ANY,
     .what = "rises to 100 MiB of 16-512 byte blocks and frees all in any order"},
    {.name = "burst-600",
     .run = run_saw,
     .mib = 600,
     .rounds = 6,
     .sizes = WIDE,
     .every_ms = 400,
     .what = "600 MiB of 1 KiB-2 MiB blocks every 400 ms"},
    {.name = "frame-400",
     .run = run_saw,
     .mib = 400,
     .rounds = 6,
     .sizes = WIDE,
     .steps_m = 120,
     .what = "400 MiB a frame, with computation"},
    {.name = "nap-300",
     .run = run_saw,
     .mib = 300,
     .rounds = 4,
     .sizes = WIDE,
     .pause_ms = 1500,
     .what = "300 MiB, 1.5 s of sleep, again"},
    {.name = "nap-large-300",
     .run = run_saw,
     .mib = 300,
     .rounds = 5,
     .sizes = LARGE,
     .pause_ms = 700,
     .what = "300 MiB of 1-8 MiB blocks, 0.7 s of sleep, again"},
    {.name = "saw-third",
     .run = run_saw,
     .mib = 240,
     .rounds = 5,
     .sizes = {64, 4096, false},
     .keep_percent = 33,
     .order = ANY,
     .what = "240 MiB of 64 B-4 KiB blocks down to a third, any of them stay, and back"},
    {.name = "saw-tenth",
     .run = run_saw,
     .mib = 400,
     .rounds = 12,
     .sizes = {KIB, 256 * KIB, false},
     .keep_percent = 10,
     .order = OLDEST,
     .what = "400 MiB of 1-256 KiB blocks down to a tenth, the newest stay"},
    {.name = "saw-half",
     .run = run_saw,
     .mib = 400,
     .rounds = 12,
     .sizes = {16 * KIB, MIB, false},
     .keep_percent = 50,
     .order = NEWEST,
     .what = "400 MiB of 16 KiB-1 MiB blocks down to half, the oldest stay"},
    {.name = "saw-half-any",
     .run = run_saw,
     .mib = 400,
     .rounds = 12,
     .sizes = WIDE,
     .keep_percent = 50,
     .order = ANY,
     .what = "400 MiB of 1 KiB-2 MiB blocks down to half, any of them stay"},
    {.name = "saw-paced",
     .run = run_saw,
     .mib = 300,
     .rounds = 12,
     .sizes = {KIB, 64 * KIB, false},
     .keep_percent = 20,
     .order = ANY,
     .every_ms = 250,
     .what = "300 MiB of 1-64 KiB blocks down to a fifth every 250 ms"},
    {.name = "ramp-up",
     .run = run_ramp_up,
     .mib = 400,
     .rounds = 10,
     .sizes = WIDE,
     .what = "peaks that grow from 20 to 400 MiB, all freed between"},
    {.name = "ramp-down",
     .run = run_ramp_down,
     .mib = 400,
     .rounds = 10,
     .sizes = WIDE,
     .what = "peaks that fall from 400 to 20 MiB, all freed between"},
    {.name = "uneven",
     .run = run_uneven,
     .mib = 400,
     .rounds = 10,
     .sizes = {256, 512 * KIB, false},
     .what = "peaks of 20-400 MiB in no order, all freed between"},
    {.name = "tide",
     .run = run_tide,
     .mib = 250,
     .rounds = 3,
     .sizes = {128, 128 * KIB, false},
     .what = "demand goes up and down between 12 and 250 MiB in steps of 20 ms"},
    {.name = "grow-once",
     .run = run_saw,
     .mib = 400,
     .rounds = 1,
     .sizes = {64, 64 * KIB, false},
     .what = "grows to 400 MiB once and frees all"},
    {.name = "replace-zeros",
     .run = run_replace,
     .mib = 300,
     .rounds = 20,
     .sizes = {5 * MIB, 25 * MIB, true},
     .fill = 0,
     .what = "5-25 MiB buffers replaced at random, filled with zeros"},
    {.name = "replace-ones",
     .run = run_replace,
     .mib = 300,
     .rounds = 20,
     .sizes = {5 * MIB, 25 * MIB, true},
     .fill = 1,
     .what = "5-25 MiB buffers replaced at random, filled with ones"},
    {.name = "partial",
     .run = run_partial,
     .mib = 800,
     .rounds = 10,
     .sizes = {MIB, 16 * MIB, true},
     .what = "800 MiB of 1-16 MiB buffers, a quarter of each written, all freed"},
    {0},
};
