/* An option of the environment is in force from the first block on, however the library was loaded. */
#include <string.h>

#include "trap.h"

static const char *read_option(const char *name) {
  static char value[64];
  CHECK(HAK(hak_option_get)(name, value, sizeof value) == 0);
  return value;
}

int main(void) {
  CHECK(strcmp(read_option("DECAY_MS"), "123") == 0);
  hak_free(hide_pointer(hak_malloc(100)));
  CHECK(strcmp(read_option("DECAY_MS"), "123") == 0);
  CHECK(strcmp(read_option("MEMORY_LIMIT"), "0") != 0);
  CHECK(hak_malloc(80 << 20) == NULL); /* HAKMEM_MEMORY_LIMIT=64M */
  return 0;
}
