/* Run with HAKMEM_MEMORY_LIMIT=64M: the limit is met, kept, and what was freed can be had again. */
#include <errno.h>
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

int main(void) {
  fill_and_release(1024);
  fill_and_release(100);
  fill_and_release(20000);
  fill_and_release((size_t)1 << 20);
  fill_and_release(1024);
  CHECK(hak_malloc(2 * LIMIT_BYTES) == NULL);
  CHECK(errno == ENOMEM);
  return 0;
}
