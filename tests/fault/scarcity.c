/* A process with 400,000 KiB of address space, as under `ulimit -v 400000`, uses all of it, frees some, and uses it
 * again. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "names.h"
#include "pattern.h"

#define LIMIT_BYTES ((size_t)400000 * 1024)

enum { BLOCKS_MAX = LIMIT_BYTES / 1024 + 1 };
static unsigned char *blocks[BLOCKS_MAX];

static size_t fill(size_t bytes) {
  size_t count = 0;
  while (count < BLOCKS_MAX) {
    errno = 0;
    blocks[count] = hak_malloc(bytes);
    if (blocks[count] == NULL) {
      break;
    }
    pattern_fill(blocks[count], bytes, count);
    count++;
  }
  CHECK(count < BLOCKS_MAX);
  CHECK(errno == ENOMEM);
  return count;
}

static void release(size_t count, size_t bytes, size_t step) {
  for (size_t i = 0; i < count; i += step) {
    if (blocks[i] == NULL) {
      continue;
    }
    CHECK(pattern_holds(blocks[i], bytes, bytes, i));
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

/* Every second block is freed, and can be allocated again at once. The contents of the others are unchanged. */
static size_t fill_and_refill(size_t bytes) {
  size_t count = fill(bytes);
  CHECK(count > 10);
  release(count, bytes, 2);
  for (size_t i = 0; i + 4 < count; i += 2) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    pattern_fill(blocks[i], bytes, i);
  }
  release(count, bytes, 1);
  hak_check();
  return count * bytes;
}

/* The limit must be in force before the first allocation, so the program runs itself again under the limit. */
static void start_again_under_the_limit(char **argv) {
  struct rlimit limit = {.rlim_cur = LIMIT_BYTES, .rlim_max = LIMIT_BYTES};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  char *arguments[] = {argv[0], "limited", NULL};
  bool started = execv("/proc/self/exe", arguments) == 0;
  CHECK(started);
}

int main(int argc, char **argv) {
  if (argc == 1) {
    start_again_under_the_limit(argv);
  }
  CHECK(fill_and_refill(1024) >= LIMIT_BYTES / 10 * 6);
  CHECK(fill_and_refill(20000) >= LIMIT_BYTES / 2); /* a slab of five slices begins only at every eighth slice */
  CHECK(fill_and_refill((size_t)1 << 20) >= LIMIT_BYTES / 2);
  CHECK(fill_and_refill(1024) >= LIMIT_BYTES / 10 * 6);
  CHECK(hak_malloc(LIMIT_BYTES) == NULL);
  CHECK(errno == ENOMEM);
  return 0;
}
