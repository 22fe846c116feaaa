/* The program writes BYTES bytes at OFFSET into a freed block; the next calls of malloc must not use them as a pointer.
 * Each byte changes: a fixed value would equal the present one in one process of 256. */
#include "crime.h"

int main(void) {
  char *a = take(BLOCK_BYTES);
  char *b = take(BLOCK_BYTES);
  announce(b);
  give(a);
  give(b);
  char *freed = hide_pointer(b + OFFSET);
  for (size_t i = 0; i < BYTES; i++) {
    freed[i] ^= 0x41;
  }
  drain(BLOCK_BYTES);
  return 0;
}
