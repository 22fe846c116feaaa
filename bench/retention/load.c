#include "retention.h"

enum { RING_BLOCKS = 64, CALL_PERIOD_MS = 5, SMALL_LOW = 16, SMALL_DOUBLINGS = 5 };

uint64_t sizes_draw(sizes_t sizes, uint64_t *random) {
  if (sizes.high <= sizes.low)
    return sizes.low;
  if (sizes.even)
    return sizes.low + bench_random(random, sizes.high - sizes.low);
  return bench_log_size(bench_next(random), sizes.low, bench_doublings(sizes.low, sizes.high));
}

// A draw between a base and its double is 3/2 of the base on average. The bases of n doublings add up to 2^n - 1 times
// the lowest one.
uint64_t sizes_mean(sizes_t sizes) {
  if (sizes.high <= sizes.low)
    return sizes.low;
  if (sizes.even)
    return ((uint64_t)sizes.low + sizes.high) / 2;
  uint32_t doublings = bench_doublings(sizes.low, sizes.high);
  if (doublings == 0) // then sizes_draw draws between `low` and its double
    return 3 * (uint64_t)sizes.low / 2;
  return 3 * (uint64_t)sizes.low * ((1u << doublings) - 1) / (2 * doublings);
}

void pause_ms(uint32_t ms) {
  if (ms != 0)
    pause_until(bench_seconds() + (double)ms / MS_PER_S);
}

void pause_until(double second) {
  struct timespec until = {.tv_sec = (time_t)second};
  until.tv_nsec = (long)((second - (double)until.tv_sec) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

void small_calls(uint32_t ms) {
  static void *ring[RING_BLOCKS];
  uint64_t random = bench_seed(ms);
  double next = bench_seconds();
  for (uint32_t call = 0; call < ms / CALL_PERIOD_MS; call++) {
    void **place = &ring[call % RING_BLOCKS];
    free(*place);
    *place = bench_touched(bench_log_size(bench_next(&random), SMALL_LOW, SMALL_DOUBLINGS));
    next += (double)CALL_PERIOD_MS / MS_PER_S;
    pause_until(next);
  }
  for (uint32_t i = 0; i < RING_BLOCKS; i++) {
    free(ring[i]);
    ring[i] = NULL;
  }
}

void compute(uint32_t steps_m) {
  uint64_t state = bench_seed(steps_m);
  for (uint64_t step = 0; step < (uint64_t)steps_m * 1000000; step++)
    bench_next(&state);
  if (state == 0) // impossible, but the compiler must not remove the loop
    bench_fail("retention: the generator stands still");
}
