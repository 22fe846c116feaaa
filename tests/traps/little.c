/* A small program, for scripts that run it where memory is short: takes and frees blocks of up to 4 KiB, 80 KiB in all,
 * and says so. */
#include <string.h>
#include <unistd.h>

#include "trap.h"

enum { BLOCKS = 200 };

int main(void) {
  static char *blocks[BLOCKS];
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t bytes = i % 20 == 0 ? 4000 : 1 + i % 20 * 22;
      blocks[i] = hak_malloc(bytes);
      CHECK(blocks[i] != NULL);
      memset(blocks[i], (int)i, bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      CHECK(blocks[i][0] == (char)i);
      hak_free(blocks[i]);
    }
  }
  CHECK(write(STDOUT_FILENO, "done\n", 5) == 5);
  return 0;
}
