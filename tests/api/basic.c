/* malloc, calloc, free, malloc_usable_size: results, alignment, zeroing, errno. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "names.h"
#include "pattern.h"
#include "sizes.h"

static void zero_bytes_gives_unique_blocks(void) {
  enum { BLOCKS = 100 };
  void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = i % 3 == 0 ? hak_malloc(0) : i % 3 == 1 ? hak_calloc(0, 7) : hak_calloc(7, 0);
    CHECK(blocks[i] != NULL);
    for (int j = 0; j < i; j++) {
      CHECK(blocks[j] != blocks[i]);
    }
  }
  for (int i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
}

/* All blocks are live at once, and each is written up to its last usable byte. An overlap would destroy a pattern. */
static void usable_bytes_are_the_blocks_own(void) {
  static size_t sizes[EDGE_SIZES_MAX];
  static unsigned char *blocks[EDGE_SIZES_MAX][4];
  size_t count = edge_sizes(sizes, 1 << 20);
  for (size_t i = 0; i < count; i++) {
    for (size_t copy = 0; copy < 4; copy++) {
      unsigned char *block = hak_malloc(sizes[i]);
      CHECK(block != NULL);
      CHECK((uintptr_t)block % 16 == 0);
      CHECK(hak_malloc_usable_size(block) >= sizes[i]);
      memset(block, (int)(i + copy) & 0xff, hak_malloc_usable_size(block));
      blocks[i][copy] = block;
    }
  }
  for (size_t i = 0; i < count; i++) {
    for (size_t copy = 0; copy < 4; copy++) {
      unsigned char *block = blocks[i][copy];
      size_t usable = hak_malloc_usable_size(block);
      CHECK(block[0] == ((i + copy) & 0xff));
      CHECK(memcmp(block, block + 1, usable - 1) == 0);
      hak_free(block);
    }
  }
}

static void every_small_size_is_aligned(void) {
  for (size_t bytes = 0; bytes <= 9000; bytes++) {
    void *block = hak_malloc(bytes);
    CHECK(block != NULL);
    CHECK((uintptr_t)block % 16 == 0);
    CHECK(hak_malloc_usable_size(block) >= bytes);
    hak_free(block);
  }
}

/* There are four classes to a doubling, and fewer from 4 to 64 KiB. Above 1 MiB, sizes are rounded to pages. */
static size_t most_usable(size_t bytes) {
  if (bytes > 1 << 20) {
    return bytes + 65536;
  }
  return bytes > 4096 && bytes <= 65536 ? bytes + bytes / 2 : bytes + bytes / 4 + 16;
}

static void rounding_wastes_little(void) {
  for (size_t bytes = 64; bytes <= 3 << 20; bytes += bytes < 100000 ? 13 : 1300) {
    void *block = hak_malloc(bytes);
    CHECK(block != NULL);
    CHECK(hak_malloc_usable_size(block) <= most_usable(bytes));
    hak_free(block);
  }
}

static void dirty_then_calloc(size_t bytes, size_t blocks) {
  unsigned char *dirty[3];
  CHECK(blocks <= 3);
  for (size_t k = 0; k < blocks; k++) {
    dirty[k] = hak_malloc(bytes);
    CHECK(dirty[k] != NULL);
    memset(dirty[k], 0xff, bytes);
  }
  for (size_t k = 0; k < blocks; k++) {
    hak_free(dirty[k]);
  }
  for (size_t k = 0; k < blocks; k++) {
    dirty[k] = k == 1 ? hak_calloc(bytes, 1) : hak_calloc(1, bytes);
    CHECK(dirty[k] != NULL);
    CHECK(all_zero(dirty[k], bytes));
  }
  for (size_t k = 0; k < blocks; k++) {
    hak_free(dirty[k]);
  }
}

static void calloc_zeroes_what_was_dirty(void) {
  static size_t sizes[EDGE_SIZES_MAX];
  size_t count = edge_sizes(sizes, 8 << 20);
  for (size_t i = 0; i < count; i++) {
    dirty_then_calloc(sizes[i], sizes[i] > (1 << 20) ? 1 : 3);
    if (sizes[i] < (1 << 16)) {
      dirty_then_calloc(sizes[i], 2);
    }
  }
}

/* All usable bytes read as zeros, although a free block holds two words of the allocator. */
static void calloc_zeroes_what_is_usable(void) {
  for (size_t bytes = 0; bytes < 16; bytes++) {
    unsigned char *dirty = hak_malloc(bytes);
    CHECK(dirty != NULL);
    memset(dirty, 0xff, hak_malloc_usable_size(dirty));
    hak_free(dirty);
    unsigned char *block = hak_calloc(1, bytes);
    CHECK(block != NULL);
    CHECK(all_zero(hide_pointer(block), hak_malloc_usable_size(block)));
    hak_free(block);
  }
}

static void calloc_multiplies(void) {
  static const size_t pairs[][2] = {{1, 1}, {3, 5}, {7, 100}, {100, 100}, {333, 1000}, {5000, 1000}, {1, 1 << 22}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    size_t bytes = pairs[i][0] * pairs[i][1];
    void *block = hak_calloc(pairs[i][0], pairs[i][1]);
    CHECK(block != NULL);
    CHECK(hak_malloc_usable_size(block) >= bytes);
    CHECK(all_zero(block, bytes));
    hak_free(block);
  }
}

static void free_keeps_errno(void) {
  static const size_t sizes[] = {0, 16, 1000, 5000, 20480, 100000, 1 << 20, 5 << 20, 64 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    errno = EDOM;
    hak_free(block);
    CHECK(errno == EDOM);
  }
  hak_free(NULL);
  CHECK(errno == EDOM);
}

static void usable_size_of_null_is_zero(void) {
  CHECK(hak_malloc_usable_size(NULL) == 0);
}

int main(void) {
  zero_bytes_gives_unique_blocks();
  usable_bytes_are_the_blocks_own();
  every_small_size_is_aligned();
  rounding_wastes_little();
  calloc_zeroes_what_was_dirty();
  calloc_zeroes_what_is_usable();
  calloc_multiplies();
  free_keeps_errno();
  usable_size_of_null_is_zero();
  return 0;
}
