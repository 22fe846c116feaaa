/* A program that knows exactly which blocks of each call site are live; heap profiles are compared with its figures.
 *   subject SCALE SEED      prints a line for each site: its name, blocks in use, their bytes, and their usable bytes
 * Every site is a function of its own, which a profile must name. The program ends by exit(), because the three
 * profilers write their profiles there. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITES(X) \
  X(small, 87000, 40, 56) \
  X(mixed, 8000, 16, 1024) \
  X(medium, 512, 8192, 8192) \
  X(pages, 96, 40000, 90000) \
  X(large, 12, 400000, 900000)

static uint64_t state;
static void *kept; /* a list through the first words of all blocks, so that all of them are reachable */

static size_t between(size_t low, size_t high) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return low + (size_t)(state % (high - low + 1));
}

/* Half of the blocks are freed again: the profile must forget them. */
#define DEFINE(site, blocks, low, high) \
  __attribute__((noinline)) static void site(size_t scale) { \
    size_t in_use = 0, bytes = 0, usable = 0; \
    for (size_t i = 0; i < scale * (blocks)*2; i++) { \
      size_t size = between(low, high); \
      void **block = malloc(size); \
      if (block == NULL) \
        exit(1); \
      if (between(0, 1) == 0) { \
        free(block); \
        continue; \
      } \
      *block = kept; \
      kept = block; \
      in_use++; \
      bytes += size; \
      usable += malloc_usable_size(block); \
    } \
    printf("%s %zu %zu %zu\n", #site, in_use, bytes, usable); \
  }
SITES(DEFINE)

int main(int argc, char **argv) {
  if (argc != 3) {
    fputs("usage: subject SCALE SEED\n", stderr);
    return 2;
  }
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer); /* so that libc allocates no buffer */
  size_t scale = strtoul(argv[1], NULL, 10);
  state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
#define RUN(site, blocks, low, high) site(scale);
  SITES(RUN)
  exit(0);
}
