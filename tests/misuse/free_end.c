/* free of the first byte after a block, where no live block begins. A block that was never handed out may begin there.
 * This call must notice it. Otherwise the end of the process would. */
#include <unistd.h>

#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  char *end = block + hak_malloc_usable_size(block);
  announce(end);
  hak_free(hide_pointer(end));
  _exit(0);
}
