/* realloc and reallocarray: contents across every boundary, the special cases of glibc, failure. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "names.h"
#include "pattern.h"
#include "sizes.h"

static void zero_bytes_frees(void) {
  static const size_t sizes[] = {1, 16, 1000, 20480, 100000, 5 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    CHECK(hak_realloc(block, 0) == NULL);
    block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    CHECK(hak_reallocarray(block, 0, 8) == NULL);
    block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    CHECK(hak_reallocarray(block, 8, 0) == NULL);
  }
}

/* If realloc(p, 0) did not free, so many rounds would exceed the memory of any test machine. */
static void zero_bytes_really_frees(void) {
  for (int round = 0; round < 200000; round++) {
    size_t bytes = round % 100 == 0 ? (size_t)1 << 20 : 4000;
    unsigned char *block = hak_malloc(bytes);
    CHECK(block != NULL);
    block[0] = block[bytes - 1] = 1;
    CHECK(hak_realloc(block, 0) == NULL);
  }
}

static void null_allocates(void) {
  static const size_t sizes[] = {0, 1, 16, 1000, 20480, 100000, 5 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *block = hak_realloc(NULL, sizes[i]);
    CHECK(block != NULL);
    CHECK(hak_malloc_usable_size(block) >= sizes[i]);
    hak_free(block);
    block = hak_reallocarray(NULL, sizes[i], 1);
    CHECK(block != NULL);
    hak_free(block);
  }
}

static void contents_survive(size_t from, size_t to) {
  unsigned char *block = hak_malloc(from);
  CHECK(block != NULL);
  pattern_fill(block, from, from ^ to);
  block = hak_realloc(block, to);
  CHECK(block != NULL);
  CHECK((uintptr_t)block % 16 == 0);
  CHECK(hak_malloc_usable_size(block) >= to);
  CHECK(pattern_holds(block, from < to ? from : to, from, from ^ to));
  pattern_fill(block, to, to);
  CHECK(pattern_holds(block, to, to, to));
  hak_free(block);
}

static void contents_survive_every_boundary(void) {
  static size_t sizes[EDGE_SIZES_MAX];
  size_t count = edge_sizes(sizes, 8 << 20);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < count; j++) {
      /* Every pair of neighbours, and a sample of the far ones. */
      size_t distance = i > j ? i - j : j - i;
      if (distance <= 8 || (i * 31 + j * 17) % 23 == 0) {
        contents_survive(sizes[i], sizes[j]);
      }
    }
  }
}

static void stamp_pages(unsigned char *block, size_t from, size_t to) {
  for (size_t at = from; at + sizeof(size_t) <= to; at += 4096) {
    memcpy(block + at, &at, sizeof at);
  }
}

static void check_pages(const unsigned char *block, size_t to) {
  for (size_t at = 0; at + sizeof(size_t) <= to; at += 4096) {
    size_t found;
    memcpy(&found, block + at, sizeof found);
    CHECK(found == at);
  }
}

static void data_survives_growth_to_200_mib(void) {
  size_t bytes = 1 << 20;
  unsigned char *block = hak_malloc(bytes);
  unsigned char *obstacle = hak_malloc(1 << 20);
  CHECK(block != NULL && obstacle != NULL);
  stamp_pages(block, 0, bytes);
  while (bytes < (size_t)200 << 20) {
    size_t larger = (bytes + bytes / 2) & ~(size_t)4095;
    block = hak_realloc(block, larger);
    CHECK(block != NULL);
    check_pages(block, bytes);
    stamp_pages(block, bytes, larger);
    bytes = larger;
  }
  while (bytes > 100000) {
    bytes = (bytes / 3) & ~(size_t)4095;
    block = hak_realloc(block, bytes);
    CHECK(block != NULL);
    check_pages(block, bytes);
  }
  hak_free(block);
  hak_free(obstacle);
}

