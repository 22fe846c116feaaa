/* Blocks whose pages the program protected, or kept from the children of a fork, and freed so: the next owner can write
 * to them, and so can its child.
 *
 * argument: what is done to the pages */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { BLOCKS = 200, PAGE = 4096, INSTALL_GUARD = 102 };

static const char *how;

/* False: the system does not offer it. */
static bool alter(void *at, size_t bytes) {
  if (strcmp(how, "read-only") == 0) {
    return mprotect(at, bytes, PROT_READ) == 0;
  }
  if (strcmp(how, "no-access") == 0) {
    return mprotect(at, bytes, PROT_NONE) == 0;
  }
  if (strcmp(how, "not-forked") == 0) {
    return madvise(at, bytes, MADV_DONTFORK) == 0;
  }
  if (strcmp(how, "wiped") == 0) {
    return madvise(at, bytes, MADV_WIPEONFORK) == 0;
  }
  return madvise(at, bytes, INSTALL_GUARD) == 0;
}

static void allocate(char **blocks, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)i | 1, bytes);
  }
}

static void verify_and_free(char **blocks, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    for (size_t at = 0; at < bytes; at += PAGE / 4) {
      CHECK(blocks[i][at] == (char)(i | 1));
    }
    hak_free(blocks[i]);
  }
}

static void in_a_child(char **blocks, size_t count, size_t bytes) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    verify_and_free(blocks, count, bytes);
    allocate(blocks, count, bytes);
    verify_and_free(blocks, count, bytes);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* `from` of the block's pages on; every third is resized instead of freed. */
static void blocks_of(size_t bytes, size_t alignment, size_t from) {
  static char *blocks[BLOCKS];
  size_t count = bytes > (1 << 20) ? BLOCKS / 10 : BLOCKS;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_aligned_alloc(alignment, bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, bytes);
    if (!alter(blocks[i] + from, (bytes & -(size_t)PAGE) - from)) {
      trap_skip("not offered");
    }
  }
  for (size_t i = 0; i < count; i++) {
    hak_free(i % 3 && from > 0 ? hak_realloc(blocks[i], bytes + bytes / 2) : blocks[i]);
  }
  allocate(blocks, count, bytes);
  in_a_child(blocks, count, bytes);
  verify_and_free(blocks, count, bytes);
}

int main(int count, char **arguments) {
  static const size_t sizes[] = {4096, 10240, 32768, 65536, 500000, 1 << 20, 2 << 20, 5 << 20, 6500000};
  CHECK(count == 2);
  how = arguments[1];
  trap_watchdog(60);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    blocks_of(sizes[i], PAGE, 0);
    if (sizes[i] > PAGE && how[0] != 'n' && how[0] != 'g') { /* whose contents cannot be copied */
      blocks_of(sizes[i], PAGE, PAGE);
    }
    blocks_of(sizes[i], i % 2 ? 65536 : 2 << 20, 0);
  }
  HAK(hak_check)();
  return 0;
}
