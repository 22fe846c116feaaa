/* Run with HAKMEM_MEMORY_LIMIT=64M: the limit can be reached, is never exceeded, and freed memory can be allocated
 * again. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "names.h"

#define LIMIT_BYTES ((size_t)64 << 20)

static unsigned char *blocks[LIMIT_BYTES / 100 + 1];

static size_t fill(size_t bytes) {
  size_t count = 0;
  errno = 0;
  while ((blocks[count] = hak_malloc(bytes)) != NULL) {
    memset(blocks[count], (int)count & 0xff, bytes);
    count++;
    CHECK(count * bytes <= LIMIT_BYTES);
  }
  CHECK(errno == ENOMEM);
  return count;
}

static void fill_and_release(size_t bytes) {
  size_t count = fill(bytes);
  CHECK(count * bytes >= LIMIT_BYTES / 10 * 6);
  size_t freed = 0;
  for (size_t i = 0; i < count; i += 2) {
    CHECK(blocks[i][bytes - 1] == (i & 0xff));
    hak_free(blocks[i]);
    blocks[i] = NULL;
    freed++;
  }
  for (size_t i = 0; i < count && freed > 2; i += 2) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    freed--;
  }
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
  }
}

/* Allocate all memory that is left, as a linked list. */
static void **use_up(void) {
  void **all = NULL;
  for (size_t bytes = 2 << 20; bytes >= 16; bytes /= 2) {
    for (void **block; (block = hak_malloc(bytes)) != NULL; all = block) {
      *block = all;
    }
  }
  return all;
}

static void give_up(void **all) {
  while (all) {
    void **next = *all;
    hak_free(all);
    all = next;
  }
}

/* Without memory, realloc to a smaller size succeeds: the block stays in place. */
static void shrinking_without_memory(void) {
  static const size_t sizes[] = {700, 2000, 20000, 100000, 300000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *block = hak_malloc(sizes[i]);
    CHECK(block != NULL);
    memset(block, 0x77, sizes[i]);
    void **all = use_up();
    errno = EDOM;
    unsigned char *smaller = hak_realloc(block, 33);
    CHECK(smaller == block && errno == EDOM);
    for (size_t at = 0; at < 33; at++) {
      CHECK(smaller[at] == 0x77);
    }
    hak_free(smaller);
    give_up(all);
  }
}

/* If memory is short, a block may come from a larger class, whose blocks lack the alignment. */
static void aligned_without_memory(void) {
  enum { BLOCKS = 8, BYTES = 80, ALIGNMENT = 64 };
  unsigned char *odd[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    odd[i] = hak_malloc(BYTES);
    CHECK(odd[i] != NULL);
  }
  void **all = use_up();
  for (int i = 0; i < BLOCKS; i++) {
    if ((uintptr_t)odd[i] % ALIGNMENT != 0) {
      hak_free(odd[i]);
      errno = 0;
      CHECK(hak_aligned_alloc(ALIGNMENT, ALIGNMENT) == NULL && errno == ENOMEM);
    }
  }
  give_up(all);
}

int main(void) {
  fill_and_release(1024);
  fill_and_release(100);
  fill_and_release(20000);
  fill_and_release((size_t)1 << 20);
  fill_and_release(1024);
  CHECK(hak_malloc(2 * LIMIT_BYTES) == NULL);
  CHECK(errno == ENOMEM);
  shrinking_without_memory();
  aligned_without_memory();
  return 0;
}
