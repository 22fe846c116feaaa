/* Times a fixed piece of arithmetic again and again: speed SECONDS. Prints, for each time, when it ended in
 * microseconds since the start, and the processor time that it took in nanoseconds. Other programs that use the
 * processor meanwhile do not count. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1 << 20, ROUNDS = 300000 };
static int64_t ended_ns[MOST], took_ns[MOST];

static int64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv) {
  int64_t begun_ns = now_ns(CLOCK_MONOTONIC), end_ns = begun_ns + (int64_t)(atof(argc > 1 ? argv[1] : "5") * 1e9);
  int64_t count = 0;
  for (uint64_t x = 1; count < MOST && now_ns(CLOCK_MONOTONIC) < end_ns; count++) {
    int64_t before_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < ROUNDS; i++) {
      x = x * 3 + (x >> 7);
      __asm__ volatile("" : "+r"(x)); /* the compiler cannot foresee the result */
    }
    took_ns[count] = now_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
    ended_ns[count] = now_ns(CLOCK_MONOTONIC) - begun_ns;
  }
  for (int64_t i = 0; i < count; i++) {
    printf("%ld %ld\n", (long)(ended_ns[i] / 1000), (long)took_ns[i]);
  }
  return 0;
}
