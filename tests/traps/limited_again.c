/* Under a limit, memory of freed small blocks serves a large one: the part that threads keep does not pin the rest.
 * When the large block is freed, the memory serves small blocks about as well as at first. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "trap.h"

enum { LIMIT_BYTES = 50 << 20, BLOCKS_MAX = 16384, ROUNDS = 3, SMALL_BYTES = 5000 };

static char *blocks[BLOCKS_MAX];

static size_t fill(size_t bytes, size_t from) {
  while (from < BLOCKS_MAX && (blocks[from] = HAK(hak_malloc)(bytes)) != NULL) {
    memset(blocks[from++], 1, bytes);
  }
  CHECK(from < BLOCKS_MAX && errno == ENOMEM);
  return from;
}

static void release(size_t from, size_t to, size_t step) {
  for (; from < to; from += step) {
    HAK(hak_free)(blocks[from]);
    blocks[from] = NULL;
  }
}

/* At the limit, the heap may map parts of chunks. Such parts do not add up round by round. */
static void nothing_is_lost_by_rounds(void) {
  enum { TIMES = 20, LARGE_BYTES = 40 << 20 };
  for (int i = 0; i < TIMES; i++) {
    release(0, fill(SMALL_BYTES, 0), 1);
  }
  char *large = HAK(hak_malloc)(LARGE_BYTES);
  CHECK(large != NULL);
  HAK(hak_free)(large);
}

int main(void) {
  static const size_t sizes[] = {20000, 9000, 40000};
  struct rlimit limit = {LIMIT_BYTES, LIMIT_BYTES};
  HAK(hak_free)(HAK(hak_malloc)(1));
  CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
  for (size_t i = 0; i < ROUNDS * 3; i++) {
    size_t count = fill(sizes[i % 3], 0);
    release(0, count, 2);
    size_t more = fill(sizes[(i + 1) % 3], count);
    release(0, more, 1);
    char *large = HAK(hak_malloc)(LIMIT_BYTES / 2);
    CHECK(large != NULL);
    HAK(hak_free)(large);
  }
  release(0, fill(300000, 0), 1);
  size_t small = fill(SMALL_BYTES, 0);
  release(0, small, 1);
  CHECK(small * SMALL_BYTES > LIMIT_BYTES / 2);
  nothing_is_lost_by_rounds();
  return 0;
}
