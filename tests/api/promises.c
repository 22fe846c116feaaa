/* The promises of the manual pages. Prints a line for each call: its result, errno and, where a block is promised,
 * whether there is one. promises.sh compares the lines of the C library with those of the preloaded library. */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static char lines[1 << 20];
static size_t length;

/* The lines are printed at the end, so that allocations by stdio are not counted. */
static void line(const char *call, size_t a, size_t b, const char *result, int error) {
  length +=
      (size_t)snprintf(lines + length, sizeof lines - length, "%s %#zx %#zx: %s errno %d\n", call, a, b, result, error);
  CHECK(length < sizeof lines - 256);
}

static void number(const char *call, size_t a, size_t b, long value) {
  char text[32];
  int error = errno;
  snprintf(text, sizeof text, "%ld", value);
  line(call, a, b, text, error);
}

/* Whether the call returned a block, and whether its alignment and usable size suffice. */
static void block(const char *call, size_t a, size_t b, void *fresh, size_t alignment, size_t bytes) {
  int error = errno;
  bool good = fresh && (uintptr_t)fresh % alignment == 0 && (bytes == 0 || malloc_usable_size(fresh) >= bytes);
  line(call, a, b, !fresh ? "NULL" : good ? "block" : "BAD", error);
  free(fresh);
}

static size_t power(size_t n) {
  size_t power = 1;
  while (power < n && power != 0) {
    power *= 2;
  }
  return power ? power : 1;
}

static const size_t sizes[] = {0,
                               1,
                               24,
                               4096,
                               100000,
                               3 << 20,
                               PTRDIFF_MAX - 4096,
                               PTRDIFF_MAX,
                               PTRDIFF_MAX + 1ULL,
                               SIZE_MAX - 4096,
                               SIZE_MAX - 31,
                               SIZE_MAX};
static const size_t alignments[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    8,
                                    12,
                                    16,
                                    24,
                                    48,
                                    64,
                                    100,
                                    4096,
                                    5000,
                                    1 << 20,
                                    PTRDIFF_MAX / 2 + 1ULL,
                                    PTRDIFF_MAX,
                                    PTRDIFF_MAX + 1ULL,
                                    PTRDIFF_MAX + 2ULL,
                                    SIZE_MAX};
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define EACH(index, array) for (size_t index = 0; (index) < COUNT(array); (index)++)
#define TRY(expression) (errno = 0, (expression))

static void plain(void) {
  EACH(i, sizes) {
    size_t n = hide_size(sizes[i]);
    block("malloc", n, 0, TRY(malloc(n)), 16, n);
    block("valloc", n, 0, TRY(valloc(n)), 4096, n);
    block("pvalloc", n, 0, TRY(pvalloc(n)), 4096, n);
    block("realloc NULL", n, 0, TRY(realloc(NULL, n)), 16, n);
    EACH(j, sizes) {
      size_t m = hide_size(sizes[j]), product;
      product = __builtin_mul_overflow(n, m, &product) ? 0 : product;
      if (product < (size_t)1 << 30 || product > (size_t)1 << 50) { /* else an address space may hold it */
        block("calloc", n, m, TRY(calloc(n, m)), 16, product);
        block("reallocarray NULL", n, m, TRY(reallocarray(NULL, n, m)), 16, product);
      }
    }
  }
}

static void aligned(void) {
  EACH(i, alignments) {
    EACH(j, sizes) {
      size_t a = hide_size(alignments[i]), n = hide_size(sizes[j]);
      block("aligned_alloc", a, n, TRY(aligned_alloc(a, n)), power(a), n);
      block("memalign", a, n, TRY(memalign(a, n)), power(a), n);
      void *fresh = lines;
      int error = TRY(posix_memalign(&fresh, a, n));
      char text[32];
      snprintf(text, sizeof text, "%d", error);
      line("posix_memalign", a, n, text, 0); /* errno is not promised */
      if (error == 0) {
        block("posix_memalign's", a, n, fresh, power(a), n);
      } else {
        CHECK(fresh == lines);
      }
    }
  }
}

