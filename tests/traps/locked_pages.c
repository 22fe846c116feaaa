/* Locked pages are freed: memory that the system refuses to take back causes no error. */
#include <string.h>
#include <sys/mman.h>

#include "trap.h"

enum { BLOCKS = 40000 };

static void lock_some(size_t bytes, size_t every) {
  static char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, bytes);
    if (i % every == 0 && mlock(blocks[i], bytes) != 0) {
      trap_skip("too little may be locked");
    }
  }
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      if (i % 500 != 0) {
        hak_free(blocks[i]);
      }
    }
    HAK(hak_trim)(0);
    for (size_t i = 0; i < BLOCKS; i++) {
      if (i % 500 != 0) {
        blocks[i] = i % 3 ? hak_malloc(bytes) : hak_calloc(1, bytes);
        CHECK(blocks[i] != NULL);
        for (size_t at = 0; i % 3 == 0 && at < bytes; at++) {
          CHECK(blocks[i][at] == 0);
        }
        memset(blocks[i], 2, bytes);
      }
    }
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
}

int main(void) {
  trap_watchdog(60);
  lock_some(64, 3000);
  lock_some(1000, 977);
  HAK(hak_check)();
  return 0;
}
