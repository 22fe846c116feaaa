/* The program writes BYTES bytes at OFFSET into a block it has freed; the next mallocs must not follow them. */
#include <string.h>

#include "crime.h"

int main(void) {
  char *a = take(BLOCK_BYTES);
  char *b = take(BLOCK_BYTES);
  announce(b);
  give(a);
  give(b);
  memset(hide_pointer(b + OFFSET), 0x41, BYTES);
  drain(BLOCK_BYTES);
  return 0;
}
