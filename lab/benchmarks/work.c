/* Work of a known amount for benchmarks/schedules.py: work chase|stream KIB STEPS MISSES
 * chase: STEPS reads of random lines in a set of KIB, each of which waits for the one before. stream: reads in order.
 * MISSES: of a million steps, so many also read a line of a second region of 256 MiB, which no cache holds.
 * It prints the processor time of the steps, in seconds, without that of making the set. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE_WORDS = 8, KIB_LINES = 16, MILLION = 1000000 };
static const uint64_t FAR_LINES = (256u << 10) * KIB_LINES, FACTOR = 6364136223846793005u, STEP = 1442695040888963407u;

static uint64_t *filled(uint64_t lines) {
  size_t bytes = lines * LINE_WORDS * sizeof(uint64_t);
  uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (words == MAP_FAILED) {
    exit(70);
  }
  return words;
}

static double used_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    return 64;
  }
  int stream = strcmp(argv[1], "stream") == 0;
  uint64_t lines = strtoull(argv[2], NULL, 10) * KIB_LINES, steps = strtoull(argv[3], NULL, 10);
  uint64_t misses = strtoull(argv[4], NULL, 10), owed = 0, at = 1, sum = 0;
  uint64_t *set = filled(lines), *far = misses ? filled(FAR_LINES) : NULL;
  double begun_s = used_s();
  for (uint64_t i = 0; i < steps; i++) {
    uint64_t line = stream ? i % lines : (at >> 33) % lines;
    sum += set[line * LINE_WORDS];
    at = at * FACTOR + STEP + sum; /* all words are 0, but the processor has to wait for them */
    if ((owed += misses) >= MILLION) {
      owed -= MILLION;
      sum += far[(at >> 33) % FAR_LINES * LINE_WORDS];
    }
  }
  printf("%.9f %d\n", used_s() - begun_s, (int)(sum & 1));
  return 0;
}
