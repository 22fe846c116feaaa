/* A block is overrun by BYTES bytes into the free block behind it. Each byte there changes: a fixed value would equal
 * the present one in one process of 256. */
#include <stdint.h>
#include <string.h>

#include "crime.h"

enum { BLOCKS = 64 };

int main(void) {
  char *blocks[BLOCKS], *front = NULL, *behind = NULL;
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = take(BLOCK_BYTES);
  }
  size_t usable = hak_malloc_usable_size(blocks[0]);
  for (size_t i = 0; i < BLOCKS * BLOCKS; i++) {
    if (blocks[i % BLOCKS] == blocks[i / BLOCKS] + usable) {
      front = blocks[i / BLOCKS];
      behind = blocks[i % BLOCKS];
    }
  }
  CHECK(behind != NULL); /* two of the blocks must be neighbours */
  announce(behind);
  give(behind);
  memset(hide_pointer(front), 0x42, usable);
  for (size_t i = 0; i < BYTES; i++) {
    ((char *)hide_pointer(front))[usable + i] ^= 0x42;
  }
  drain(BLOCK_BYTES);
  return 0;
}
