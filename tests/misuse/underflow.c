/* The program writes BYTES bytes before the start of the first block of its size. */
#include <stdint.h>
#include <unistd.h>

#include "crime.h"

#define CHUNK_BYTES ((uintptr_t)2 << 20)

int main(void) {
  char *block = take(BLOCK_BYTES);
  if ((uintptr_t)block % CHUNK_BYTES == 0) { /* the heap ends before it; the next place is random */
    execl("/proc/self/exe", "underflow", (char *)NULL);
  }
  announce(block);
  for (size_t i = 1; i <= BYTES; i++) {
    ((char *)hide_pointer(block))[-(ptrdiff_t)i] ^= 0x42;
  }
  give(block);
  return 0;
}
