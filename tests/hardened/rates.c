/* How often each mechanism that depends on chance stops a misuse: rates MECHANISM TRIALS
 * results/security.md states the probability. The number of successes must lie in the range that the binomial
 * distribution of that probability misses only once in a hundred million times. */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "prng.h"

enum {
  TAILED = 100, /* request for a block of 112 bytes, with a tail of four bytes and a seal of eight */
  FILLED = 104, /* request for a block without a tail */
  SLAB = 32000, /* beside its fence, a slab has room for one such block */
  LARGE = 300000,
  SLAB_BYTES = 64 << 10,
  CHUNK_BYTES = 2 << 20,
  PLACES = 256,
  SLOTS = 64,
};

static Prng prng;

static double weight(unsigned trials, double p, unsigned times) {
  double ways = lgamma(trials + 1.0) - lgamma(times + 1.0) - lgamma(trials - times + 1.0);
  return exp(ways + times * log(p) + (trials - times) * log(1 - p));
}

/* Fails if a number as far from the expectation as this one, or farther, is too improbable. */
static void expect(unsigned times, unsigned trials, double p) {
  double below = 0, above = 0;
  for (unsigned i = 0; i <= trials; i++) {
    below += i <= times ? weight(trials, p, i) : 0;
    above += i >= times ? weight(trials, p, i) : 0;
  }
  printf("%u of %u, expected %.1f\n", times, trials, trials * p);
  CHECK(below > 1e-8 && above > 1e-8);
}

typedef void misuse_t(unsigned char *block, uint64_t random);

/* Writes one random byte. */
static void write_behind(unsigned char *block, uint64_t random) {
  *(volatile unsigned char *)(block + TAILED) = (unsigned char)random;
  free(block);
}

static void write_before(unsigned char *block, uint64_t random) {
  *(volatile unsigned char *)(block - 1) = (unsigned char)random;
  free(block);
}

static void write_freed(unsigned char *block, uint64_t random) {
  unsigned char *stale = hide_pointer(block);
  free(block);
  *(volatile unsigned char *)(stale + random / 256 % TAILED) = (unsigned char)random;
}

/* Writes a forged seal. */
static void write_seal(unsigned char *block, uint64_t random) {
  memcpy(hide_pointer(block + FILLED), &random, sizeof random);
  free(block);
}

static bool stopped(misuse_t *commit) {
  unsigned char *block = malloc(commit == write_seal ? FILLED : TAILED);
  uint64_t random = prng_next(&prng) >> 8;
  pid_t child = fork();
  CHECK(block != NULL && child >= 0);
  if (child == 0) {
    (void)!freopen("/dev/null", "w", stderr);
    commit(block, random);
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  free(block);
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : status == 0);
  return WIFSIGNALED(status);
}

static void missed(misuse_t *commit, unsigned trials, double p) {
  unsigned misses = 0;
  for (unsigned i = 0; i < trials; i++) {
    misses += !stopped(commit);
  }
  expect(misses, trials, p);
}

/* With HAKMEM_HARDENED_DELAY=0, a freed block joins the ready blocks, from which malloc draws at random. */
static void choice(unsigned trials) {
  void *seen[SLOTS];
  unsigned distinct = 0, same = 0;
  for (unsigned i = 0; i < trials; i++) {
    void *block = malloc(TAILED), *next;
    uintptr_t freed = (uintptr_t)block;
    unsigned at = 0;
    while (at < distinct && seen[at] != block) {
      at++;
    }
    CHECK(at < SLOTS);
    seen[at] = block;
    distinct += at == distinct;
    free(block);
    next = malloc(TAILED);
    same += (uintptr_t)next == freed;
    free(next);
  }
  CHECK(distinct == SLOTS / 2);
  expect(same, trials, 1.0 / distinct);
}

/* The number of frees before a block is handed out again. It waits in one of 64 places until a later block takes the
 * place by chance, then for 64 more frees, and then until malloc draws it from the ready blocks. */
static unsigned frees_until_reuse(void) {
  unsigned char *block = malloc(TAILED);
  uintptr_t stale = (uintptr_t)block;
  unsigned frees = 0;
  free(block);
  for (uintptr_t next = 0; next != stale; frees++) {
    block = malloc(TAILED);
    next = (uintptr_t)block;
    free(block);
  }
  return frees;
}

static void delay(unsigned trials) {
  unsigned least = UINT32_MAX, later = 0;
  for (unsigned i = 0; i < 8 * SLOTS; i++) { /* fills the places */
    frees_until_reuse();
  }
  for (unsigned i = 0; i < trials; i++) {
    unsigned frees = frees_until_reuse();
    least = frees < least ? frees : least;
    later += frees > 2 * SLOTS;
  }
  double p = pow(1 - 1.0 / SLOTS, SLOTS - 1), expected = trials * p; /* if malloc drew the block at once */
  printf("%u of %u, at least %.1f expected\n", later, trials, expected);
  CHECK(least > SLOTS && later > expected - 6 * sqrt(expected * (1 - p)));
}

/* The kernel reads the byte, and says whether it may. */
static bool has_access(const void *address) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  bool read_one = write(ends[1], address, 1) == 1;
  CHECK(read_one || errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
  return read_one;
}

static void guards(unsigned trials) {
  unsigned count = 0;
  for (unsigned i = 0; i < trials; i++) {
    char *block = malloc(SLAB);
    CHECK(block != NULL);
    char *behind = block - (uintptr_t)block % SLAB_BYTES + SLAB_BYTES; /* at the end of a chunk there is none */
    count += (uintptr_t)behind % CHUNK_BYTES != 0 && !has_access(behind);
  }
  expect(count, trials, 1.0 / 8);
}

static bool is_mapped(void *address) {
  return msync(address, 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

/* The address of a freed large block waits until a later free takes its place among 256. */
static void waiting(unsigned trials) {
  enum { FREES = 177 };
  unsigned gone = 0;
  for (unsigned i = 0; i < trials; i++) {
    char *block = malloc(LARGE);
    void *stale = hide_pointer(block + LARGE % 4096); /* start of a page: the block ends where a page ends */
    free(block);
    for (unsigned j = 0; j < FREES && is_mapped(stale); j++) {
      free(hide_pointer(malloc(LARGE)));
    }
    gone += !is_mapped(stale);
  }
  expect(gone, trials, 1 - pow(1 - 1.0 / PLACES, FREES));
}

int main(int count, char **words) {
  CHECK(count == 3);
  const char *mechanism = words[1];
  unsigned trials = (unsigned)strtoul(words[2], NULL, 10);
  prng = prng_seeded((uint64_t)getpid() << 32 ^ (uintptr_t)malloc(1)); /* addresses are random */
  if (strcmp(mechanism, "tail") == 0) {
    missed(write_behind, trials, 1.0 / 256);
  } else if (strcmp(mechanism, "neighbour") == 0) {
    missed(write_before, trials, 1.0 / 256);
  } else if (strcmp(mechanism, "zero") == 0) {
    missed(write_freed, trials, 1.0 / 256);
  } else if (strcmp(mechanism, "seal") == 0) {
    missed(write_seal, trials, ldexp(1, -42));
  } else if (strcmp(mechanism, "choice") == 0) {
    choice(trials);
  } else if (strcmp(mechanism, "delay") == 0) {
    delay(trials);
  } else if (strcmp(mechanism, "guards") == 0) {
    guards(trials);
  } else {
    CHECK(strcmp(mechanism, "waiting") == 0);
    waiting(trials);
  }
  return 0;
}
