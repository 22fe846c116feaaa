/* free_sized and free_aligned_sized (C23): after every way to get a block, and errno. */
#include <errno.h>
#include <stddef.h>
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
  /* of a class, a run, a huge block in a chunk, and whole chunks that the kernel moves */
  static const size_t sizes[] = {1,       16,     17,      100,     1000,    4097,          20480,   40961,
                                 100000,  300000, 1 << 20, 1200000, 3 << 20, (3 << 20) + 1, 4 << 20, (6 << 20) + 100000,
                                 20 << 20};
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

/* Sizes that go up and down: blocks shrink in place, take the chunk of their tail, or move. */
static void sized_free_after_many_reallocs(void) {
  static const size_t path[] = {100,     50000,   30,      900000,  5 << 20, 1100000, 530000,   9 << 20, 64 << 20,
                                3 << 20, 2000000, 4000000, 4 << 20, 1 << 20, 70000,   33 << 20, 1000};
  enum { COUNT = sizeof path / sizeof path[0], LEAST = 30 };
  for (size_t first = 0; first < COUNT; first++) {
    unsigned char *block = hak_malloc(path[first]);
    CHECK(block != NULL);
    pattern_fill(block, LEAST, first);
    for (size_t i = first + 1; i < COUNT; i++) {
      void *above = hak_malloc(path[i] / 2 + 1); /* it may lie behind the block */
      block = hak_reallocarray(block, 1, path[i]);
      CHECK(block != NULL && hak_malloc_usable_size(block) >= path[i]);
      CHECK(pattern_holds(block, LEAST, LEAST, first));
      block[path[i] - 1] = path[i] > LEAST ? 1 : block[path[i] - 1];
      hak_free_sized(above, path[i] / 2 + 1);
    }
    errno = ERANGE;
    hak_free_sized(block, path[COUNT - 1]);
    CHECK(errno == ERANGE);
  }
}

/* After realloc, an aligned block has only the usual alignment, and is freed with that. */
static void sized_free_of_aligned_blocks_after_realloc(void) {
  static const size_t sizes[] = {1, 100, 5000, 60000, 1 << 20, 5 << 20};
  enum { COUNT = sizeof sizes / sizeof sizes[0] };
  for (size_t alignment = 16; alignment <= (size_t)4 << 20; alignment *= 4) {
    for (size_t i = 0; i < COUNT * COUNT; i++) {
      size_t from = sizes[i / COUNT], to = sizes[i % COUNT];
      unsigned char *block = hak_aligned_alloc(alignment, from);
      CHECK(block != NULL);
      block[0] = 7;
      block = hak_realloc(block, to);
      CHECK(block != NULL && block[0] == 7);
      block[to - 1] = 7;
      if (i % 2) {
        hak_free_aligned_sized(block, _Alignof(max_align_t), to);
      } else {
        hak_free_sized(block, to);
      }
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

/* Blocks freed by size can be allocated again like others: no memory is lost over many rounds. */
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
  sized_free_after_many_reallocs();
  sized_free_of_aligned_blocks_after_realloc();
  sized_free_of_aligned_blocks();
  sized_free_of_null_and_nothing();
  sized_free_reuses_memory();
  return 0;
}
