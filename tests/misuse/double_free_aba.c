/* free(a), free(b), free(a): the pattern that a comparison with the last freed block misses. */
#include "crime.h"

int main(void) {
  free_aba(BLOCK_BYTES);
  drain(BLOCK_BYTES);
  return 0;
}
