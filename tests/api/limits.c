/* Requests that cannot be met: sizes near SIZE_MAX, products and sums that overflow. NULL, ENOMEM, nothing broken. */
#include <errno.h>
#include <stdint.h>

#include "check.h"
#include "names.h"

static const size_t impossible[] = {
    SIZE_MAX,         SIZE_MAX - 1,       SIZE_MAX - 15,           SIZE_MAX - 16,    SIZE_MAX - 4095,
    SIZE_MAX - 4096,  SIZE_MAX - 65536,   SIZE_MAX - (2 << 20),    SIZE_MAX / 2 + 1, PTRDIFF_MAX,
    PTRDIFF_MAX - 15, PTRDIFF_MAX - 4096, PTRDIFF_MAX - (2 << 20), SIZE_MAX / 4,     (size_t)1 << 62,
    (size_t)1 << 56,
};

static void no_memory(void *block) {
  CHECK(block == NULL);
  CHECK(errno == ENOMEM);
  errno = 0;
}

static void impossible_sizes(void) {
  errno = 0;
  for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
    size_t bytes = hide_size(impossible[i]);
    no_memory(hak_malloc(bytes));
    no_memory(hak_calloc(1, bytes));
    no_memory(hak_calloc(bytes, 1));
    no_memory(hak_realloc(NULL, bytes));
    no_memory(hak_reallocarray(NULL, bytes, 1));
    no_memory(hak_valloc(bytes));
    no_memory(hak_pvalloc(bytes));
  }
}

static void impossible_aligned_sizes(void) {
  errno = 0;
  for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
    for (size_t alignment = 8; alignment <= (size_t)1 << 40; alignment *= 2) {
      size_t bytes = hide_size(impossible[i]);
      no_memory(hak_aligned_alloc(alignment, bytes));
      no_memory(hak_memalign(alignment, bytes));
      void *untouched = &untouched;
      CHECK(hak_posix_memalign(&untouched, alignment, bytes) == ENOMEM);
      CHECK(untouched == &untouched);
      errno = 0;
    }
  }
}

static void impossible_alignments(void) {
  for (size_t alignment = (size_t)1 << 50; alignment != 0; alignment *= 2) {
    for (size_t bytes = 1; bytes < 1000000; bytes *= 10) {
      errno = 0;
      CHECK(hak_aligned_alloc(hide_size(alignment), bytes) == NULL);
      CHECK(errno == ENOMEM || errno == EINVAL);
      errno = 0;
      CHECK(hak_memalign(hide_size(alignment), bytes) == NULL);
      CHECK(errno == ENOMEM || errno == EINVAL);
    }
  }
}

/* The sum of size and alignment overflows size_t or int64_t. */
static void sums_that_overflow(void) {
  errno = 0;
  for (size_t alignment = 16; alignment != 0; alignment *= 2) {
    const size_t sizes[] = {0 - alignment,      0 - alignment - 1,   0 - alignment + 1,
                            0 - alignment - 31, 0 - 2 * alignment,   SIZE_MAX - 31,
                            SIZE_MAX,           PTRDIFF_MAX,         PTRDIFF_MAX - 4096,
                            PTRDIFF_MAX + 1ULL, PTRDIFF_MAX - 31ULL, SIZE_MAX / 2 - alignment / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      size_t bytes = hide_size(sizes[i]), odd = hide_size(alignment - alignment / 4);
      if (bytes < (size_t)1 << 50 && alignment < (size_t)1 << 50) {
        continue; /* an address space may hold this */
      }
      no_memory(hak_aligned_alloc(alignment, bytes));
      no_memory(hak_aligned_alloc(odd, bytes));
      no_memory(hak_memalign(alignment, bytes));
      no_memory(hak_memalign(odd, bytes));
      void *untouched = &untouched;
      CHECK(hak_posix_memalign(&untouched, alignment, bytes) == ENOMEM && untouched == &untouched);
      errno = 0;
    }
  }
}

/* After a refused realloc, the block is unchanged. */
static void growth_that_cannot_be(void) {
  static const size_t sizes[] = {0, 1, 1000, 100000, 3 << 20};
  errno = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    size_t usable = hak_malloc_usable_size(block);
    for (size_t j = 0; j < sizeof impossible / sizeof impossible[0]; j++) {
      no_memory(hak_realloc(block, hide_size(impossible[j])));
      no_memory(hak_reallocarray(block, hide_size(impossible[j]), 1));
      no_memory(hak_reallocarray(block, hide_size(SIZE_MAX / 2), 3));
      CHECK(hak_malloc_usable_size(block) == usable);
    }
    hak_free(block);
  }
}

static void products_that_overflow(void) {
  static const size_t pairs[][2] = {
      {SIZE_MAX, 2},
      {SIZE_MAX / 2 + 1, 2},
      {SIZE_MAX / 3 + 1, 3},
      {(size_t)1 << 32, (size_t)1 << 32},
      {((size_t)1 << 32) + 1, ((size_t)1 << 32) + 1},
      {SIZE_MAX, SIZE_MAX},
      {SIZE_MAX / 16 + 2, 16},
      {(size_t)1 << 60, 24},
  };
  errno = 0;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    for (int swap = 0; swap < 2; swap++) {
      size_t a = hide_size(pairs[i][swap]), b = hide_size(pairs[i][!swap]);
      no_memory(hak_calloc(a, b));
      no_memory(hak_reallocarray(NULL, a, b));
    }
  }
}

static void ordinary_requests_still_work(void) {
  static const size_t sizes[] = {1, 100, 1000, 10000, 100000, 1000000, 10000000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    block[0] = block[sizes[i] - 1] = 1;
    hak_free(block);
  }
}

int main(void) {
  impossible_sizes();
  impossible_aligned_sizes();
  impossible_alignments();
  sums_that_overflow();
  growth_that_cannot_be();
  products_that_overflow();
  ordinary_requests_still_work();
  return 0;
}
