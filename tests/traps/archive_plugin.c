/* A plugin with an allocator of its own inside: libhakmem.a, hidden from the host. */
#include <string.h>

#include "trap.h"

__attribute__((visibility("default"))) void plugin_use(void);

void plugin_use(void) {
  static const size_t sizes[] = {16, 100, 1000, 20000, 100 << 10, 3 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *block = hak_malloc(sizes[i]), *other = hak_malloc(sizes[i]);
    CHECK(block != NULL && other != NULL);
    memset(block, 1, sizes[i]);
    hak_free(block);
    hak_free(other);
  }
}
