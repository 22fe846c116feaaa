/* free of the first byte after a block that has no live block behind it: it may be the start of a block that was
 * never handed out. It is noticed at this call: at the end of the process it would be, too. */
#include <unistd.h>

#include "crime.h"

int main(void) {
  char *block = take(BLOCK_BYTES);
  char *end = block + hak_malloc_usable_size(block);
  announce(end);
  hak_free(hide_pointer(end));
  _exit(0);
}