static void growing_by_small_steps(void) {
  unsigned char *block = NULL;
  for (size_t bytes = 1; bytes < 200000; bytes += 1 + bytes / 50) {
    block = hak_realloc(block, bytes);
    CHECK(block != NULL);
    block[bytes - 1] = (unsigned char)bytes;
    CHECK(bytes == 1 || block[0] == 1);
  }
  hak_free(block);
}

static void shrinking_a_huge_block_gives_memory_back(void) {
  unsigned char *block = hak_malloc((size_t)64 << 20);
  CHECK(block != NULL);
  memset(block, 7, 5000);
  block = hak_realloc(block, 5000);
  CHECK(block != NULL);
  CHECK(block[0] == 7 && block[4999] == 7);
  CHECK(hak_malloc_usable_size(block) < (1 << 20));
  hak_free(block);
}

/* A block that repeatedly grows and shrinks across the least size of huge blocks is not copied each time. */
static void over_the_border_in_place(void) {
  size_t large = (1 << 20) + (200 << 10), small = 900 << 10;
  unsigned char *block = hak_malloc(large);
  CHECK(block != NULL);
  pattern_fill(block, large, 1);
  for (int i = 0; i < 3; i++) {
    CHECK(hak_realloc(block, small) == block && hak_malloc_usable_size(block) >= small);
    CHECK(hak_realloc(block, large) == block && hak_malloc_usable_size(block) >= large);
  }
  CHECK(pattern_holds(block, small, large, 1));
  block = hak_realloc(block, 100 << 10);
  CHECK(block != NULL && hak_malloc_usable_size(block) < 200 << 10);
  hak_free(block);
}

/* A small block that is huge only because of its alignment, beside blocks of the size of a chunk. */
static void a_little_block_of_huge_alignment(void) {
  enum { NEIGHBOURS = 12 };
  static const size_t sizes[] = {5000, 70000, 900000, 2000000, 5000000};
  const size_t huge = 1100000;
  unsigned char *block = hak_aligned_alloc((size_t)4 << 20, 100), *neighbours[NEIGHBOURS];
  CHECK(block != NULL);
  pattern_fill(block, 100, 3);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    block = hak_realloc(block, sizes[i]);
    CHECK(block != NULL && hak_malloc_usable_size(block) >= sizes[i]);
    CHECK(pattern_holds(block, 100, 100, 3));
    size_t usable = hak_malloc_usable_size(block);
    for (size_t n = 0; n < NEIGHBOURS; n++) {
      neighbours[n] = hak_malloc(huge);
      CHECK(neighbours[n] != NULL);
      pattern_fill(neighbours[n], huge, n);
    }
    CHECK(hak_malloc_usable_size(block) == usable);
    for (size_t n = 0; n < NEIGHBOURS; n++) {
      CHECK(pattern_holds(neighbours[n], huge, huge, n));
      hak_free(neighbours[n]);
    }
  }
  hak_free(block);
}

static void failure_keeps_the_block(void) {
  static const size_t sizes[] = {1, 100, 5000, 100000, 5 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    pattern_fill(block, sizes[i], i);
    errno = 0;
    CHECK(hak_realloc(block, hide_size(PTRDIFF_MAX)) == NULL);
    CHECK(errno == ENOMEM);
    errno = 0;
    CHECK(hak_realloc(block, hide_size(SIZE_MAX - 10)) == NULL);
    CHECK(errno == ENOMEM);
    errno = 0;
    CHECK(hak_reallocarray(block, hide_size(SIZE_MAX / 2), 3) == NULL);
    CHECK(errno == ENOMEM);
    CHECK(pattern_holds(block, sizes[i], sizes[i], i));
    hak_free(block);
  }
}

int main(void) {
  zero_bytes_frees();
  zero_bytes_really_frees();
  null_allocates();
  contents_survive_every_boundary();
  data_survives_growth_to_200_mib();
  growing_by_small_steps();
  shrinking_a_huge_block_gives_memory_back();
  over_the_border_in_place();
  a_little_block_of_huge_alignment();
  failure_keeps_the_block();
  return 0;
}
