/* aligned_alloc, memalign, posix_memalign, valloc, pvalloc: alignment, errors, reuse. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "names.h"
#include "pattern.h"

static bool is_aligned(const void *block, size_t alignment) {
  return (uintptr_t)block % alignment == 0;
}

/* Above this alignment, a request may fail for want of address space; then it must fail properly. */
#define SURE_ALIGNMENT ((size_t)1 << 22)

static void use_and_free(void *block, size_t alignment, size_t bytes) {
  if (block == NULL) {
    CHECK(errno == ENOMEM);
    CHECK(alignment > SURE_ALIGNMENT);
    return;
  }
  CHECK(is_aligned(block, alignment));
  CHECK(hak_malloc_usable_size(block) >= bytes);
  pattern_fill(block, bytes, alignment ^ bytes);
  CHECK(pattern_holds(block, bytes, bytes, alignment ^ bytes));
  hak_free(block);
}

static void all_alignments_up_to_a_gigabyte(void) {
  static const size_t sizes[] = {0, 1, 8, 100, 1000, 4096, 5000, 40000, 300000};
  for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      use_and_free(hak_aligned_alloc(alignment, sizes[i]), alignment, sizes[i]);
      use_and_free(hak_memalign(alignment, sizes[i]), alignment, sizes[i]);
      if (alignment < sizeof(void *)) {
        continue;
      }
      void *block = NULL;
      int error = hak_posix_memalign(&block, alignment, sizes[i]);
      CHECK(error == 0 || (error == ENOMEM && alignment > SURE_ALIGNMENT && block == NULL));
      errno = error;
      use_and_free(block, alignment, sizes[i]);
    }
  }
}

static size_t next_power_of_two(size_t n) {
  size_t power = 1;
  while (power < n) {
    power *= 2;
  }
  return power;
}

/* C17 wants NULL for an alignment that is no power of two, and glibc since 2.38 returns EINVAL. Earlier versions of
 * glibc round up to the next power of two, and programs that rely on this must run. A program that expects NULL can use
 * the block. */
static void odd_alignments_are_rounded_up(void) {
  static const size_t odd[] = {0, 3, 6, 7, 12, 17, 24, 33, 40, 48, 96, 100, 1000, 4095, 4097, 5000, 65537, 3 << 20};
  static const size_t sizes[] = {0, 1, 100, 5000, 40000, 300000, 3 << 20};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
      size_t alignment = hide_size(odd[i]), power = next_power_of_two(alignment);
      use_and_free(hak_aligned_alloc(alignment, sizes[j]), power, sizes[j]);
      use_and_free(hak_memalign(alignment, sizes[j]), power, sizes[j]);
    }
  }
  static const size_t beyond[] = {PTRDIFF_MAX + (size_t)2, SIZE_MAX - 1, SIZE_MAX};
  for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
    errno = 0;
    CHECK(hak_aligned_alloc(hide_size(beyond[i]), 64) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(hak_memalign(hide_size(beyond[i]), 64) == NULL && errno == EINVAL);
  }
}

static void a_bad_alignment_is_an_error(void) {
  static const size_t bad[] = {0, 3, 6, 7, 12, 24, 40, 100, 1000, 4095, 4097, SIZE_MAX, SIZE_MAX - 1};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    void *untouched = &untouched;
    CHECK(hak_posix_memalign(&untouched, hide_size(bad[i]), 64) == EINVAL);
    CHECK(untouched == &untouched);
  }
  for (size_t alignment = 1; alignment < sizeof(void *); alignment *= 2) {
    void *untouched = &untouched;
    CHECK(hak_posix_memalign(&untouched, hide_size(alignment), 64) == EINVAL);
    CHECK(untouched == &untouched);
  }
}

/* posix_memalign reports errors by its result, not by errno. */
static void posix_memalign_keeps_errno(void) {
  static const size_t sizes[] = {1, 5000, 100000, 5 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    for (size_t alignment = 16; alignment <= SURE_ALIGNMENT; alignment *= 4) {
      void *block;
      errno = EDOM;
      CHECK(hak_posix_memalign(&block, alignment, sizes[i]) == 0);
      CHECK(errno == EDOM);
      hak_free(block);
      CHECK(hak_posix_memalign(&block, alignment, hide_size(PTRDIFF_MAX)) == ENOMEM);
      CHECK(hak_posix_memalign(&block, alignment + 1, sizes[i]) == EINVAL);
      CHECK(errno == EDOM);
    }
  }
}

static void memalign_rounds_up(void) {
  static const size_t pairs[][2] = {{0, 16}, {1, 16}, {3, 16}, {17, 32}, {24, 32}, {48, 64}, {100, 128}, {5000, 8192}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    use_and_free(hak_memalign(hide_size(pairs[i][0]), 1000), pairs[i][1], 1000);
  }
  errno = 0;
  CHECK(hak_memalign(hide_size(SIZE_MAX / 2 + 2), 16) == NULL);
  CHECK(errno == EINVAL || errno == ENOMEM);
}

static void page_aligned_forms(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  static const size_t sizes[] = {0, 1, 100, 4095, 4096, 4097, 65536, 65537, 1000000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *block = hak_valloc(sizes[i]);
    use_and_free(block, page, sizes[i]);
    size_t whole_pages = (sizes[i] + page - 1) / page * page;
    block = hak_pvalloc(sizes[i]);
    use_and_free(block, page, whole_pages);
  }
}

/* Many aligned blocks alive at once, with ordinary ones between them. */
static void aligned_blocks_do_not_overlap(void) {
  enum { BLOCKS = 600 };
  static unsigned char *blocks[BLOCKS];
  static size_t sizes[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t alignment = (size_t)1 << (i % 15);
    sizes[i] = 1 + (i * 37) % 3000;
    blocks[i] = i % 4 == 3 ? hak_malloc(sizes[i]) : hak_aligned_alloc(alignment, sizes[i]);
    CHECK(blocks[i] != NULL);
    CHECK(i % 4 == 3 || is_aligned(blocks[i], alignment));
    memset(blocks[i], (int)(i & 0xff), hak_malloc_usable_size(blocks[i]));
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i][0] == (i & 0xff));
    CHECK(memcmp(blocks[i], blocks[i] + 1, hak_malloc_usable_size(blocks[i]) - 1) == 0);
    hak_free(blocks[i]);
  }
}

static void aligned_blocks_can_be_resized(void) {
  for (size_t alignment = 16; alignment <= (size_t)1 << 21; alignment *= 2) {
    for (size_t bytes = 1; bytes < 300000; bytes = bytes * 5 + 3) {
      unsigned char *block = hak_aligned_alloc(alignment, bytes);
      CHECK(block != NULL);
      pattern_fill(block, bytes, bytes);
      block = hak_realloc(block, bytes * 3);
      CHECK(block != NULL);
      CHECK(pattern_holds(block, bytes, bytes, bytes));
      hak_free(block);
    }
  }
}

int main(void) {
  all_alignments_up_to_a_gigabyte();
  a_bad_alignment_is_an_error();
  odd_alignments_are_rounded_up();
  posix_memalign_keeps_errno();
  memalign_rounds_up();
  page_aligned_forms();
  aligned_blocks_do_not_overlap();
  aligned_blocks_can_be_resized();
  return 0;
}
