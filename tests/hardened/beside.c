/* A write of 1 to 32 bytes before or behind a block ends the process at the latest when the block is freed: of each
 * size, beside live blocks and beside fresh memory, with zeros as well. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { LIVE = 20, ONLY_ZEROS_FROM = 8 };

static const size_t sizes[] = {16, 24, 100, 1000, 4000, 20000, 41000, 100000, 200000, 300000, 1 << 20, (1 << 20) + 8};
static const size_t widths[] = {1, 8, 16, 32};

typedef struct misuse {
  size_t bytes, width;
  bool before, zeros, live;
} misuse_t;

static char *take(size_t bytes) {
  char *block = hide_pointer(malloc(bytes));
  CHECK(block != NULL);
  memset(block, 1, bytes);
  return block;
}

static void commit(misuse_t misuse) {
  for (int i = 0; misuse.live && i < LIVE; i++) {
    take(misuse.bytes);
  }
  char *block = take(misuse.bytes);
  volatile char *at = misuse.before ? block - misuse.width : block + misuse.bytes;
  for (size_t i = 0; i < misuse.width; i++) {
    at[i] = misuse.zeros ? 0 : (char)(at[i] ^ 0x42);
  }
  free(block);
}

static bool is_stopped(misuse_t misuse) {
  int status;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    commit(misuse);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status);
}

int main(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
    for (size_t width = 0; width < sizeof widths / sizeof *widths; width++) {
      for (int kind = 0; kind < 8; kind++) {
        misuse_t misuse = {sizes[size], widths[width], kind & 1, kind & 2, kind & 4};
        /* A single byte of the seal before a block may be 0. */
        bool possible = !misuse.before || !misuse.zeros || misuse.width >= ONLY_ZEROS_FROM;
        if (possible && !is_stopped(misuse)) {
          printf("%zu bytes: %zu %s %s, %s blocks\n", misuse.bytes, misuse.width, misuse.zeros ? "zeros" : "bytes",
                 misuse.before ? "before" : "behind", misuse.live ? "beside" : "without other");
          return 1;
        }
      }
    }
  }
  return 0;
}