static void resized(void) {
  EACH(i, sizes) {
    for (size_t from = 1; from < (size_t)8 << 20; from = from * 40 + 7) {
      char *old = malloc(from);
      CHECK(old != NULL);
      old[0] = 5;
      size_t n = hide_size(sizes[i]);
      char *fresh = TRY(i % 2 ? realloc(old, n) : reallocarray(old, n, 1));
      int error = errno;
      CHECK(n == 0 || (fresh ? fresh[0] : old[0]) == 5);
      errno = error;
      block("realloc", from, n, fresh, 16, n);
      if (!fresh && n != 0) {
        free(old); /* a refused call leaves it unchanged */
      }
    }
  }
}

static void sized_questions(void) {
  EACH(i, sizes) {
    if (sizes[i] < (size_t)1 << 30) {
      void *some = malloc(sizes[i]);
      number("malloc_usable_size of enough", sizes[i], 0, malloc_usable_size(some) >= sizes[i]);
      free(some);
    }
  }
  number("malloc_usable_size of NULL", 0, 0, (long)TRY(malloc_usable_size(NULL)));
  void *none = malloc(0);
  number("malloc_usable_size of malloc(0)", 0, 0, (long)TRY(malloc_usable_size(none)));
  free(none);
  errno = EDOM;
  free(NULL);
  free(malloc(100));
  free(malloc(5 << 20));
  number("free keeps", 0, 0, 0);
}

static void options(void) {
  static const int parameters[] = {M_MXFAST,         M_NLBLKS,         M_GRAIN,        M_KEEP,    M_TOP_PAD,
                                   M_MMAP_THRESHOLD, M_MMAP_MAX,       M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST,
                                   M_ARENA_MAX,      M_TRIM_THRESHOLD, INT32_MAX / 2};
  static const int values[] = {-1, 0, 1, 160, 161, 1 << 20};
  EACH(i, parameters) {
    EACH(j, values) {
      bool upsets = parameters[i] == M_PERTURB || parameters[i] == M_MMAP_MAX; /* glibc: changes later calls */
      int value = upsets ? 0 : values[j];
      number("mallopt", (size_t)parameters[i], (size_t)values[j], TRY(mallopt(parameters[i], value)));
    }
  }
}

static void reports(void) {
  FILE *nowhere = fopen("/dev/null", "w");
  CHECK(nowhere != NULL);
  number("malloc_info", 0, 0, TRY(malloc_info(0, nowhere)));
  number("malloc_info", 1, 0, TRY(malloc_info(1, nowhere)));
  number("malloc_info", (size_t)-1, 0, TRY(malloc_info(-1, nowhere)));
  fclose(nowhere);
  enum { BLOCKS = 10000, BYTES = 1000, LARGE = 40 << 20 };
  static void *blocks[BLOCKS];
  struct mallinfo2 before = mallinfo2();
  EACH(i, blocks) {
    blocks[i] = malloc(BYTES);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, BYTES);
  }
  void *large = hide_pointer(malloc(LARGE));
  struct mallinfo2 during = mallinfo2();
  errno = 0;
  number("mallinfo2 blocks", 0, 0, during.uordblks - before.uordblks >= (size_t)BLOCKS * BYTES);
  number("mallinfo2 large", 0, 0, during.hblks == before.hblks + 1 && during.hblkhd - before.hblkhd >= LARGE);
  number("mallinfo2 sum", 0, 0, during.uordblks + during.fordblks <= during.arena + (4 << 20));
  free(large);
  EACH(i, blocks) {
    free(blocks[i]);
  }
  number("mallinfo2 freed", 0, 0, mallinfo2().uordblks < before.uordblks + (1 << 20));
  number("malloc_trim first", 0, 0, TRY(malloc_trim(0)));
  number("malloc_trim second", 0, 0, TRY(malloc_trim(0)));
}

int main(void) {
  reports(); /* first, since they would count memory that other calls freed */
  plain();
  aligned();
  resized();
  sized_questions();
  options(); /* last, since some of glibc's options stay in force */
  CHECK(fwrite(lines, 1, length, stdout) == length);
  return 0;
}
