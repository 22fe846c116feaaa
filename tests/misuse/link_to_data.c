/* A word at OFFSET in a freed block is set to the address of the program's data: malloc must never return that. */
#include <string.h>

#include "crime.h"

static _Alignas(64) char target[4096];

int main(void) {
  registered(target);
  void *a = take(BLOCK_BYTES);
  char *b = take(BLOCK_BYTES);
  give(a);
  give(b);
  announce(b);
  const void *pointer = target;
  memcpy(hide_pointer(b + OFFSET), &pointer, sizeof pointer);
  drain(BLOCK_BYTES);
  return 0;
}
