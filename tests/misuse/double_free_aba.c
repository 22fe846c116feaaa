/* free(a), free(b), free(a): the pattern that a comparison with the last freed block misses. */
#include "crime.h"

int main(void) {
  void *a = take(BLOCK_BYTES);
  void *b = take(BLOCK_BYTES);
  announce(a);
  give(a);
  give(b);
  hak_free(hide_pointer(a));
  drain(BLOCK_BYTES);
  return 0;
}
