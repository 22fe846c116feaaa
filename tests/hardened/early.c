/* Blocks that the program got before the profile was in force, for example in the constructor of a library. */
#include <malloc.h>
#include <string.h>

#include "check.h"

enum { BLOCKS = 300, SIZES = 60 };

static char *blocks[BLOCKS];

static size_t bytes_of(int i) {
  return 1 + (size_t)(i % SIZES) * (size_t)(i % SIZES);
}

static void before(void) {
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(bytes_of(i));
    memset(blocks[i], i, bytes_of(i));
  }
}
__attribute__((section(HAK_TEST_EARLIEST), used)) static void (*const earliest)(void) = before;

static void check(const char *block, int i, size_t bytes) {
  for (size_t at = 0; at < bytes; at++) {
    CHECK(block[at] == (char)i);
  }
}

int main(void) {
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(malloc_usable_size(blocks[i]) >= bytes_of(i));
    check(blocks[i], i, bytes_of(i));
    if (i % 3 == 0) {
      free(blocks[i]);
    } else if (i % 3 == 1) {
      CHECK((blocks[i] = realloc(blocks[i], bytes_of(i) + 100)) != NULL);
      check(blocks[i], i, bytes_of(i));
      free(blocks[i]);
    }
  }
  for (int i = 2; i < BLOCKS; i += 3) { /* those that were left */
    char *fresh = malloc(bytes_of(i));
    CHECK(malloc_usable_size(fresh) == bytes_of(i)); /* of the profile */
    free(fresh);
    check(blocks[i], i, bytes_of(i));
    free(blocks[i]);
  }
  return 0;
}
