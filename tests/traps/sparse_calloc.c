/* calloc of what was used before: it reads as zeros, and what the program does not write to is not resident. */
#include <string.h>

#include "trap.h"

#define MIB ((size_t)1 << 20)

static void zeros(const char *block, size_t bytes) {
  CHECK(block != NULL);
  for (size_t at = 0; at < bytes; at++) {
    CHECK(block[at] == 0);
  }
}

/* `written`: of every so many pages one, each time. */
static void little_is_written(size_t bytes, size_t rounds) {
  size_t before = trap_rss_kib(), most = 0;
  for (size_t round = 0; round < rounds; round++) {
    char *block = hak_calloc(1, bytes);
    CHECK(block != NULL && block[0] == 0 && block[bytes / 2] == 0 && block[bytes - 1] == 0);
    block[0] = block[bytes / 2] = block[bytes - 1] = (char)(round | 1);
    size_t now = trap_rss_kib() - before;
    most = now > most ? now : most;
    hak_free(block);
  }
  printf("%zu KiB: at most %zu KiB resident\n", bytes >> 10, most);
  CHECK(most < 1024);
}

/* Written all over, at its ends, in the middle: nothing shows. */
static void what_was_there_is_gone(size_t bytes) {
  for (size_t round = 0; round < 8; round++) {
    char *block = hak_malloc(bytes);
    CHECK(block != NULL);
    size_t from = round % 4 * bytes / 5, part = round % 2 ? bytes / 5 : bytes - from;
    memset(block + from, 0xa5, part);
    hak_free(block);
    block = hak_calloc(1, bytes);
    zeros(block, bytes);
    block[bytes - 1] = block[bytes / 3] = 1;
    hak_free(block);
  }
}

int main(void) {
  trap_watchdog(60);
  little_is_written(100 * MIB, 20);
  little_is_written(9 * MIB, 50);
  little_is_written(3 * MIB, 50);
  static const size_t sizes[] = {40000, 100000, 300000, MIB - 5000, MIB, MIB + 1, 2 * MIB, 7 * MIB + 12345};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    what_was_there_is_gone(sizes[i]);
  }
  return 0;
}
