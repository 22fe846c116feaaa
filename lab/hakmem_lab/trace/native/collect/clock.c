// The processor's clock in nanoseconds.
#include "collect.h"

#include <time.h>

enum { MEASURE_NS = 20000000, PAIRS = 5 };

static double ns_per_unit;
static uint64_t origin; // when the trace began

static uint64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Reads both clocks at about the same time: of PAIRS pairs of readings, it takes the quickest.
static void pair(uint64_t *ns, uint64_t *clock) {
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < PAIRS; i++) {
    uint64_t before = segment_clock(), now = monotonic_ns(), after = segment_clock();
    if (after - before < shortest) {
      shortest = after - before;
      *ns = now;
      *clock = before + (after - before) / 2;
    }
  }
}

void clock_start(void) {
  uint64_t first_ns = 0, first_clock = 0, last_ns = 0, last_clock = 0;
  pair(&first_ns, &first_clock);
  nanosleep(&(struct timespec){0, MEASURE_NS}, NULL);
  pair(&last_ns, &last_clock);
  ns_per_unit = (double)(last_ns - first_ns) * (1 << SEGMENT_CLOCK_SHIFT) / (double)(last_clock - first_clock);
  origin = last_clock;
}

double clock_ns(void) {
  return ns_per_unit;
}

uint64_t clock_since(uint64_t origin) {
  return (segment_clock() - origin) >> SEGMENT_CLOCK_SHIFT;
}

uint64_t clock_ns_since(uint64_t origin) {
  return (uint64_t)((double)clock_since(origin) * ns_per_unit);
}

uint64_t clock_now_ns(void) {
  return clock_ns_since(origin);
}
