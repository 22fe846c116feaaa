/* A library that is loaded with RTLD_DEEPBIND. Its references are looked up first in itself and in the C library, and
 * so do not reach the library that serves malloc for the rest of the process. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

void plugin_own_blocks(void) {
  enum { BLOCKS = 100 };
  char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(i * 100 + 1);
    if (blocks[i] == NULL)
      abort();
    memset(blocks[i], 'x', i * 100 + 1);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i][i * 100] != 'x')
      abort();
    free(blocks[i]);
  }
}

char *plugin_copy_text(const char *text) {
  return strdup(text);
}

void plugin_free(void *block) {
  free(block);
}

void *plugin_malloc(size_t bytes) {
  return malloc(bytes);
}
