/* malloc_usable_size of a block that was freed. */
#include "crime.h"

int main(void) {
  void *block = take(BLOCK_BYTES);
  announce(block);
  give(block);
  return hak_malloc_usable_size(hide_pointer(block)) == 1;
}
