/* A stale pointer frees the block of its new owner; the owner then frees it too. */
#include "crime.h"

int main(void) {
  void *stale = take(BLOCK_BYTES);
  give(stale);
  void *owner = take(BLOCK_BYTES);
  CHECK(owner == stale);
  announce(owner);
  hak_free(hide_pointer(stale));
  give(owner);
  drain(BLOCK_BYTES);
  return 0;
}
