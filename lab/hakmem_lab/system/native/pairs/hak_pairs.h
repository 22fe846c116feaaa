// Two sides of a library, compared inside one process: short regions of both alternate, and neighbours make a pair.
//
//   static void region(void *context, int side, size_t times) {
//     while (times--) {
//       side ? mine(context) : theirs(context);
//     }
//   }
//   int main(void) {
//     hak_pairs_t pairs = {.names = {"theirs", "mine"}, .region = region};
//     return hak_pairs(&pairs, stdout);
//   }
//
//   cc -O2 bench.c && ./a.out | hak judge -
//
// The order within each pair is random, so a drift of the machine, and the effects of one region on the next, burden
// both sides alike. The memory for the figures is mapped before anything is measured; nothing here calls malloc until
// the end.
#ifndef HAK_PAIRS_H
#define HAK_PAIRS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { HAK_PAIRS_MOST = 1 << 16, HAK_PAIRS_REGION_NS = 50000, HAK_PAIRS_TRIALS = 4 };

typedef struct {
  const char *names[2];
  void (*region)(void *context, int side, size_t times); // does the work `times` times; side: 0 or 1
  void (*enter)(void *context, int side); // if not NULL, selects a side before each region, unmeasured (hak_option_set)
  void *context;
  double seconds; // processor time; 0: one second. The wall time is at most ten times as much
} hak_pairs_t;

typedef struct {
  uint64_t wall_ns, cpu_ns; // of the process, with all its threads
} hak_pairs_time_t;

static inline uint64_t hak_pairs_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline hak_pairs_time_t hak_pairs_region(const hak_pairs_t *pairs, int side, size_t times) {
  hak_pairs_time_t found;
  if (pairs->enter != NULL) {
    pairs->enter(pairs->context, side);
  }
  found.cpu_ns = hak_pairs_clock(CLOCK_PROCESS_CPUTIME_ID);
  found.wall_ns = hak_pairs_clock(CLOCK_MONOTONIC);
  pairs->region(pairs->context, side, times);
  found.wall_ns = hak_pairs_clock(CLOCK_MONOTONIC) - found.wall_ns;
  found.cpu_ns = hak_pairs_clock(CLOCK_PROCESS_CPUTIME_ID) - found.cpu_ns;
  return found;
}

// How often a region does the work: long enough to outweigh a clock reading, short against the machine's drift.
static inline size_t hak_pairs_times(const hak_pairs_t *pairs) {
  for (size_t times = 1;; times *= 2) {
    uint64_t least = UINT64_MAX; // of a few trials, since another process may delay one
    for (int i = 0; i < HAK_PAIRS_TRIALS; i++) {
      uint64_t ns = hak_pairs_region(pairs, i % 2, times).wall_ns;
      least = ns < least ? ns : least;
    }
    if (least >= HAK_PAIRS_REGION_NS / 2 || times > SIZE_MAX / 4) {
      return times;
    }
  }
}

static inline void hak_pairs_print(FILE *out, const char *name, const hak_pairs_time_t (*found)[2], size_t count,
                                   int side) {
  fprintf(out, "%s{\"name\": \"", side ? ",\n " : "");
  for (const char *at = name; *at; at++) {
    fprintf(out, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
  }
  fprintf(out, "\", \"wall_ns\": [");
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)found[i][side].wall_ns);
  }
  fprintf(out, "], \"cpu_ns\": [");
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)found[i][side].cpu_ns);
  }
  fprintf(out, "]}");
}

// Measures, and writes the figures for `hak judge`. Returns 0, or an exit status with errno set.
static inline int hak_pairs(const hak_pairs_t *pairs, FILE *out) {
  size_t bytes = HAK_PAIRS_MOST * 2 * sizeof(hak_pairs_time_t), count = 0;
  void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapping == MAP_FAILED) {
    return 1;
  }
  hak_pairs_time_t(*found)[2] = (hak_pairs_time_t(*)[2])mapping;
  uint64_t state = (hak_pairs_clock(CLOCK_REALTIME) ^ (uint64_t)getpid() << 32) | 1;
  size_t times = hak_pairs_times(pairs);
  uint64_t most_ns = (uint64_t)((pairs->seconds > 0 ? pairs->seconds : 1) * 1e9);
  uint64_t cpu_ns = hak_pairs_clock(CLOCK_PROCESS_CPUTIME_ID), wall_ns = hak_pairs_clock(CLOCK_MONOTONIC);
  while (count < HAK_PAIRS_MOST && hak_pairs_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns < most_ns &&
         hak_pairs_clock(CLOCK_MONOTONIC) - wall_ns < 10 * most_ns) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    int first = (int)(state >> 63);
    found[count][first] = hak_pairs_region(pairs, first, times);
    found[count][!first] = hak_pairs_region(pairs, !first, times);
    count++;
  }
  fprintf(out, "{\"hak_pairs\": 1, \"times\": %zu, \"pairs\": [\n ", times);
  hak_pairs_print(out, pairs->names[0], (const hak_pairs_time_t(*)[2])found, count, 0);
  hak_pairs_print(out, pairs->names[1], (const hak_pairs_time_t(*)[2])found, count, 1);
  fprintf(out, "]}\n");
  munmap(mapping, bytes);
  return fflush(out) == 0 && !ferror(out) ? 0 : 1;
}

#endif
