/* free_sized and free_aligned_sized (C23): after every way to get a block, and errno. */
#include <errno.h>
#include <stdint.h>

#include "check.h"
#include "names.h"
#include "pattern.h"
#include "sizes.h"

static void sized_free_of_every_size(void) {
  static size_t sizes[EDGE_SIZES_MAX];
  size_t count = edge_sizes(sizes, 4 << 20);
  for (size_t i = 0; i < count; i++) {
    size_t bytes = sizes[i];
    unsigned char *block = hak_malloc(bytes);
    CHECK(block != NULL);
    pattern_fill(block, bytes, i);
    errno = ERANGE;
    hak_free_sized(block, bytes);
    CHECK(errno == ERANGE);
    block = hak_calloc(1, bytes);
    CHECK(block != NULL);
    CHECK(all_zero(block, bytes));
    hak_free_sized(block, bytes);
  }
}

static void sized_free_after_realloc(void) {
  static const size_t sizes[] = {1, 16, 17, 100, 1000, 4097, 20480, 100000, 300000, 3 << 20};
  enum { COUNT = sizeof sizes / sizeof sizes[0] };
  for (size_t i = 0; i < COUNT; i++) {
    for (size_t j = 0; j < COUNT; j++) {
      unsigned char *block = hak_malloc(sizes[i]);
      CHECK(block != NULL);
      pattern_fill(block, sizes[i], j);
      block = hak_realloc(block, sizes[j]);
      CHECK(block != NULL);
      CHECK(pattern_holds(block, sizes[i] < sizes[j] ? sizes[i] : sizes[j], sizes[i], j));
      hak_free_sized(block, sizes[j]);
    }
  }
}

static void sized_free_of_aligned_blocks(void) {
  for (size_t alignment = 1; alignment <= (size_t)1 << 20; alignment *= 2) {
    for (size_t bytes = 1; bytes < 500000; bytes = bytes * 7 + 1) {
      unsigned char *block = hak_aligned_alloc(alignment, bytes);
      CHECK(block != NULL);
      CHECK((uintptr_t)block % alignment == 0);
      block[0] = block[bytes - 1] = 1;
      errno = ERANGE;
      hak_free_aligned_sized(block, alignment, bytes);
      CHECK(errno == ERANGE);
    }
  }
}

static void sized_free_of_null_and_nothing(void) {
  errno = ERANGE;
  hak_free_sized(NULL, 0);
  hak_free_sized(NULL, 100);
  hak_free_aligned_sized(NULL, 64, 64);
  void *empty = hak_malloc(0);
  CHECK(empty != NULL);
  hak_free_sized(empty, 0);
  CHECK(errno == ERANGE);
}

/* Blocks freed by size come back as ordinary blocks: nothing is lost over many rounds. */
static void sized_free_reuses_memory(void) {
  for (int round = 0; round < 300000; round++) {
    unsigned char *block = hak_malloc(4000);
    CHECK(block != NULL);
    block[0] = block[3999] = 1;
    hak_free_sized(block, 4000);
  }
}

int main(void) {
  sized_free_of_every_size();
  sized_free_after_realloc();
  sized_free_of_aligned_blocks();
  sized_free_of_null_and_nothing();
  sized_free_reuses_memory();
  return 0;
}
