// Shared by the benchmark programs: arguments, clock, random numbers, memory figures.
// Nothing here calls malloc: the programs take their own tables from mmap. So the allocator under test sees the
// workload alone, and the tables cost the same with every allocator.
#ifndef HAK_BENCH_H
#define HAK_BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BENCH_USAGE_EXIT = 2, BENCH_LINE_BYTES = 64, BENCH_PAGE_BYTES = 4096 };

static inline void bench_fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(BENCH_USAGE_EXIT);
}

static inline double bench_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// xorshift64: three shifts and no multiplication, so the generator costs little compared with malloc.
static inline uint64_t bench_next(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}

// Spreads small seeds over the whole state; never 0, which xorshift could not leave.
static inline uint64_t bench_seed(uint64_t seed) {
  uint64_t z = (seed + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  return (z ^ (z >> 27)) | 1;
}

// Uniform in [0, n) from 32 random bits, by multiplication instead of division.
static inline uint32_t bench_below(uint32_t bits, uint32_t n) {
  return (uint32_t)(((uint64_t)bits * n) >> 32);
}

static inline uint32_t bench_random(uint64_t *state, uint32_t n) {
  return bench_below((uint32_t)(bench_next(state) >> 32), n);
}

// Roughly log-uniform in [low, low << doublings): every doubling is equally likely. The size is `low` times a random
// power of two times a uniform factor from 1 to 2, without floating point.
static inline uint32_t bench_log_size(uint64_t bits, uint32_t low, uint32_t doublings) {
  uint32_t base = low << bench_below((uint32_t)bits, doublings);
  return base + bench_below((uint32_t)(bits >> 32), base);
}

// Fills a table of sizes that resemble those of many programs; callers draw from it uniformly. The logarithm of a size,
// relative to the lowest, follows the square of a uniform variable. With 11 doublings from 16 bytes, half of the sizes
// are below 112 bytes. Sizes between two powers of two are spaced evenly, so no floating point and no libm are needed.
static inline void bench_program_sizes(uint32_t *sizes, uint32_t count, uint32_t min_bytes, uint32_t doublings) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t square = doublings * (2 * i + 1) * (2 * i + 1), unit = 4 * (uint64_t)count * count;
    uint64_t base = (uint64_t)min_bytes << square / unit;
    sizes[i] = (uint32_t)(base + base * (square % unit) / unit);
  }
}

// How often `low` can be doubled without exceeding `high`.
static inline uint32_t bench_doublings(uint64_t low, uint64_t high) {
  uint32_t doublings = 0;
  while (low << (doublings + 1) <= high)
    doublings++;
  return doublings;
}

// Argument number `index`, or `fallback` if it is not given. Ends the program unless it is a number from low to high.
static inline uint64_t bench_arg(int argc, char **argv, int index, const char *name, uint64_t fallback, uint64_t low,
                                 uint64_t high) {
  if (index >= argc)
    return fallback;
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(argv[index], &end, 10);
  if (argv[index][0] < '0' || argv[index][0] > '9' || *end != '\0' || errno != 0 || value < low || value > high) {
    fprintf(stderr, "%s: %s must be a whole number from %llu to %llu, not '%s'\n", argv[0], name,
            (unsigned long long)low, (unsigned long long)high, argv[index]);
    exit(BENCH_USAGE_EXIT);
  }
  return value;
}

static inline void bench_expect_args(int argc, char **argv, int most, const char *usage) {
  if (argc - 1 <= most)
    return;
  fprintf(stderr, "%s: too many arguments; usage: %s %s\n", argv[0], argv[0], usage);
  exit(BENCH_USAGE_EXIT);
}

static inline void bench_expect_order(char **argv, uint64_t low, uint64_t high) {
  if (low <= high)
    return;
  fprintf(stderr, "%s: MIN (%llu) must not be above MAX (%llu)\n", argv[0], (unsigned long long)low,
          (unsigned long long)high);
  exit(BENCH_USAGE_EXIT);
}

// Zeroed memory from the kernel, faulted in at once so that no timed loop pays for it.
static inline void *bench_map(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED)
    bench_fail("not enough memory for the benchmark's own table");
  return p;
}

static inline void *bench_malloc(size_t bytes) {
  char *p = malloc(bytes);
  if (p == NULL)
    bench_fail("malloc returned NULL");
  return p;
}

// Allocates a block and writes only its first and last byte, so that nearly all of the cost is the allocator's.
static inline void *bench_touched(size_t bytes) {
  volatile char *p = bench_malloc(bytes);
  p[0] = 1;
  p[bytes - 1] = 1;
  return (void *)(uintptr_t)p;
}

// Also writes one byte of every page, so that all pages are faulted in, as when a program fills the block.
static inline void *bench_filled(size_t bytes) {
  volatile char *p = bench_touched(bytes);
  for (size_t at = BENCH_PAGE_BYTES; at < bytes; at += BENCH_PAGE_BYTES)
    p[at] = 1;
  return (void *)(uintptr_t)p;
}

// A figure in KiB from a file of /proc/self in `Name:  123 kB` form, read without the allocator; 0 if absent.
static inline uint64_t bench_proc_kib(const char *path, const char *name) {
  static char text[8192];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  size_t used = 0;
  for (ssize_t n; used < sizeof text - 1 && (n = read(fd, text + used, sizeof text - 1 - used)) > 0;)
    used += (size_t)n;
  close(fd);
  text[used] = '\0';
  const char *at = strstr(text, name);
  return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

static inline uint64_t bench_rss_kib(void) {
  return bench_proc_kib("/proc/self/smaps_rollup", "\nRss:");
}

// The kernel updates its high-water mark in per-processor batches, so the mark may be too low. The exact present value
// is therefore taken if it is higher.
static inline uint64_t bench_peak_kib(void) {
  uint64_t now = bench_rss_kib();
  uint64_t peak = bench_proc_kib("/proc/self/status", "\nVmHWM:");
  return peak > now ? peak : now;
}

#endif
